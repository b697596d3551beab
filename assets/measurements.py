"""Assets that measure: a probe, run where a round lacks it, its runs loaded, and drawn."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from assets.resources import RoundsResource, WarehouseResource
from assets.study_lineage import StudyLineage
from forecasting.findings.mark import Mark
from forecasting.round_forecasts import check_predicted
from profilers.probes import PROBES
from reports.marks import draw
from studies import run_tables
from studies.measurement import measure, profile
from studies.messages import Progress
from studies.rounds import Round
from warehouse.records import Purpose

_MONTH = FreshnessPolicy.time_window(fail_window=timedelta(days=30))
POOL = "measuring_host"


def table_of(probe: str) -> str:
    """Return the table of the history that has most of what a probe lands."""
    return f"raw.{PROBES[probe].tables[0]}"


def profile_asset(of: StudyLineage, probe: str) -> AssetsDefinition:
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
        shown, figures = profile_figures(round_, warehouse.landing, probe)
        metadata = of_frame(shown, round_, figures, comments(warehouse, table))
        return MaterializeResult(metadata=metadata | loaded)

    return profiled


def measured_asset(of: StudyLineage, probe: str, predicted: Sequence[AssetKey]) -> AssetsDefinition:
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
        samples = run_tables.rows(round_, warehouse.landing, probe, "sample", "measurement")
        figures = _windows(samples, probe) if samples.width else []
        metadata = of_frame(samples, round_, figures, comments(warehouse, table))
        return MaterializeResult(metadata=metadata | loaded)

    return measured


def load(warehouse: WarehouseResource, progress: Progress) -> dict[str, MetadataValue]:
    """Load whatever has landed; return how much that was. A run set aside is told of."""
    report = warehouse.open().load()
    for run in report.quarantined:
        progress.warn(f"landed run {run.run_id} was set aside in {run.folder}: {run.reason}")
    return {
        "newly_loaded": MetadataValue.int(len(report.loaded)),
        "set_aside": MetadataValue.int(len(report.quarantined)),
    }


def profile_figures(
    round_: Round, landing: Path, probe: str
) -> tuple[pl.DataFrame, Iterator[Figure]]:
    """Return rows of what predictors see of a probe, and a plot of those of each need."""
    how = DRAWN.get(probe)
    names = how.tables if how else PROBES[probe].tables[:1]
    purpose: Purpose = "profile"
    frames = [run_tables.rows(round_, landing, probe, name, purpose) for name in names]
    rows = reduce(_joined, frames)
    parts = run_tables.by_name(rows) if how else ()
    return rows, (how.plot(part, str(name)) for (name,), part in parts if how)


def _joined(rows: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    if not rows.width or not other.width:
        return rows
    common = [name for name in other.columns if name in rows.columns]
    return rows.join(other, on=common, nulls_equal=True)


def _windows(samples: pl.DataFrame, probe: str) -> list[Figure]:
    """Return a plot of what judges forecasts, one point a window."""
    metric = PROBES[probe].metric
    if metric is None:
        return []
    windows = samples.filter(pl.col("metric") == metric.name)
    axis = f"{metric.in_words}, one point per window"
    return [draw(Mark("points", axis, ("name",)), windows.rename({"value": axis}))]


# What lineage draws of the runs of some probes; of others it shows rows alone.


@dataclass(frozen=True)
class ProbePlot:
    """The tables whose rows are joined by what they share, and a plot of those of each need."""

    tables: tuple[str, ...]
    mark: Mark
    rows: Callable[[pl.DataFrame], pl.DataFrame]

    def plot(self, rows: pl.DataFrame, title: str) -> Figure:
        """Draw the rows of a need."""
        return draw(self.mark, self.rows(rows), title)


_MBPS = pl.col("bytes").sum() / pl.col("seconds").sum() * 8e-6


def _bus_bandwidth(rows: pl.DataFrame) -> pl.DataFrame:
    medians = rows.group_by("concurrent", "size_bytes").agg(
        mbps=pl.col("bus_bandwidth_Bps").median() * 8e-6
    )
    at_once = pl.format("{} at once", "concurrent")
    return medians.sort("concurrent", "size_bytes").with_columns(at_once=at_once)


DRAWN: Mapping[str, ProbePlot] = {
    "links": ProbePlot(
        ("link",),
        Mark("points", "flows", ("mbps",), of="direction"),
        lambda rows: rows.group_by("direction", "flows", "trial", maintain_order=True).agg(
            mbps=pl.col("bandwidth_Bps").sum() * 8e-6
        ),
    ),
    "contention": ProbePlot(
        ("contention",),
        Mark("points", "flows", ("mbps",), of="direction"),
        lambda rows: rows.group_by("direction", "flows", "place", maintain_order=True).agg(
            mbps=_MBPS
        ),
    ),
    "allreduce": ProbePlot(
        ("allreduce",), Mark("line", "size_bytes", ("mbps",), of="at_once", log="x"), _bus_bandwidth
    ),
    "tf_trace": ProbePlot(
        ("timing", "operation"),
        Mark("spans", "start_ms", ("resource",), to="end_ms"),
        lambda rows: rows.filter(pl.col("step") == pl.col("step").min()).select(
            "resource",
            start_ms=pl.col("start_us") / 1e3,
            end_ms=(pl.col("start_us") + pl.col("duration_us")) / 1e3,
        ),
    ),
    "torch_compute": ProbePlot(
        ("compute",),
        Mark("line", "batch_size", ("forward_s", "backward_s")),
        lambda rows: (
            rows.group_by("batch_size")
            .agg(pl.col("forward_s", "backward_s").mean())
            .sort("batch_size")
        ),
    ),
}
