"""A slow GPU, a slow link and a lost node, in closed form."""

from dataclasses import replace

import pytest

from models.choice.overheads import Overheads, expected_duration
from models.gpu_step.collectives import Topology
from models.gpu_step.faults import Fault, without_node
from models.gpu_step.layout import Layout
from models.gpu_step.parallel_steps import AloneStep
from models.gpu_step.queues import Step
from models.system import NotCovered

LINKS = Topology(8, 1000, 300e9, 400e9)


def alone(step_us: float, host_us: float, gpu_us: float) -> AloneStep:
    return AloneStep(Step(step_us, host_us, gpu_us))


def longer_us(fault: Fault, usual: AloneStep) -> float:
    return fault.slowed(usual).step.step_us - usual.step.step_us


def test_all_wait_for_a_slower_gpu_unless_they_wait_for_their_hosts() -> None:
    fault = Fault.of("slow-gpu=0.8")
    assert longer_us(fault, alone(100.0, 20.0, 100.0)) == 25.0
    assert longer_us(fault, alone(103.0, 20.0, 100.0)) == 25.0  # waits stay as they are
    assert longer_us(fault, alone(100.0, 100.0, 90.0)) == pytest.approx(12.5)
    assert longer_us(fault, alone(100.0, 100.0, 70.0)) == 0.0
    assert longer_us(Fault.of(None), alone(100.0, 20.0, 100.0)) == 0.0
    slower = fault.slowed(alone(100.0, 20.0, 100.0)).of_passes(4, 2)
    assert (slower.step.step_us, slower.step.gpu_us) == (250.0, 250.0)


def test_an_optimizer_that_shards_divide_is_longer_by_its_own_part() -> None:
    """80 us of 100 are the optimizer's: passes of a GPU of half the speed take 40 us, not 120."""
    usual = replace(alone(100.0, 0.0, 100.0), optimizer_us=80.0, optimizer_s=80e-6)
    slowed = Fault.of("slow-gpu=0.5").slowed(usual)
    assert slowed.passes_us == pytest.approx((40.0, 40.0))
    assert (slowed.optimizer_us, slowed.optimizer_s) == pytest.approx((160.0, 160e-6))
    # Of all stages of a pipeline, that of the slow GPU alone is longer.
    whole = replace(alone(400.0, 0.0, 400.0), optimizer_us=320.0, optimizer_s=320e-6)
    assert whole.longer_by(slowed, usual).passes_us == pytest.approx((100.0, 100.0))


def test_a_slow_link_is_of_the_network_where_there_is_one() -> None:
    fault = Fault.of("slow-link=.5")
    assert fault.links(LINKS).network_bps == 200e9
    assert fault.links(LINKS).link_bps == 300e9
    assert fault.links(Topology(8, 1, 300e9, 400e9)).link_bps == 150e9


def test_those_that_are_left_are_whole_replicas() -> None:
    layout, links = without_node(Layout(replicas=8000, shards=8000, zero=3), LINKS)
    assert (layout.replicas, layout.shards, links.nodes) == (7992, 7992, 999)
    # Replicas of 32 GPUs: of 7,992 that are left, 24 have nothing to do.
    layout, _ = without_node(Layout(8, 4, replicas=250, shards=8), LINKS)
    assert (layout.replicas, layout.shards) == (249, 8)
    with pytest.raises(NotCovered, match="hold no 16 GPUs of a replica"):
        without_node(Layout(8, 2), Topology(8, 2, 300e9, 400e9))


def test_a_job_that_loses_a_node_starts_again_from_its_last_checkpoint() -> None:
    saved = Overheads(launch_s=100.0, load_s=10.0, checkpoint_s=5.0, checkpoint_every_s=600.0)
    usual, lost = (expected_duration(saved, 0.0, is_lost=is_lost) for is_lost in (False, True))
    assert lost.time_s(1e4) - usual.time_s(1e4) == pytest.approx(100 + 10 + 5 + 300)
    unsaved = expected_duration(Overheads(launch_s=100.0), 0.0, is_lost=True)
    assert unsaved.time_s(1e4) == pytest.approx(200 + 1.5e4)
