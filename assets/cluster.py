"""What the cluster itself can do."""

from dagster import MaterializeResult, ResourceParam, asset

from assets import landed, plots
from assets.measuring import measure_contention, measure_links
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
    round_ = measure_links(study.open_round(), warehouse.landing, progress)
    rows = landed.rows(round_, warehouse.landing, "links", "link")
    figures = [plots.goodput(part, name) for (name,), part in rows.group_by("name")]
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
    round_ = measure_contention(study.open_round(), warehouse.landing, progress)
    rows = landed.rows(round_, warehouse.landing, "contention", "contention")
    parts = [] if rows.is_empty() else rows.group_by("name")
    figures = [plots.contention(part, name) for (name,), part in parts]
    return MaterializeResult(metadata=of_frame(rows, round_, figures))
