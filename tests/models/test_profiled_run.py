import polars as pl
import pytest

from models.profiled_run import (
    check_alike,
    metric_mean,
    only_run_id,
    profiled_scenario,
)
from tests.models.async_sgd.frames import RUN_ID
from tests.models.runs import run_tables, samples, scenario
from warehouse.records import BadInput, Scenario


@pytest.mark.parametrize("run_id", ["other", "unknown"])
def test_a_run_that_failed_or_is_not_there(run_id: str) -> None:
    with pytest.raises(BadInput, match=f"run {run_id}: expected a profile with status ok"):
        profiled_scenario(run_id, *run_tables())


def test_a_profile_of_several_workers() -> None:
    with pytest.raises(BadInput, match="expected a profile of 1 worker, found 2"):
        profiled_scenario(RUN_ID, *run_tables(scenario(2)))


def test_a_scenario_that_is_missing_or_unreadable() -> None:
    runs, scenarios = run_tables()
    with pytest.raises(BadInput, match="is not in scenario"):
        profiled_scenario(RUN_ID, runs, scenarios.clear())
    with pytest.raises(BadInput, match="not one this version reads"):
        profiled_scenario(RUN_ID, runs, scenarios.with_columns(canonical=pl.lit("{}")))


def test_one_run_at_a_time() -> None:
    two_runs = pl.concat([samples({"x": [1]}), samples({"x": [1]}, run_id="another")])
    assert only_run_id(samples({"x": [1, 2]}), "sample") == RUN_ID
    with pytest.raises(BadInput, match=r"table sample: .* found 2 runs \(another, profile-1\)"):
        only_run_id(two_runs, "sample")
    with pytest.raises(BadInput, match=r"found 0 runs \(none\)"):
        only_run_id(two_runs.clear(), "sample")


def test_a_metric_of_another_run_does_not_count() -> None:
    with pytest.raises(BadInput, match="expected metric x of 0 or more, found None"):
        metric_mean(samples({"x": [1]}, run_id="another"), RUN_ID, "x")


@pytest.mark.parametrize("workers", [1, 2, 9])
def test_more_workers_are_alike(workers: int) -> None:
    check_alike([scenario()], scenario(workers, flow_control=False, order="reverse"))


def test_as_many_servers_as_were_profiled() -> None:
    profiled = scenario(servers=2)
    assert profiled_scenario(RUN_ID, *run_tables(profiled)) == profiled
    check_alike([profiled], scenario(3, servers=2))
    for other in (scenario(3), scenario(3, servers=2, placement="greedy")):
        with pytest.raises(BadInput, match="but the profile has them on 2 servers, placed round"):
            check_alike([profiled], other)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (scenario(2, batch_size=9), "workload with batch_size 9, but the profile has 8"),
        (scenario(2, node_type="emu.2c"), "worker nodes with node_type 'emu.2c'"),
        (
            scenario(2, servers=2),
            "on 2 servers, placed round_robin, but the profile .* on 1",
        ),
    ],
)
def test_what_the_profile_says_nothing_about(asked: Scenario, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        check_alike([scenario()], asked)
