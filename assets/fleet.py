"""The fleet in Dagster: partitions of node types, an asset for each probe, its resource."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path

import dagster as dg
import polars as pl
from pydantic import PrivateAttr

from assets.metadata import OWNERS, of_frame, of_rows, of_table
from assets.resources import PRIORITY_TAG, WarehouseResource, locked_run
from assets.study_assets import POOL, load, table_of
from fleet.history import drifted_at, runs
from fleet.members import WATCH, Member, member_of, now, read_members
from fleet.readings import in_words
from fleet.schedule import Visits, period_start, spent_s, visits, watches
from fleet.studies import refit
from fleet.watch import Budget, watch
from profilers.probes import PROBES
from profilers.renting.cap import BudgetExceeded
from studies import run_tables
from studies.measurement import profile
from studies.messages import Progress
from studies.renting import renting
from warehouse.records import BadInput, Run


class FleetResource(dg.ConfigurableResource):
    """The fleet of a home. Runs that measure take turns with those of studies."""

    warehouse: WarehouseResource
    _began: datetime = PrivateAttr()
    _run_id: str = PrivateAttr(default="")

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator["FleetResource"]:
        """Wait for this run's turn and keep it until the run ends."""
        with locked_run(context, Path(self.warehouse.home)):
            self._began = now()
            self._run_id = context.run.run_id if context.run is not None else ""
            yield self

    def member(self, node_type: str) -> Member:
        """Return a member.

        Raises:
            BadInput: there is none of this name.
        """
        return member_of(read_members(Path(self.warehouse.home)), node_type)

    def visits(self, node_type: str) -> Visits:
        """Return the visits that profile a member, with all that has landed."""
        return visits(self.member(node_type), self._runs(node_type))

    def watches(self, node_type: str) -> Visits:
        """Return the visits that watch a member, with all that has landed."""
        return watches(self.member(node_type), self._runs(node_type))

    def _runs(self, node_type: str) -> tuple[Run, ...]:
        warehouse = self.warehouse.open()
        warehouse.load(recheck=False)
        return runs(warehouse.home, node_type)

    def renting(self, visits: Visits, progress: Progress) -> AbstractContextManager[None]:
        """Let a visit rent its nodes, where they are rented, up to what its member says."""
        home, member = Path(self.warehouse.home), visits.member
        account = f"{self._run_id}-{member.node_type}"
        return renting(home, visits.round_.backend, member.max_usd, account, progress.say)

    def budget(self, visits: Visits) -> Budget:
        """Return the time that a visit which begins now may take.

        What was measured of it before it was interrupted counts, if that was in the same turn.
        """
        member = visits.member
        since = period_start(visits.every, member.at, self._began)
        return Budget(60 * member.max_minutes, spent_s(visits.round_.runs, since))


TYPES = dg.DynamicPartitionsDefinition(name="node_type")
GROUP = "fleet"
ADD = "A partition is a node type of the fleet: `stepcast fleet add` makes one."
MEASURES = {"stepcast/measures": "this host"}
"""Tag of runs that measure: dagster.yaml lets one of them through at a time."""
PROFILES, WATCHES = "fleet_profiles", "fleet_watch"
_PROBES = tuple(name for name in PROBES if name != WATCH)


def key(noun: str) -> dg.AssetKey:
    """Return the key of an asset of the fleet."""
    return dg.AssetKey([GROUP, noun])


AFTER = (key("loaded"), key("forecasts"))
"""What follows a member's probes."""


def _spec(noun: str, description: str, table: str, kind: str, *deps: str) -> dg.AssetSpec:
    return dg.AssetSpec(
        key(noun),
        description=f"{description} {ADD}",
        deps=[key(dep) for dep in deps],
        skippable=noun in _PROBES,
        group_name=GROUP,
        owners=OWNERS,
        kinds={kind},
        metadata=of_table(table),
        partitions_def=TYPES,
    )


