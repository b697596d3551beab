"""Assets of AWS: prices as it tells them, and instances of dead processes that are ended."""

import dagster as dg
from pydantic import Field

from assets.metadata import OWNERS, of_table
from assets.resources import PRIORITY_TAG, WarehouseResource
from studies.messages import Progress
from studies.price_collection import DAYS, collect
from studies.renting import reap_rented
from warehouse.records import StepcastError

PRICES_JOB, REAP_JOB = "prices", "reap"


class Prices(dg.Config):
    """What is asked for."""

    regions: list[str] = Field(default=[], description="Of AWS; none: that of the fleet file.")
    types: list[str] = Field(default=[], description="None: of fleet file, papers, catalogue.")
    days: float = Field(default=DAYS, description="How far back spot prices go.")


@dg.asset(
    key=["prices", "observed"],
    description="Instance types, on-demand prices and spot prices by zone, as AWS tells them now.",
    group_name="prices",
    owners=OWNERS,
    kinds={"aws", "duckdb"},
    pool="warehouse",
    metadata=of_table("raw.price"),
)
def observed(
    config: Prices, warehouse: WarehouseResource, progress: dg.ResourceParam[Progress]
) -> dg.MaterializeResult:
    """Ask AWS, land and load; a region that fails is warned of, unless all do."""
    collected = collect(warehouse.open(), config.regions, config.types, config.days, progress.say)
    for region, error in collected.failed.items():
        progress.warn(f"no prices of {region}: {error}")
    rows = sum(imported.tables["price"].height for imported in collected.seen.values())
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": dg.MetadataValue.int(rows),
            "regions": dg.MetadataValue.text(", ".join(collected.seen)),
            "failed": dg.MetadataValue.text(", ".join(collected.failed) or "none"),
            "runs": dg.MetadataValue.text(
                ", ".join(imported.run.run_id for imported in collected.seen.values())
            ),
        }
    )


@dg.asset(
    key=["rented", "reaped"],
    description="Instances of dead processes of this home, found by book and tags, and ended.",
    group_name="rented",
    owners=OWNERS,
    kinds={"aws"},
    pool="warehouse",
    metadata=of_table("raw.rented"),
)
def reaped(
    warehouse: WarehouseResource, progress: dg.ResourceParam[Progress]
) -> dg.MaterializeResult:
    """End what is found, land what it cost; fail if something could not be ended.

    Raises:
        StepcastError: something is left; the next run tries again.
    """
    opened = warehouse.open()
    reaped = reap_rented(opened.home, progress.warn)
    opened.load()
    if reaped.left:
        raise StepcastError(f"could not be ended: {', '.join(reaped.left)}")
    ended = dg.MetadataValue.text(", ".join(reaped.ended) or "nothing")
    return dg.MaterializeResult(metadata={"ended": ended})


def definitions() -> dg.Definitions:
    """Return the assets and their jobs."""
    priced = dg.define_asset_job(
        PRICES_JOB,
        selection=[observed],
        description="Ask AWS what instance types cost, and keep it.",
    )
    ended = dg.define_asset_job(
        REAP_JOB,
        selection=[reaped],
        tags={PRIORITY_TAG: "10"},  # every minute of waiting costs
        description="End what dead processes rented.",
    )
    return dg.Definitions(assets=[observed, reaped], jobs=[priced, ended])
