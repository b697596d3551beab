"""Runs from elsewhere: taken from other sites' prefix, put there, or loaded without Dagster."""

from pathlib import Path

from dagster import (
    AssetKey,
    AssetMaterialization,
    AssetsDefinition,
    DagsterInstance,
    MaterializeResult,
    MetadataValue,
    ResourceParam,
    asset,
)

from assets.metadata import OWNERS, errors, of_table
from assets.resources import WarehouseResource
from studies.messages import Progress
from warehouse.records import BadInput, StepcastError
from warehouse.sites import PREFIX, configured_prefix, push, receive
from warehouse.warehouse import read_only

RECEIVED = ("landing", "received")


def received_asset() -> AssetsDefinition:
    """Return the asset that loads what other sites have left at the prefix."""

    @asset(
        key=RECEIVED,
        description=f"Runs that other sites left at {PREFIX}, loaded into this history.",
        group_name="landing",
        owners=OWNERS,
        kinds={"parquet"},
        pool="warehouse",
        metadata=of_table("raw.run"),
    )
    def received(
        warehouse: WarehouseResource, progress: ResourceParam[Progress]
    ) -> MaterializeResult:
        return MaterializeResult(metadata=_received(warehouse, progress))

    return received


def send(warehouse: WarehouseResource, progress: Progress) -> None:
    """Push what has landed here to the prefix, if there is one; what fails is told, and no more.

    A measurement that has landed is not lost because a network is down: the next push takes it.
    """
    try:
        prefix = configured_prefix()
        refused = push(warehouse.landing, prefix).refused if prefix else ()
    except StepcastError as error:
        refused = (f"nothing more was pushed: {error}",)
    for text in refused:
        progress.warn(text)


def _received(warehouse: WarehouseResource, progress: Progress) -> dict[str, MetadataValue]:
    prefix = configured_prefix()
    if prefix is None:
        raise BadInput(f"no place to receive runs from: set {PREFIX} to a folder or s3://…")
    came = receive(prefix, warehouse.landing)
    report = warehouse.open().load()
    bad = [f"{run.run_id}: {run.reason}" for run in (*came.refused, *report.quarantined)]
    for text in (*bad, *came.left):
        progress.warn(text)
    return {
        "prefix": MetadataValue.text(prefix.name),
        "received": MetadataValue.int(len(came.copied)),
        "newly_loaded": MetadataValue.int(len(report.loaded)),
        "set_aside": MetadataValue.int(len(bad)),
        "left": MetadataValue.int(len(came.left)),
        "reasons": MetadataValue.md("\n".join(f"* {text}" for text in (*bad, *came.left))),
    }


# What came into a home without a Dagster run, told to Dagster: its pages show what is there.


_LANDED, _ERRORS = (Path(__file__).with_name(name) for name in ("landed.sql", "errors.sql"))
_COUNTED = {
    "profiles": "runs",
    "measured": "runs",
    "fits": "fits",
    "predictions": "forecasts",
    "accuracy": "judged forecasts",
}


def report_landed(instance: DagsterInstance, home: Path) -> int:
    """Tell Dagster of assets that it has not heard of since they changed; return how many.

    What others rest on is told first: Dagster calls an asset unsynced that is older.

    Raises:
        BadInput: nothing is published in the home.
    """
    reported, judged = 0, read_only(home, _ERRORS.read_text())
    for study, kind, noun, count, came_at in read_only(home, _LANDED.read_text()).rows():
        key = AssetKey([study, kind, noun])
        last = instance.get_latest_materialization_event(key)
        if last is not None and last.timestamp >= came_at.timestamp():
            continue
        figures = errors(judged.filter(study=study)) if kind == "accuracy" else {}
        instance.report_runless_asset_event(
            AssetMaterialization(
                key,
                description=f"{count:,} {_COUNTED[kind]} that were loaded, or made by a command.",
                metadata={
                    "dagster/row_count": MetadataValue.int(count),
                    "counts": MetadataValue.text(_COUNTED[kind]),
                    "newest": MetadataValue.timestamp(came_at),
                    **figures,
                },
            )
        )
        reported += 1
    return reported
