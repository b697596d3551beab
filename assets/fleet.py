"""The fleet in Dagster: node types are partitions, and each probe that profiles them is an asset.

Dagster's own freshness policies judge whole assets, and its checks of single partitions are a
preview in the locked version: so `fleet/checks` is an asset, with one verdict for each node type.
"""

from collections.abc import Iterator

import polars as pl
from dagster import (
    AssetExecutionContext,
    AssetKey,
    AssetSpec,
    DataVersion,
    Definitions,
    DynamicPartitionsDefinition,
    MaterializeResult,
    MetadataValue,
    ResourceParam,
    asset,
    define_asset_job,
    in_process_executor,
    multi_asset,
)

from assets.fleet_page import drawn_page
from assets.fleet_resource import FleetResource
from assets.metadata import OWNERS, comments, of_frame, of_rows, of_table
from assets.probing import POOL, drawn, load, table_of
from assets.resources import WarehouseResource
from assets.sites import send
from fleet.budget import BudgetExceeded
from fleet.checking import findings
from fleet.forecasts import refit
from fleet.history import drifted_at
from fleet.members import WATCH, now
from fleet.watching import watch
from profilers.probes import PROBES
from studies.measuring import profile
from studies.progress import Progress
from warehouse.records import BadInput

TYPES = DynamicPartitionsDefinition(name="node_type")
GROUP = "fleet"
ADD = "A partition is a node type of the fleet: `stepcast fleet add` makes one."
MEASURES = {"stepcast/measures": "this host"}
"""Tag of runs that measure: dagster.yaml lets one of them through at a time."""
PROFILES, WATCHES = "fleet_profiles", "fleet_watch"
_PROBES = tuple(name for name in PROBES if name != WATCH)


def key(noun: str) -> AssetKey:
    """Return the key of an asset of the fleet."""
    return AssetKey([GROUP, noun])


AFTER = tuple(key(noun) for noun in ("loaded", "forecasts", "checks"))
"""What follows a member's probes."""


def _spec(noun: str, description: str, table: str, kind: str, *deps: str) -> AssetSpec:
    return AssetSpec(
        key(noun),
        description=f"{description} {ADD}",
        deps=[key(one) for one in deps],
        skippable=noun in _PROBES,
        group_name=GROUP,
        owners=OWNERS,
        kinds={kind},
        metadata=of_table(table),
        partitions_def=TYPES,
    )


@asset(
    key=key("condition"),
    description="Whether a node type still is what its profiles say: a new version if it changed. "
    + ADD,
    partitions_def=TYPES,
    group_name=GROUP,
    owners=OWNERS,
    kinds={"probe"},
    pool=POOL,
    metadata=of_table("raw.judgement"),
)
def condition(
    context: AssetExecutionContext,
    fleet: FleetResource,
    warehouse: WarehouseResource,
    progress: ResourceParam[Progress],
) -> MaterializeResult:
    """Watch a node type; what looks changed is probed a second time at once."""
    found = fleet.watches(context.partition_key)
    with fleet.renting(found, progress):
        rows = watch(found, warehouse.open(), progress)
    send(warehouse, progress)
    changed = drifted_at(warehouse.open().home).get(found.whose)
    version = "as first profiled" if changed is None else f"since {changed.isoformat()}"
    shown = of_rows(rows, comments(warehouse, "raw.judgement")) | drawn_page(warehouse, progress)
    return MaterializeResult(data_version=DataVersion(version), metadata=shown)


