"""Distances of scenarios, the nearest that were judged, and how far forecasts reach."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from forecasting.nearest import (
    NEAREST,
    UNKNOWN,
    JudgedScenarios,
    Neighbour,
    coordinates,
    find_nearest_cases,
    format_amount,
    judged_range,
)
from tests.made_run import all_reduce, served, worker_nodes
from warehouse.records import Scenario


def scenario(
    workers: int = 2, *, worker: str = "emu.avx2.s15", link_mbps: float | None = 500, **load: object
) -> Scenario:
    """Return an all-reduce of PyTorch."""
    nodes = worker_nodes(worker, workers)
    return all_reduce(nodes, link_mbps=link_mbps, **{"dnn": "resnet18", **load})


def asynchronous(servers: int = 1, cross_traffic: float | None = None) -> Scenario:
    """Return asynchronous training of two workers."""
    nodes = worker_nodes("emu.avx2.s15", 2)
    return served(
        nodes, servers=servers, dnn="resnet18", link_mbps=500, cross_traffic=cross_traffic
    )


def apart(first: Scenario, second: Scenario) -> float:
    """Return the distance, which is the same both ways."""
    distance = coordinates(first).distance(coordinates(second))
    assert distance == pytest.approx(coordinates(second).distance(coordinates(first)))
    return distance


@pytest.mark.parametrize(
    ("other", "distance"),
    [
        (scenario(), 0),
        (scenario(8), 2),
        (scenario(link_mbps=1000), 1),
        (scenario(link_mbps=None), 0),
        (scenario(worker="emu.avx512.s15"), 1),
        # Operations of a step: twice the images, or four times the area of each.
        (scenario(batch_size=16), 1),
        (scenario(image_size=128), 2),
        (scenario(8, batch_size=4, worker="emu.avx512.s15"), 4),
        (asynchronous(), float("inf")),
    ],
)
def test_a_doubling_counts_one_and_so_do_other_nodes(other: Scenario, distance: float) -> None:
    assert apart(scenario(), other) == pytest.approx(distance)


def test_servers_and_cross_traffic_count() -> None:
    assert apart(asynchronous(), asynchronous(4, 0.3)) == pytest.approx(3)


def test_networks_are_apart_by_their_sizes() -> None:
    from math import log2

    from networks.figures import figures

    small, large = figures("resnet18", 64), figures("resnet50", 64)
    assert small and large
    expected = 1 + log2(large.flops / small.flops) + log2(large.parameters / small.parameters)
    assert apart(scenario(), scenario(dnn="resnet50")) == pytest.approx(expected)
    assert apart(scenario(), scenario(dnn="cuda_convnet")) == pytest.approx(1 + 2 * UNKNOWN)
    # Of one network of unknown size, operations grow with the pixels.
    narrow, wide = scenario(dnn="cuda_convnet"), scenario(dnn="cuda_convnet", image_size=128)
    assert apart(narrow, wide) == pytest.approx(2)


def judged(errors: Mapping[Scenario, float]) -> JudgedScenarios:
    """Return forecasts of srift that were off by so many percent."""
    neighbours = [
        Neighbour(
            label=scenario.label,
            scenario_id=scenario.scenario_id,
            at=coordinates(scenario),
            error=error,
            size=abs(error),
            inside=int(abs(error) < 5),
            intervals=1,
        )
        for scenario, error in errors.items()
    ]
    return {("srift", "step_time_s"): neighbours}


def test_the_nearest_tell_how_wrong_forecasts_were() -> None:
    errors = {scenario(workers): float(-workers) for workers in (1, 2, 3, 4, 5, 6, 8)}
    nearest, far = find_nearest_cases(judged(errors), "srift", "step_time_s", scenario(16))
    assert [near.error for near, _ in nearest] == [-8, -6, -5, -4, -3]
    assert len(nearest) == NEAREST
    assert far is None


def test_the_same_split_comes_first() -> None:
    known = judged({scenario(workers): float(workers) for workers in (1, 2, 3, 4, 5, 6, 8)})
    neighbours = [
        replace(neighbour, split="seen" if neighbour.error < 4 else "held_out_world_size")
        for neighbour in known["srift", "step_time_s"]
    ]
    known = {("srift", "step_time_s"): neighbours}
    case = find_nearest_cases(known, "srift", "step_time_s", scenario(1), "held_out_world_size")
    assert [near.error for near, _ in case[0]] == [4, 5, 6, 8, 1]


def test_a_scenario_that_was_judged_in_two_splits_is_there_once() -> None:
    (other,) = judged({scenario(2): 9.0})["srift", "step_time_s"]
    neighbours = [replace(other, split="held_out_dnn", size=3.0), replace(other, split="seen")]
    known = {("srift", "step_time_s"): neighbours}
    for split, size in (("held_out_dnn", 3.0), ("seen", 9.0)):
        case = find_nearest_cases(known, "srift", "step_time_s", scenario(1), split)
        assert [near.size for near, _ in case[0]] == [size]


def test_far_out_says_what_to_measure_first() -> None:
    known = judged({scenario(workers): 1.0 for workers in (1, 2, 4, 8)})
    assert find_nearest_cases(known, "srift", "step_time_s", scenario(16))[1] is None
    far = find_nearest_cases(known, "srift", "step_time_s", scenario(64))[1]
    assert far == (
        "64 workers, where forecasts were judged from 1 to 8; first measure a scenario of 16 "
        "workers; list it under test of a study: `stepcast run` judges it"
    )
    # One judged batch tells nothing about how far others are.
    assert find_nearest_cases(known, "srift", "step_time_s", scenario(batch_size=64))[1] is None


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0.5, "0.5"),
        (66_600, "66,600"),
        (124_234.0, "124,200"),
        (13_364_321, "13.36 million"),
        (3.2e15, "3200 trillion"),
    ],
)
def test_amounts_are_said_as_people_read_them(number: float, said: str) -> None:
    assert format_amount(number) == said


def test_as_far_as_the_widest_gap_is_trusted() -> None:
    assert judged_range([]) is None
    assert judged_range([4.0]) is None
    assert judged_range([1.0, 2.0, 8.0]) == (0.25, 32.0)
    # Values that are close do not forbid a doubling.
    assert judged_range([8.0, 10.0]) == (4.0, 20.0)
