import pytest

from models.profiled_run import check_alike, metric_mean, read_scenario
from tests.models.async_sgd.frames import RUN_ID
from tests.models.runs import samples, scenario
from warehouse.records import BadInput, Scenario


def test_a_scenario_of_another_version_is_refused() -> None:
    with pytest.raises(BadInput, match="not one this version reads"):
        read_scenario("{}")


def test_a_metric_of_another_run_does_not_count() -> None:
    with pytest.raises(BadInput, match="expected metric x of 0 or more, found None"):
        metric_mean({"sample": samples({"x": [1]}, run_id="another")}, RUN_ID, "x")


@pytest.mark.parametrize("workers", [1, 2, 9])
def test_more_workers_are_alike(workers: int) -> None:
    check_alike([scenario()], scenario(workers, flow_control=False, order="reverse"))


def test_as_many_servers_as_were_profiled() -> None:
    profiled = scenario(servers=2)
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
