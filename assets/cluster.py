"""What the cluster itself can do."""

from dagster import MaterializeResult, ResourceParam, asset

from assets import landed, plots, srift_plots
from assets.measuring import profile
from assets.metadata import OWNERS, of_frame
from assets.progress import Progress
from assets.resources import StudyResource, WarehouseResource


@asset(
    key=["cluster", "links"],
    group_name="cluster",
    owners=OWNERS,
    kinds={"iperf3", "parquet"},
    pool="measuring_host",
)
def links(
    study: StudyResource, warehouse: WarehouseResource, progress: ResourceParam[Progress]
) -> MaterializeResult:
    """Goodput of 1 to n simultaneous flows between the server and the workers, each direction."""
    round_ = profile(study.open_round(), "links", warehouse.landing, progress)
    rows = landed.rows(round_, warehouse.landing, "links", "link")
    figures = [plots.goodput(part, str(name)) for (name,), part in landed.by_name(rows)]
    return MaterializeResult(metadata=of_frame(rows, round_, figures))


@asset(
    key=["cluster", "contention"],
    deps=[links],
    group_name="cluster",
    owners=OWNERS,
    kinds={"tensorflow", "parquet"},
    pool="measuring_host",
)
def contention(
    study: StudyResource, warehouse: WarehouseResource, progress: ResourceParam[Progress]
) -> MaterializeResult:
    """What transfers of training get of a link that n workers use; empty unless a study asks."""
    round_ = profile(study.open_round(), "contention", warehouse.landing, progress)
    rows = landed.rows(round_, warehouse.landing, "contention", "contention")
    figures = [plots.contention(part, str(name)) for (name,), part in landed.by_name(rows)]
    return MaterializeResult(metadata=of_frame(rows, round_, figures))


@asset(
    key=["cluster", "allreduce"],
    deps=[links],
    group_name="cluster",
    owners=OWNERS,
    kinds={"pytorch", "parquet"},
    pool="measuring_host",
)
def allreduce(
    study: StudyResource, warehouse: WarehouseResource, progress: ResourceParam[Progress]
) -> MaterializeResult:
    """Bus bandwidth of all-reduces by size, ranks and transfers at once; of studies of DDP."""
    round_ = profile(study.open_round(), "allreduce", warehouse.landing, progress)
    rows = landed.rows(round_, warehouse.landing, "allreduce", "allreduce")
    figures = [srift_plots.bus_bandwidth(part, str(name)) for (name,), part in landed.by_name(rows)]
    return MaterializeResult(metadata=of_frame(rows, round_, figures))
