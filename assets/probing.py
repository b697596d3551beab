"""Assets that measure: a probe, run where a round lacks it, its runs loaded, and shown."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import reduce
from pathlib import Path

import polars as pl
from dagster import (
    AssetKey,
    AssetsDefinition,
    FreshnessPolicy,
    MaterializeResult,
    MetadataValue,
    ResourceParam,
    asset,
)
from matplotlib.figure import Figure

from assets.metadata import OWNERS, comments, of_frame, of_table
from assets.probe_plots import DRAWN
from assets.resources import RoundsResource, WarehouseResource
from assets.sites import send
from assets.studied import Studied
from forecasting.fitting import check_predicted
from profilers.probes import PROBES
from reports import plots
from studies import landed
from studies.measuring import measure, profile
from studies.progress import Progress
from studies.rounds import Round
from warehouse.records import Purpose

_MONTH = FreshnessPolicy.time_window(fail_window=timedelta(days=30))
POOL = "measuring_host"


def table_of(probe: str) -> str:
    """Return the table of the history that has most of what a probe lands."""
    return f"raw.{PROBES[probe].tables[0]}"


def profile_asset(of: Studied, probe: str) -> AssetsDefinition:
    """Return the asset that runs a probe for predictors to see, before anything is predicted."""
    table = table_of(probe)

    @asset(
        key=of.key("profiles", probe),
        description=PROBES[probe].what,
        group_name=of.name,
        owners=OWNERS,
        kinds={PROBES[probe].kind, "profile"},
        pool=POOL,
        freshness_policy=_MONTH,
        metadata=of_table(table),
    )
    def profiled(
        rounds: RoundsResource, warehouse: WarehouseResource, progress: ResourceParam[Progress]
    ) -> MaterializeResult:
        round_ = rounds.opened(of.path)
        with rounds.renting(round_, progress):
            round_ = profile(round_, probe, warehouse.landing, progress)
        loaded = load(warehouse, progress)
        shown, figures = drawn(round_, warehouse.landing, probe)
        metadata = of_frame(shown, round_, figures, comments(warehouse, table))
        return MaterializeResult(metadata=metadata | loaded)

    return profiled


def measured_asset(of: Studied, probe: str, predicted: Sequence[AssetKey]) -> AssetsDefinition:
    """Return the asset that runs a probe on test scenarios, after what is predicted of them."""
    table = table_of(probe)

    @asset(
        key=of.key("measured", probe),
        description=f"{PROBES[probe].what} Of test scenarios, after they have been predicted.",
        deps=predicted,
        group_name=of.name,
        owners=OWNERS,
        kinds={PROBES[probe].kind, "measured"},
        pool=POOL,
        freshness_policy=_MONTH,
        metadata=of_table(table),
    )
    def measured(
        rounds: RoundsResource, warehouse: WarehouseResource, progress: ResourceParam[Progress]
    ) -> MaterializeResult:
        round_ = rounds.latest_here(of.path)
        check_predicted(round_, warehouse.published_ledger())
        with rounds.renting(round_, progress):
            round_ = measure(round_, warehouse.landing, progress, [probe])
        loaded = load(warehouse, progress)
        samples = landed.rows(round_, warehouse.landing, probe, "sample", "measurement")
        figures = _windows(samples, probe) if samples.width else []
        metadata = of_frame(samples, round_, figures, comments(warehouse, table))
        return MaterializeResult(metadata=metadata | loaded)

    return measured


def load(warehouse: WarehouseResource, progress: Progress) -> dict[str, MetadataValue]:
    """Load whatever has landed; return how much that was. A run set aside is told of.

    It goes to the prefix too, if there is one: nothing is being measured now.
    """
    report = warehouse.open().load()
    for one in report.quarantined:
        progress.warn(f"landed run {one.run_id} was set aside in {one.folder}: {one.reason}")
    send(warehouse, progress)
    return {
        "newly_loaded": MetadataValue.int(len(report.loaded)),
        "set_aside": MetadataValue.int(len(report.quarantined)),
    }


def drawn(round_: Round, landing: Path, probe: str) -> tuple[pl.DataFrame, Iterator[Figure]]:
    """Return rows of what predictors see of a probe, and a plot of those of each need."""
    how = DRAWN.get(probe)
    names = how.tables if how else PROBES[probe].tables[:1]
    purpose: Purpose = "profile"
    frames = [landed.rows(round_, landing, probe, name, purpose) for name in names]
    rows = reduce(_joined, frames)
    parts = landed.by_name(rows) if how else ()
    return rows, (how.plot(part, str(name)) for (name,), part in parts if how)


def _joined(one: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    if not one.width or not other.width:
        return one
    both = [name for name in other.columns if name in one.columns]
    return one.join(other, on=both, nulls_equal=True)


def _windows(samples: pl.DataFrame, probe: str) -> list[Figure]:
    """Return a plot of what judges forecasts, one point a window."""
    metric = PROBES[probe].metric
    if metric is None:
        return []
    windows = samples.filter(pl.col("metric") == metric.name)
    names = windows["name"].unique(maintain_order=True).to_list()
    return [plots.windows(windows, names, f"{metric.in_words}, one point per window")]
