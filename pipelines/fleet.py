"""Asking for the node types of the fleet that are due.

A sensor, and no schedule of Dagster's: each member has a cadence of its own, and what is due also
depends on what has landed, what failed, and what has drifted.
"""

from collections.abc import Mapping, Sequence

import dagster as dg

from assets.fleet import AFTER, JOBS, MEASURES, PROFILES, TYPES, WATCHES, key
from assets.resources import UNFINISHED
from fleet import NO_MEMBERS
from fleet.members import Member, now, read_members
from fleet.schedule import AgendaItem, agenda
from profilers.steady import hostlock
from warehouse.home import home

SENSOR = "fleet_due"
Changes = Sequence[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest]


def sensor() -> dg.SensorDefinition:
    """Return the sensor that asks for what is due."""
    return dg.SensorDefinition(
        name=SENSOR,
        evaluation_fn=_evaluate,
        jobs=JOBS,
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Watches and profiles node types of the fleet that are due. Off until you "
        "switch it on.",
    )


def select_assets(item: AgendaItem) -> list[dg.AssetKey] | None:
    """Return the assets of a run that does what is due; None: all of its job."""
    if item.watches:
        return None
    return [*(key(probe) for probe in item.member.probes), *AFTER]


def keep_partitions(instance: dg.DagsterInstance, members: Mapping[str, Member]) -> None:
    """Make the members the partitions that Dagster knows."""
    for change in _changes(instance, members):
        if isinstance(change, dg.AddDynamicPartitionsRequest):
            instance.add_dynamic_partitions(str(TYPES.name), list(change.partition_keys))
        else:
            for name in change.partition_keys:
                instance.delete_dynamic_partition(str(TYPES.name), name)


def _evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
    """Ask for what is due, unless something of it is under way: measuring takes turns."""
    changes = _changes(context.instance, read_members(home()))
    if under_way := _under_way(context.instance):
        return dg.SensorResult(
            skip_reason=f"{under_way} measures", dynamic_partitions_requests=changes
        )
    at = now()
    items = agenda(home(), at)
    requests = [_request(item, item.key(at)) for item in items if item.due.now]
    if not requests:
        return dg.SensorResult(skip_reason=_nothing(items), dynamic_partitions_requests=changes)
    return dg.SensorResult(run_requests=requests, dynamic_partitions_requests=changes)


def _request(item: AgendaItem, run_key: str) -> dg.RunRequest:
    return dg.RunRequest(
        run_key=run_key,
        job_name=WATCHES if item.watches else PROFILES,
        partition_key=item.member.node_type,
        asset_selection=select_assets(item),
        tags={**MEASURES, "stepcast/due": item.due.why},
    )


def _under_way(instance: dg.DagsterInstance) -> str | None:
    """Return who measures on this host, or waits for it: a run of the fleet, else anybody."""
    unfinished = instance.get_runs(dg.RunsFilter(tags=MEASURES, statuses=UNFINISHED), limit=1)
    # A study that was started by hand has no such tag: what is asked for now would disturb it.
    return f"run {unfinished[0].run_id}" if unfinished else hostlock.holder()


def _changes(instance: dg.DagsterInstance, members: Mapping[str, Member]) -> Changes:
    """Return what makes the members the partitions that Dagster knows."""
    partitions = set(instance.get_dynamic_partitions(str(TYPES.name)))
    changes: list[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest] = []
    if new := [name for name in members if name not in partitions]:
        changes.append(TYPES.build_add_request(new))
    if gone := sorted(partitions - members.keys()):
        changes.append(TYPES.build_delete_request(gone))
    return changes


def _nothing(items: Sequence[AgendaItem]) -> str:
    if not items:
        return NO_MEMBERS
    soonest = min(items, key=lambda item: item.due.next)
    return f"nothing is due before {soonest.due.next:%Y-%m-%d %H:%M} UTC"
