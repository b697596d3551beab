"""The sensor that asks for what is due."""

from datetime import datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.test_utils import create_run_for_test

from assets.fleet import MEASURES, PROFILES, TYPES, WATCHES, key
from fleet.members import Member, write_members
from pipelines import dagster_history, fleet
from pipelines.definitions import defs
from profilers.steady import hostlock
from tests.fleet.made import NODE_TYPE, NOW, SUNDAY, member, visited
from warehouse.landing import land
from warehouse.warehouse import Warehouse

pytestmark = pytest.mark.usefixtures("quiet")

OTHER = "emu.native.c15"
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


class Clock:
    """The time that the sensor is told."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(fleet, "now", made)
    return made


def join(home: Path, *members: Member) -> None:
    write_members(home, {member.node_type: member for member in members})


def tick(instance: dg.DagsterInstance) -> dg.SensorResult:
    """Return what the sensor says when Dagster's daemon wakes it."""
    context = dg.build_sensor_context(instance=instance)
    result = fleet.sensor()(context)
    assert isinstance(result, dg.SensorResult)
    return result


def skipped(result: dg.SensorResult) -> str:
    assert not result.run_requests
    assert result.skip_reason is not None
    return str(result.skip_reason.skip_message)


def partitions(instance: dg.DagsterInstance) -> list[str]:
    """Return the partitions there are after what the sensor asks for."""
    for request in tick(instance).dynamic_partitions_requests or ():
        assert request.partitions_def_name == TYPES.name
        if isinstance(request, dg.AddDynamicPartitionsRequest):
            instance.add_dynamic_partitions(
                request.partitions_def_name, list(request.partition_keys)
            )
        else:
            assert isinstance(request, dg.DeleteDynamicPartitionsRequest)
            for name in request.partition_keys:
                instance.delete_dynamic_partition(request.partitions_def_name, name)
    return sorted(instance.get_dynamic_partitions(str(TYPES.name)))


def test_an_empty_fleet_says_how_to_fill_it(home: Path, instance: dg.DagsterInstance) -> None:
    result = tick(instance)
    assert skipped(result) == "the fleet has no members: `stepcast fleet add` adds one"
    assert not result.dynamic_partitions_requests


@pytest.mark.usefixtures("clock")
def test_what_is_due_is_asked_for_by_type(home: Path, instance: dg.DagsterInstance) -> None:
    join(home, member(), member(OTHER, probes=("tf_trace", "links"), watched=False))
    result = tick(instance)
    assert result.skip_reason is None
    requested = [(request.job_name, request.partition_key) for request in result.run_requests or ()]
    assert requested == [(WATCHES, NODE_TYPE), (PROFILES, NODE_TYPE), (PROFILES, OTHER)]
    watch, _, other = result.run_requests or ()
    assert watch.asset_selection is None, "all of its job"
    assert other.asset_selection == [
        key(noun) for noun in ("links", "tf_trace", "loaded", "forecasts")
    ]
    assert other.tags["stepcast/due"] == "never done"
    assert MEASURES.items() <= other.tags.items()
    (request,) = result.dynamic_partitions_requests or ()
    assert isinstance(request, dg.AddDynamicPartitionsRequest)
    assert list(request.partition_keys) == [NODE_TYPE, OTHER]


@pytest.mark.usefixtures("clock")
def test_dagster_accepts_what_is_asked_for_of_partitions_that_are_new(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As its daemon evaluates a sensor: with its own checks of jobs, partitions and selections."""
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")  # put back what opening the history sets
    join(home, member())
    with dagster_history.instance(home) as instance:
        context = dg.build_sensor_context(
            instance_ref=instance.get_ref(),
            repository_def=defs.get_repository_def(),
            sensor_name=fleet.SENSOR,
        )
        data = defs.resolve_sensor_def(fleet.SENSOR).evaluate_tick(context)
    requests = data.run_requests or ()
    assert [request.tags["dagster/partition"] for request in requests] == [NODE_TYPE] * 2
    assert [request.job_name for request in requests] == [WATCHES, PROFILES]
    assert data.dynamic_partitions_requests


def test_nothing_due_names_the_next_time(
    home: Path, instance: dg.DagsterInstance, clock: Clock
) -> None:
    of = member(probes=("links",), watched=False)
    join(home, of, member("emu.gone", every="month", watched=False))
    for run in visited(of, SUNDAY):
        land(home / "landing", run, None, {})
    Warehouse(home).load()
    assert skipped(tick(instance)) == "nothing is due before 2030-01-20 02:00 UTC"
    clock.now = SUNDAY + 7 * DAY
    (request,) = tick(instance).run_requests or ()
    assert request.partition_key == NODE_TYPE


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("status", "is_under_way"),
    [
        (dg.DagsterRunStatus.QUEUED, True),
        (dg.DagsterRunStatus.STARTED, True),
        (dg.DagsterRunStatus.CANCELING, True),
        (dg.DagsterRunStatus.SUCCESS, False),
        (dg.DagsterRunStatus.FAILURE, False),
        (dg.DagsterRunStatus.CANCELED, False),
    ],
)
def test_nothing_is_asked_for_while_something_measures(
    status: dg.DagsterRunStatus, is_under_way: bool, home: Path, instance: dg.DagsterInstance
) -> None:
    join(home, member())
    place = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("stepcast"), "definitions")
    run = create_run_for_test(
        instance,
        job_name=PROFILES,
        status=status,
        tags=MEASURES,
        remote_job_origin=RemoteJobOrigin(place, PROFILES),
        job_code_origin=None,
    )
    create_run_for_test(instance, job_name="demo", status=dg.DagsterRunStatus.STARTED)
    result = tick(instance)
    if is_under_way:
        assert skipped(result) == f"run {run.run_id} measures"
        assert result.dynamic_partitions_requests, "members become partitions all the same"
    else:
        assert result.run_requests


@pytest.mark.usefixtures("clock")
def test_nothing_is_asked_for_while_a_study_measures(
    home: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    join(home, member())
    monkeypatch.setattr(hostlock, "holder", lambda: "process 17")
    assert skipped(tick(instance)) == "process 17 measures"
    monkeypatch.setattr(hostlock, "holder", lambda: "")
    assert tick(instance).run_requests


@pytest.mark.usefixtures("clock")
def test_members_are_the_partitions(home: Path, instance: dg.DagsterInstance) -> None:
    join(home, member(), member(OTHER))
    assert partitions(instance) == [OTHER, NODE_TYPE]
    assert not tick(instance).dynamic_partitions_requests
    join(home, member())
    assert partitions(instance) == [NODE_TYPE]
    join(home)
    assert partitions(instance) == []
