"""What lineage has of prices: asked of the stand-in, landed, loaded, and counted."""

from pathlib import Path

import dagster as dg

from assets.aws import observed
from assets.resources import WarehouseResource
from tests.aws import Aws
from tests.fleet.paper_watch import Told
from warehouse.warehouse import Warehouse


def collected(home: Path, progress: Told, **config: object) -> dg.ExecuteInProcessResult:
    """Run the asset."""
    return dg.materialize(
        [observed],
        resources={"warehouse": WarehouseResource(home=str(home)), "progress": progress},
        run_config={"ops": {"prices__observed": {"config": config}}},
    )


def test_prices_are_asked_for_and_loaded(home: Path, aws: Aws) -> None:
    progress = Told()
    result = collected(home, progress, regions=["us-east-1", "eu-west-1"], types=["p3.8xlarge"])
    (event,) = result.get_asset_materialization_events()
    metadata = event.materialization.metadata
    assert metadata["dagster/row_count"].value == 1
    assert (metadata["regions"].value, metadata["failed"].value) == ("us-east-1", "eu-west-1")
    (warning,) = progress.warnings
    assert warning.startswith("no prices of eu-west-1: eu-west-1 offers none of p3.8xlarge")
    runs = Warehouse(home).visible("price")["run_id"].to_list()
    assert runs == [metadata["runs"].value]
