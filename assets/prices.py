"""The asset of prices as their provider tells them, its job, and what a run may choose."""

from dagster import (
    AssetsDefinition,
    Config,
    Definitions,
    MaterializeResult,
    MetadataValue,
    ResourceParam,
    asset,
    define_asset_job,
)
from pydantic import Field

from assets.metadata import OWNERS, of_table
from assets.resources import WarehouseResource
from studies.messages import Progress
from studies.price_collection import DAYS, collect

JOB = "prices"


class Prices(Config):
    """What is asked for."""

    regions: list[str] = Field(default=[], description="Of AWS; none: that of the fleet file.")
    types: list[str] = Field(default=[], description="None: those of fleet file and papers.")
    days: float = Field(default=DAYS, description="How far back spot prices go.")


@asset(
    key=["prices", "observed"],
    description="Instance types, on-demand prices and spot prices by zone, as AWS tells them now.",
    group_name="prices",
    owners=OWNERS,
    kinds={"aws", "duckdb"},
    pool="warehouse",
    metadata=of_table("raw.price"),
)
def observed(
    config: Prices, warehouse: WarehouseResource, progress: ResourceParam[Progress]
) -> MaterializeResult:
    """Ask AWS, land and load; a region that fails is warned of, unless all do."""
    found = collect(warehouse.open(), config.regions, config.types, config.days, progress.say)
    for region, error in found.failed.items():
        progress.warn(f"no prices of {region}: {error}")
    rows = sum(one.tables["price"].height for one in found.seen.values())
    return MaterializeResult(
        metadata={
            "dagster/row_count": MetadataValue.int(rows),
            "regions": MetadataValue.text(", ".join(found.seen)),
            "failed": MetadataValue.text(", ".join(found.failed) or "none"),
            "runs": MetadataValue.text(", ".join(one.run.run_id for one in found.seen.values())),
        }
    )


def price_definitions() -> Definitions:
    """Return the asset and its job."""
    assets: list[AssetsDefinition] = [observed]
    job = define_asset_job(
        JOB, selection=assets, description="Ask AWS what instance types cost, and keep it."
    )
    return Definitions(assets=assets, jobs=[job])
