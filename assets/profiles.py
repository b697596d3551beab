"""One worker of each job, traced operation by operation."""

from datetime import timedelta

from dagster import FreshnessPolicy, MaterializeResult, ResourceParam, asset

from assets import landed, plots
from assets.cluster import contention, links
from assets.loading import load_landed
from assets.measuring import trace_profiles
from assets.metadata import OWNERS, of_frame
from assets.progress import Progress
from assets.resources import StudyResource, WarehouseResource


@asset(
    key=["profiles", "tf_trace"],
    deps=[links, contention],
    group_name="profiles",
    owners=OWNERS,
    kinds={"tensorflow", "parquet"},
    pool="measuring_host",
    freshness_policy=FreshnessPolicy.time_window(fail_window=timedelta(days=30)),
)
def tf_trace(
    study: StudyResource, warehouse: WarehouseResource, progress: ResourceParam[Progress]
) -> MaterializeResult:
    """Operations, dependencies, sizes and times of the training steps of one worker."""
    round_ = trace_profiles(study.open_round(), warehouse.landing, progress)
    operations = landed.rows(round_, warehouse.landing, "tf_trace", "operation")
    timings = landed.rows(round_, warehouse.landing, "tf_trace", "timing")
    figures = [
        plots.step_timeline(part, timings.filter(timings["name"] == name), name)
        for (name,), part in operations.group_by("name", maintain_order=True)
    ]
    return MaterializeResult(metadata=of_frame(timings, round_, figures))


@asset(
    key=["profiles", "loaded"],
    deps=[links, contention, tf_trace],
    group_name="profiles",
    owners=OWNERS,
    kinds={"duckdb"},
    pool="warehouse",
)
def profiles_loaded(
    study: StudyResource, warehouse: WarehouseResource, progress: ResourceParam[Progress]
) -> MaterializeResult:
    """Profile runs in the warehouse, where predictors may see them."""
    return load_landed(study.latest_round(), warehouse.open(), "profile", progress)
