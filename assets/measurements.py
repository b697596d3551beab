"""Assets that measure: a probe, run where a round lacks it, and its runs loaded."""

from collections.abc import Sequence
from datetime import timedelta
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

from assets.metadata import OWNERS, of_frame, of_table
from assets.resources import RoundsResource, WarehouseResource
from assets.study_lineage import StudyLineage
from forecasting.round_forecasts import check_predicted
from profilers.probes import PROBES
from studies import run_tables
from studies.measurement import measure, profile
from studies.messages import Progress
from studies.rounds import Round

_MONTH = FreshnessPolicy.time_window(fail_window=timedelta(days=30))
POOL = "measuring_host"


def table_of(probe: str) -> str:
    """Return the table of the history that has most of what a probe lands."""
    return f"raw.{PROBES[probe].tables[0]}"


def profile_asset(of: StudyLineage, probe: str) -> AssetsDefinition:
    """Return the asset that runs a probe for predictors to see, before anything is predicted."""

    @asset(
        key=of.key("profiles", probe),
        description=PROBES[probe].what,
        group_name=of.name,
        owners=OWNERS,
        kinds={PROBES[probe].kind, "profile"},
        pool=POOL,
        freshness_policy=_MONTH,
        metadata=of_table(table_of(probe)),
    )
    def profiled(
        rounds: RoundsResource, warehouse: WarehouseResource, progress: ResourceParam[Progress]
    ) -> MaterializeResult:
        round_ = rounds.opened(of.path)
        with rounds.renting(round_, progress):
            round_ = profile(round_, probe, warehouse.landing, progress)
        rounds.keep(of.path, round_)
        loaded = load(warehouse, progress)
        rows = profile_rows(round_, warehouse.landing, probe)
        return MaterializeResult(metadata=of_frame(rows, round_) | loaded)

    return profiled


def measured_asset(of: StudyLineage, probe: str, predicted: Sequence[AssetKey]) -> AssetsDefinition:
    """Return the asset that runs a probe on test scenarios, after what is predicted of them."""

    @asset(
        key=of.key("measured", probe),
        description=f"{PROBES[probe].what} Of test scenarios, after they have been predicted.",
        deps=predicted,
        group_name=of.name,
        owners=OWNERS,
        kinds={PROBES[probe].kind, "measured"},
        pool=POOL,
        freshness_policy=_MONTH,
        metadata=of_table(table_of(probe)),
    )
    def measured(
        rounds: RoundsResource, warehouse: WarehouseResource, progress: ResourceParam[Progress]
    ) -> MaterializeResult:
        round_ = rounds.latest_here(of.path)
        check_predicted(round_, warehouse.published_ledger())
        with rounds.renting(round_, progress):
            round_ = measure(round_, warehouse.landing, progress, [probe])
        rounds.keep(of.path, round_)
        loaded = load(warehouse, progress)
        samples = run_tables.rows(round_, warehouse.landing, probe, "sample", "measurement")
        return MaterializeResult(metadata=of_frame(samples, round_) | loaded)

    return measured


def profile_rows(round_: Round, landing: Path, probe: str) -> pl.DataFrame:
    """Return the rows of the first table of a probe that fits may see."""
    return run_tables.rows(round_, landing, probe, PROBES[probe].tables[0], "profile")


def load(warehouse: WarehouseResource, progress: Progress) -> dict[str, MetadataValue]:
    """Load whatever has landed; return how much that was. A run set aside is told of."""
    report = warehouse.open().load()
    for run in report.quarantined:
        progress.warn(f"landed run {run.run_id} was set aside in {run.folder}: {run.reason}")
    return {
        "newly_loaded": MetadataValue.int(len(report.loaded)),
        "set_aside": MetadataValue.int(len(report.quarantined)),
    }
