"""What plans expect of steps of PyTorch: the terms of the sum, one by one."""

import pytest

from networks.figures import figures
from profilers.clusters.node_types import node_group
from profilers.scenarios import step_s
from tests.profilers.training import scenario
from warehouse.records import Scenario


def training(
    node_type: str = "emu.avx2.s15", workers: int = 1, batch_size: int = 4, dnn: str = "resnet10"
) -> Scenario:
    group = node_group("worker", node_type, workers)
    return scenario(group, image_size=64, batch_size=batch_size, dnn=dnn)


def seconds(of: Scenario, batch_size: int | None = None) -> float:
    estimate_s = step_s(of, batch_size)
    assert estimate_s is not None
    return estimate_s


def test_a_step_is_a_part_for_each_image_and_a_part_for_none() -> None:
    four, eight, twelve = (seconds(training(batch_size=size)) for size in (4, 8, 12))
    assert twelve - eight == pytest.approx(eight - four)
    assert four > eight - four > 0
    assert seconds(training(), 12) == pytest.approx(twelve)


def test_gradients_are_exchanged_by_several_on_links_of_a_speed() -> None:
    one_s, two_s, eight_s = (seconds(training(workers=workers)) for workers in (1, 2, 8))
    network = figures("resnet10", 64)
    assert network is not None
    assert two_s - one_s == pytest.approx(0.86 * 4 * network.parameters / (100 * 125_000))
    assert eight_s - one_s == pytest.approx(7 / 4 * (two_s - one_s))
    unshaped = training(workers=8).model_copy(update={"link_mbps": None})
    assert seconds(unshaped) == pytest.approx(one_s)
