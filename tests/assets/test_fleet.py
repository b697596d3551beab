"""The fleet's assets, a partition for each node type, with probes that run nothing."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets import fleet
from assets.fleet import AFTER, TYPES, FleetResource, key
from assets.resources import WarehouseResource
from fleet.history import drifted_at
from fleet.members import Member, write_members
from fleet.schedule import visits
from studies.messages import Progress
from studies.plan import tasks
from tests.fleet.made import NODE_TYPE, NOW, member, visited, watched
from tests.fleet.paper_watch import SLOW, PaperWatch, Told, land_probe
from tests.synthetic import PaperProbes
from warehouse.sql import read_only
from warehouse.warehouse import Warehouse

OTHER = "emu.native.c15"
SMALL: dict[str, Any] = {"image_size": 16, "batch_size": 4}
LOADED = "SELECT probe FROM raw.run WHERE status = 'ok' ORDER BY started_at"


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """Yield a history of Dagster that has two partitions."""
    with dg.DagsterInstance.ephemeral() as made:
        made.add_dynamic_partitions(str(TYPES.name), [NODE_TYPE, OTHER])
        yield made


def join(home: Path, *members: Member) -> None:
    write_members(home, {member.node_type: member for member in members})


def run(
    home: Path,
    instance: dg.DagsterInstance,
    nouns: Sequence[str],
    partition: str = NODE_TYPE,
    progress: Progress | None = None,
) -> dg.ExecuteInProcessResult:
    """Materialize assets of a partition; a failure is in the result."""
    warehouse = WarehouseResource(home=str(home))
    return dg.materialize(
        [
            asset
            for asset in fleet.definitions().assets or ()
            if isinstance(asset, dg.AssetsDefinition)
        ],
        instance=instance,
        resources={
            "fleet": FleetResource(warehouse=warehouse),
            "warehouse": warehouse,
            "progress": progress or Progress(),
        },
        partition_key=partition,
        selection=[key(noun) for noun in nouns],
        raise_on_error=False,
    )


def made(result: dg.ExecuteInProcessResult) -> dict[str, dg.AssetMaterialization]:
    """Return what a run materialized, by noun, in that order."""
    materializations = [
        event.materialization
        for event in result.get_asset_materialization_events()
        if event.materialization.partition in {NODE_TYPE, OTHER}
    ]
    return {event.asset_key.path[-1]: event for event in materializations}


def error_of(result: dg.ExecuteInProcessResult) -> str:
    (failure,) = result.get_step_failure_events()
    error = failure.step_failure_data.error
    assert error is not None
    return str((error.cause or error).message)


def loaded(home: Path) -> list[str]:
    return read_only(home, LOADED)["probe"].to_list()


AFTERWARDS = [asset_key.path[-1] for asset_key in AFTER]


@pytest.mark.exhaustive
def test_a_visit_is_profiled_loaded_and_forecast(
    home: Path, instance: dg.DagsterInstance, probes: PaperProbes
) -> None:
    join(home, member(**SMALL))
    result = run(home, instance, [*member().probes, *AFTERWARDS])
    assert result.success
    assert probes.asked == ["links", "contention", "profile small_cnn"]
    by_noun = made(result)
    assert list(by_noun)[:4] == ["links", "contention", "tf_trace", "loaded"]
    assert by_noun.keys() == {*member().probes, *AFTERWARDS}
    assert {event.partition for event in by_noun.values()} == {NODE_TYPE}
    assert by_noun["loaded"].metadata["dagster/row_count"].value == 3
    assert loaded(home) == ["links", "contention", "tf_trace"]
    assert by_noun["forecasts"].metadata["dagster/row_count"].value != 0
    predictions = Warehouse(home).query("predictions")
    assert {"async_sgd", "linear"} <= set(predictions["system"])
    assert predictions["study"].null_count() == predictions.height, "merely asked for"


def test_of_all_that_is_selected_only_the_members_probes_run(
    home: Path, instance: dg.DagsterInstance, probes: PaperProbes
) -> None:
    """As a backfill of the whole group from the page of Dagster asks for."""
    join(home, member(probes=("links", "contention"), **SMALL), member(OTHER))
    nouns = [asset_key.path[-1] for asset_key in fleet.profiles.keys]
    assert {"torch_compute", "tf_trace", "loaded"} <= set(nouns)
    assert "watch" not in nouns
    result = run(home, instance, nouns)
    assert result.success
    assert list(made(result)) == ["links", "contention", "loaded"]
    assert probes.asked == ["links", "contention"]


def test_a_visit_ends_when_its_minutes_are_spent(
    home: Path, instance: dg.DagsterInstance, probes: PaperProbes
) -> None:
    of = member(max_minutes=0.75, **SMALL)
    join(home, of)
    expected = [task.expected_s for task in tasks(visits(of, []).round_)]
    assert max(expected[:2]) < 40 < 45 < expected[2]
    progress = Told()
    result = run(home, instance, [*of.probes, "loaded"], progress=progress)
    assert result.success
    assert list(made(result))[:3] == ["links", "contention", "loaded"]
    assert "tf_trace" not in made(result)
    assert probes.asked == loaded(home) == ["links", "contention"]
    assert progress.warnings[0].startswith(f"{NODE_TYPE}: the next run takes about ")
    assert "of 0.8 min are left; the next visit goes on" in progress.warnings[0]
    join(home, member(max_minutes=20, **SMALL))
    assert run(home, instance, [*of.probes, "loaded"]).success
    assert probes.asked[2:] == ["profile small_cnn"], "goes on where it stopped"


def test_what_an_interrupted_visit_took_counts(home: Path) -> None:
    of = member(max_minutes=10)
    join(home, of)
    resource = FleetResource(warehouse=WarehouseResource(home=str(home)))
    resource._began = NOW  # noqa: SLF001
    sunday = visits(of, visited(of, NOW - timedelta(days=3), 1, "links"))
    assert resource.budget(sunday).left_s == pytest.approx(540, abs=5)
    last_week = visits(of, visited(of, NOW - timedelta(days=9), 1, "links"))
    assert resource.budget(last_week).left_s == pytest.approx(600, abs=5)


def test_a_probe_that_fails_ends_the_run_and_keeps_what_was_there(
    home: Path, instance: dg.DagsterInstance, probes: PaperProbes
) -> None:
    join(home, member(**SMALL))
    probes.fail_at = "contention"
    result = run(home, instance, [*member().probes, *AFTERWARDS])
    assert not result.success
    assert list(made(result)) == ["links"]
    assert "no paper left" in error_of(result)
    assert probes.asked == ["links", "contention"]
    assert loaded(home) == ["links"]
    statuses = read_only(home, "SELECT probe, status FROM raw.run ORDER BY probe").rows()
    assert statuses == [("contention", "failed"), ("links", "ok")]


@pytest.mark.parametrize(
    ("partition", "nouns", "message"),
    [
        (NODE_TYPE, ["tf_trace"], f"{NODE_TYPE} is profiled by links; choose some of these, or"),
        (NODE_TYPE, ["tf_trace", "loaded"], f"{NODE_TYPE} is profiled by links; choose some of"),
        (OTHER, ["links"], f"{OTHER!r} is no member of the fleet; did you mean {NODE_TYPE}?"),
        (OTHER, ["condition"], f"{OTHER!r} is no member of the fleet; did you mean {NODE_TYPE}?"),
        (OTHER, ["forecasts"], f"{OTHER!r} is no member of the fleet; did you mean {NODE_TYPE}?"),
    ],
)
def test_a_wrong_selection_is_one_clear_line(
    partition: str,
    nouns: list[str],
    message: str,
    home: Path,
    instance: dg.DagsterInstance,
    probes: PaperProbes,
) -> None:
    join(home, member(probes=("links",)))
    result = run(home, instance, nouns, partition)
    assert not result.success
    assert message in error_of(result)
    assert "\n" not in error_of(result).strip()
    assert probes.asked == []


@pytest.mark.usefixtures("probes")
def test_a_confirmed_change_is_a_new_version_of_that_type(
    home: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    join(home, member(probes=("links",)), member(OTHER, probes=("links",)))
    paper = PaperWatch()
    paper.install(monkeypatch)
    for hour in range(6):
        (probe,) = watched(member(), NOW - timedelta(hours=9 - hour), hour + 1)
        land_probe(home / "landing", probe, 1.0)
    versions = []
    for partition in (NODE_TYPE, OTHER):
        result = run(home, instance, ["condition", "links", *AFTERWARDS], partition)
        assert result.success, error_of(result)
        versions.append(made(result)["condition"].tags["dagster/data_version"])  # type: ignore[index]
    assert versions == ["as first profiled"] * 2
    quiet = made(run(home, instance, ["condition"]))["condition"].tags
    assert quiet["dagster/data_version"] == versions[0], "a quiet night changes nothing"  # type: ignore[index]

    paper.ahead = [SLOW, SLOW]
    result = run(home, instance, ["condition"])
    assert result.success
    (at,) = drifted_at(home).values()
    version = made(result)["condition"].tags["dagster/data_version"]  # type: ignore[index]
    assert version == f"since {at.isoformat()}"
    worse = made(result)["condition"].metadata["time of a step, % worse"].value
    assert worse == pytest.approx(50)