@dg.asset(
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
    context: dg.AssetExecutionContext,
    fleet: FleetResource,
    warehouse: WarehouseResource,
    progress: dg.ResourceParam[Progress],
) -> dg.MaterializeResult:
    """Watch a node type; what looks changed is probed a second time at once."""
    visits = fleet.watches(context.partition_key)
    with fleet.renting(visits, progress):
        rows = watch(visits, warehouse.open(), progress)
    changed = drifted_at(warehouse.open().home).get(visits.whose)
    version = "as first profiled" if changed is None else f"since {changed.isoformat()}"
    shown = of_rows(rows)
    for name, worse in rows.select("metric", "change_percent").drop_nulls().iter_rows():
        # Of each number Dagster draws how it has changed over time.
        shown[f"{in_words(name)}, % worse"] = dg.MetadataValue.float(worse)
    return dg.MaterializeResult(data_version=dg.DataVersion(version), metadata=shown)


@dg.multi_asset(
    name="fleet_probes",
    specs=[
        *(
            _spec(name, PROBES[name].what, table_of(name), PROBES[name].kind, "condition")
            for name in _PROBES
        ),
        _spec("loaded", "What has been measured of a node type.", "raw.run", "duckdb", *_PROBES),
    ],
    can_subset=True,
    pool=POOL,
)
def profiles(
    context: dg.AssetExecutionContext,
    fleet: FleetResource,
    warehouse: WarehouseResource,
    progress: dg.ResourceParam[Progress],
) -> Iterator[dg.MaterializeResult]:
    """Profile a node type by its member's probes, as long as its minutes last."""
    visits = fleet.visits(context.partition_key)
    budget, round_ = fleet.budget(visits), visits.round_
    chosen = _chosen(visits.member.probes, context)
    try:
        for probe in chosen:
            try:
                with fleet.renting(visits, progress):
                    round_ = profile(round_, probe, warehouse.landing, progress, budget.may_take)
            finally:
                # A failed run is loaded too: its visit then waits for its turn.
                loaded = load(warehouse, progress)
            table = PROBES[probe].tables[0]
            rows = run_tables.rows(round_, warehouse.landing, probe, table, "profile")
            metadata = of_frame(rows, round_) | loaded
            yield dg.MaterializeResult(asset_key=key(probe), metadata=metadata)
    except BudgetExceeded as error:
        progress.warn(f"{visits.member.node_type}: {error}")
    if not chosen:
        load(warehouse, progress)
    if key("loaded") in context.selected_asset_keys:
        visits = fleet.visits(context.partition_key)
        latest_runs = [run.model_dump(include=_SHOWN) for run in visits.runs]
        rows = pl.DataFrame(latest_runs, infer_schema_length=None)
        yield dg.MaterializeResult(asset_key=key("loaded"), metadata=of_rows(rows))


_SHOWN = {"run_id", "probe", "repeat", "status", "error", "started_at", "ended_at"}


def _chosen(probes: tuple[str, ...], context: dg.AssetExecutionContext) -> list[str]:
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


@dg.asset(
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
    context: dg.AssetExecutionContext,
    fleet: FleetResource,
    warehouse: WarehouseResource,
    progress: dg.ResourceParam[Progress],
) -> dg.MaterializeResult:
    """Fits to the newest profiles of a node type, and what they forecast of its networks."""
    visits = fleet.visits(context.partition_key)
    rows = refit(visits.member, visits.round_.backend, warehouse.open(), progress.say)
    return dg.MaterializeResult(metadata=of_rows(rows))


JOBS = tuple(
    dg.define_asset_job(
        name,
        selection=selected,
        executor_def=dg.in_process_executor,
        tags={**MEASURES, PRIORITY_TAG: "-1"},  # what somebody asks for goes first
        description=f"{description} {ADD}",
    )
    for name, description, selected in (
        (PROFILES, "Profile a node type, and forecast anew.", [profiles, forecasts]),
        (WATCHES, "Watch a node type for drift.", [condition]),
    )
)


def definitions() -> dg.Definitions:
    """Return the assets and jobs of the fleet; resources come from elsewhere."""
    return dg.Definitions(assets=[condition, profiles, forecasts], jobs=JOBS)