@multi_asset(
    name="fleet_probes",
    specs=[
        *(
            _spec(
                name,
                PROBES[name].what,
                table_of(name),
                PROBES[name].kind,
                "condition",
            )
            for name in _PROBES
        ),
        _spec("loaded", "What has been measured of a node type.", "raw.run", "duckdb", *_PROBES),
    ],
    can_subset=True,
    pool=POOL,
)
def profiles(
    context: AssetExecutionContext,
    fleet: FleetResource,
    warehouse: WarehouseResource,
    progress: ResourceParam[Progress],
) -> Iterator[MaterializeResult]:
    """Profile a node type by its member's probes, as long as its minutes last."""
    found = fleet.visits(context.partition_key)
    budget, round_ = fleet.budget(found), found.round_
    chosen = _chosen(found.member.probes, context)
    try:
        for probe in chosen:
            try:
                with fleet.renting(found, progress):
                    round_ = profile(round_, probe, warehouse.landing, progress, budget.may_take)
            finally:
                # A failed run is loaded too: its visit then waits for its turn.
                loaded = load(warehouse, progress)
            shown, figures = drawn(round_, warehouse.landing, probe)
            described = comments(warehouse, table_of(probe))
            metadata = of_frame(shown, round_, figures, described) | loaded
            yield MaterializeResult(asset_key=key(probe), metadata=metadata)
    except BudgetExceeded as error:
        progress.warn(f"{found.member.node_type}: {error}")
    if not chosen:
        load(warehouse, progress)
    if key("loaded") in context.selected_asset_keys:
        found = fleet.visits(context.partition_key)
        told = [run.model_dump(include=_SHOWN) for run in found.latest_runs]
        rows = pl.DataFrame(told, infer_schema_length=None)
        yield MaterializeResult(
            asset_key=key("loaded"), metadata=of_rows(rows, comments(warehouse, "raw.run"))
        )


_SHOWN = {"run_id", "probe", "repeat", "status", "error", "started_at", "ended_at"}


def _chosen(probes: tuple[str, ...], context: AssetExecutionContext) -> list[str]:
    """Return those of a member's probes that a run is to materialise.

    Raises:
        BadInput: none of them is.
    """
    chosen = [name for name in probes if key(name) in context.selected_asset_keys]
    if not chosen and context.selected_asset_keys != {key("loaded")}:
        raise BadInput(
            f"{context.partition_key} is profiled by {', '.join(probes)}; choose some of these, or "
            "`stepcast fleet add` others"
        )
    return chosen


@asset(
    key=key("forecasts"),
    description="Fits to the newest profiles of a node type, and what they forecast of its "
    f"networks. {ADD}",
    # Stale as soon as the type has changed: lineage shows that of direct dependencies only.
    deps=[key("loaded"), key("condition")],
    partitions_def=TYPES,
    group_name=GROUP,
    owners=OWNERS,
    kinds={"forecast", "duckdb"},
    pool="warehouse",
    metadata=of_table("pred.ledger"),
)
def forecasts(
    context: AssetExecutionContext,
    fleet: FleetResource,
    warehouse: WarehouseResource,
    progress: ResourceParam[Progress],
) -> MaterializeResult:
    """Fits to the newest profiles of a node type, and what they forecast of its networks."""
    found = fleet.visits(context.partition_key)
    rows = refit(found.member, found.round_.backend, warehouse.open(), progress.say)
    return MaterializeResult(metadata=of_rows(rows, comments(warehouse, "pred.ledger")))


@asset(
    key=key("checks"),
    description="What is wrong with the profiles of a node type: age, drift, unfinished visits, "
    f"odd links. {ADD}",
    deps=[key("loaded"), key("condition")],
    partitions_def=TYPES,
    group_name=GROUP,
    owners=OWNERS,
    kinds={"duckdb"},
    pool="warehouse",
    metadata=of_table("report.alarm"),
)
def checks(
    context: AssetExecutionContext,
    fleet: FleetResource,
    warehouse: WarehouseResource,
    progress: ResourceParam[Progress],
) -> MaterializeResult:
    """What is wrong with the profiles of a node type: age, drift, unfinished visits, odd links."""
    found = fleet.visits(context.partition_key)
    changed = drifted_at(warehouse.open().home).get(found.whose)
    wrong = list(findings(found, warehouse.landing, now(), changed))
    for one in wrong:
        progress.warn(f"{context.partition_key}: {one}")
    lines = MetadataValue.md("\n".join(f"* {one}" for one in wrong) or "nothing")
    page = drawn_page(warehouse, progress)
    return MaterializeResult(metadata={"passed": not wrong, "wrong": lines, **page})


JOBS = tuple(
    define_asset_job(
        name,
        selection=selected,
        executor_def=in_process_executor,
        tags=MEASURES,
        description=description,
    )
    for name, description, selected in (
        (PROFILES, "Profile a node type, and forecast anew.", [profiles, forecasts, checks]),
        (WATCHES, "Watch a node type for drift.", [condition]),
    )
)


def definitions() -> Definitions:
    """Return the assets and jobs of the fleet; resources come from elsewhere."""
    return Definitions(assets=[condition, profiles, forecasts, checks], jobs=JOBS)
