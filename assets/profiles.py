"""One node of each curve, measured before anything is predicted."""

from dagster import MaterializeResult, ResourceParam, asset

from assets.cluster import allreduce, contention, links
from assets.loading import load_landed
from assets.metadata import OWNERS
from assets.probing import probe_asset
from assets.resources import StudyResource, WarehouseResource
from reports import plots, srift_plots
from studies.progress import Progress

tf_trace = probe_asset(
    "profiles",
    "tf_trace",
    "timing",
    with_table="operation",
    what="Operations, dependencies, sizes and times of the training steps of one worker.",
    kind="tensorflow",
    deps=[links, contention],
    plot=plots.step_timeline,
)
torch_memory = probe_asset(
    "profiles",
    "torch_memory",
    "sample",
    what="The largest batch of PyTorch networks that fits the memory of a node.",
    kind="pytorch",
    deps=[allreduce],
)
torch_compute = probe_asset(
    "profiles",
    "torch_compute",
    "compute",
    what="Passes of PyTorch networks on one node by batch size, and when gradients are ready.",
    kind="pytorch",
    deps=[torch_memory],
    plot=srift_plots.passes,
)
slowdown = probe_asset(
    "profiles",
    "slowdown",
    "sample",
    what="What passes take longer while all-reduces go on beside them.",
    kind="pytorch",
    deps=[torch_compute],
)
tf_operations = probe_asset(
    "profiles",
    "tf_operations",
    "operation_time",
    what="Operations of one device that trains alone, of networks that predictors may see.",
    kind="tensorflow",
)
tf_sync = probe_asset(
    "profiles",
    "tf_sync",
    "sample",
    what="Synchronous steps of the networks that predictors may see, on one and more nodes.",
    kind="tensorflow",
    deps=[tf_operations],
)

torch_operations = probe_asset(
    "profiles",
    "torch_operations",
    "operation_time",
    what="Operators of one PyTorch device that trains alone, of networks that predictors may see.",
    kind="pytorch",
)
torch_throughput = probe_asset(
    "profiles",
    "torch_throughput",
    "sample",
    what="Steps of DistributedDataParallel of the networks that predictors may see.",
    kind="pytorch",
    deps=[torch_operations],
)


@asset(
    key=["profiles", "loaded"],
    deps=[
        links,
        contention,
        allreduce,
        tf_trace,
        torch_memory,
        torch_compute,
        slowdown,
        tf_operations,
        tf_sync,
        torch_operations,
        torch_throughput,
    ],
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
