"""One worker of each job, traced operation by operation."""

from datetime import timedelta

from dagster import FreshnessPolicy, MaterializeResult, ResourceParam, asset

from assets import landed, plots, srift_plots
from assets.cluster import allreduce, contention, links
from assets.loading import load_landed
from assets.measuring import profile
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
    round_ = profile(study.open_round(), "tf_trace", warehouse.landing, progress)
    operations = landed.rows(round_, warehouse.landing, "tf_trace", "operation")
    timings = landed.rows(round_, warehouse.landing, "tf_trace", "timing")
    figures = [
        plots.step_timeline(part, timings.filter(timings["name"] == name), str(name))
        for (name,), part in landed.by_name(operations)
    ]
    return MaterializeResult(metadata=of_frame(timings, round_, figures))


@asset(
    key=["profiles", "torch_compute"],
    deps=[allreduce],
    group_name="profiles",
    owners=OWNERS,
    kinds={"pytorch", "parquet"},
    pool="measuring_host",
    freshness_policy=FreshnessPolicy.time_window(fail_window=timedelta(days=30)),
)
def torch_compute(
    study: StudyResource, warehouse: WarehouseResource, progress: ResourceParam[Progress]
) -> MaterializeResult:
    """Passes of PyTorch networks on one node by batch size, and when gradients are ready."""
    round_ = profile(study.open_round(), "torch_compute", warehouse.landing, progress)
    rows = landed.rows(round_, warehouse.landing, "torch_compute", "compute")
    figures = [srift_plots.passes(part, str(name)) for (name,), part in landed.by_name(rows)]
    return MaterializeResult(metadata=of_frame(rows, round_, figures))


@asset(
    key=["profiles", "tf_sync"],
    deps=[tf_trace],
    group_name="profiles",
    owners=OWNERS,
    kinds={"tensorflow", "parquet"},
    pool="measuring_host",
    freshness_policy=FreshnessPolicy.time_window(fail_window=timedelta(days=30)),
)
def tf_sync(
    study: StudyResource, warehouse: WarehouseResource, progress: ResourceParam[Progress]
) -> MaterializeResult:
    """Synchronous steps of the networks that predictors may see, on one and more nodes."""
    round_ = profile(study.open_round(), "tf_sync", warehouse.landing, progress)
    rows = landed.rows(round_, warehouse.landing, "tf_sync", "sample")
    return MaterializeResult(metadata=of_frame(rows, round_))


@asset(
    key=["profiles", "loaded"],
    deps=[links, contention, allreduce, tf_trace, torch_compute, tf_sync],
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
