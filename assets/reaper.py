"""The job that ends what dead processes have rented: another layer, wherever Dagster runs."""

from dagster import (
    Definitions,
    MaterializeResult,
    MetadataValue,
    ResourceParam,
    asset,
    define_asset_job,
)

from assets.metadata import OWNERS, of_table
from assets.resources import WarehouseResource
from studies.messages import Progress
from studies.renting import reap_rented
from warehouse.records import StepcastError

JOB = "reap"


@asset(
    key=["rented", "reaped"],
    description="Instances of dead processes of this home, found by book and tags, and ended.",
    group_name="rented",
    owners=OWNERS,
    kinds={"aws"},
    pool="warehouse",
    metadata=of_table("raw.rented"),
)
def reaped(warehouse: WarehouseResource, progress: ResourceParam[Progress]) -> MaterializeResult:
    """End what is found, land what it cost; fail if something could not be ended.

    Raises:
        StepcastError: something is left; the next run tries again.
    """
    opened = warehouse.open()
    found = reap_rented(opened.home, progress.warn)
    opened.load()
    if found.left:
        raise StepcastError(f"could not be ended: {', '.join(found.left)}")
    ended = MetadataValue.text(", ".join(found.ended) or "nothing")
    return MaterializeResult(metadata={"ended": ended})


def reaping_definitions() -> Definitions:
    """Return the asset and its job."""
    job = define_asset_job(JOB, selection=[reaped], description="End what dead processes rented.")
    return Definitions(assets=[reaped], jobs=[job])
