"""How an asset that profiles is made: a probe, run where the round lacks it, and shown."""

from collections.abc import Callable, Sequence
from datetime import timedelta

import polars as pl
from dagster import AssetsDefinition, FreshnessPolicy, MaterializeResult, ResourceParam, asset
from matplotlib.figure import Figure

from assets.metadata import OWNERS, of_frame
from assets.resources import StudyResource, WarehouseResource
from studies import landed
from studies.measuring import profile
from studies.parts import Probe
from studies.progress import Progress

Plot = Callable[[pl.DataFrame, str], Figure]
_MONTH = FreshnessPolicy.time_window(fail_window=timedelta(days=30))


def probe_asset(
    group: str,
    probe: Probe,
    table: str,
    *,
    with_table: str | None = None,
    what: str,
    kind: str,
    deps: Sequence[AssetsDefinition] = (),
    plot: Plot | None = None,
) -> AssetsDefinition:
    """Return the asset that runs a probe where the round of a study lacks it; empty if it has none.

    Its rows are those of a raw table, joined to those of `with_table` by what both have; `plot`
    draws those of each part of the round.
    """

    @asset(
        key=[group, probe],
        description=what,
        deps=deps,
        group_name=group,
        owners=OWNERS,
        kinds={kind, "parquet"},
        pool="measuring_host",
        freshness_policy=_MONTH,
    )
    def probed(
        study: StudyResource, warehouse: WarehouseResource, progress: ResourceParam[Progress]
    ) -> MaterializeResult:
        round_ = profile(study.open_round(), probe, warehouse.landing, progress)
        rows = landed.rows(round_, warehouse.landing, probe, table, "profile")
        if with_table is not None and rows.width:
            more = landed.rows(round_, warehouse.landing, probe, with_table, "profile")
            both = [name for name in rows.columns if name in more.columns]
            rows = rows.join(more, on=both, nulls_equal=True)
        parts = landed.by_name(rows) if plot is not None else ()
        figures = [plot(part, str(name)) for (name,), part in parts if plot is not None]
        return MaterializeResult(metadata=of_frame(rows, round_, figures))

    return probed
