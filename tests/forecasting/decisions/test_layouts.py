"""Layouts of a job: which are looked at, and that the fastest with room are proposed."""

from typing import cast

import pytest

from forecasting.decisions.layouts import KEPT, layout_curves
from forecasting.decisions.question import JobQuestion, ProfileFacts
from models.gpu_step.layout import Layout
from models.gpu_step.scenario_steps import StepForecaster
from warehouse.records import Scenario

NODE = "p5.48xlarge"
KNOWN = ProfileFacts(0, 1000.0, ("pytorch",))


class Steps:
    """A network whose activations have room where two tensor ranks or more divide them."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Layout, int, int]] = []

    def roughly_s(self, scenario: Scenario, layout: Layout, nodes: int) -> float | None:
        load = scenario.workload
        self.asked.append((load.dnn, layout, nodes, load.batch_size))
        assert scenario.strategy.replicas * layout.tensor * layout.stages >= 8
        if load.dnn.endswith(KEPT) and layout.tensor == 1:
            return None
        again = 1.0 if load.dnn.endswith(KEPT) else 1.3
        return again * (1 + 0.01 * layout.tensor + 0.2 * (layout.stages - 1))


def question(**fields: object) -> JobQuestion:
    given = {"dnn": "own-1", "samples": 1000, "global_batch": 64, "layouts": True, "all_gpus": True}
    return JobQuestion.model_validate(given | fields)


def test_the_fastest_layouts_of_each_number_of_nodes_are_proposed() -> None:
    steps = Steps()
    curves = layout_curves(cast(StepForecaster, steps), question(), KNOWN, {NODE: 2}, "loopback")
    assert [curve.workers for curve in curves] == [(1,), (1,), (2,), (2,)]
    for curve in curves:
        assert (curve.dnn, curve.tensor_parallel, curve.pipeline_parallel) == (f"own-1{KEPT}", 2, 1)
        replicas = curve.strategy_of(curve.workers[0]).replicas
        assert replicas * curve.batch_size * curve.accumulate == 64


def test_every_layout_uses_all_gpus_and_divides_the_batch() -> None:
    steps = Steps()
    layout_curves(cast(StepForecaster, steps), question(), KNOWN, {NODE: 2}, "loopback")
    assert {layout.ranks for _, layout, nodes, _ in steps.asked if nodes == 2} == {16}
    assert all(
        layout.replicas * layout.micro_batches * batch_size == 64
        and layout.micro_batches >= layout.stages
        for _, layout, _, batch_size in steps.asked
    )
    assert {layout.stages for _, layout, _, _ in steps.asked} == {1, 2, 4, 8, 16}
    assert {layout.zero for _, layout, _, _ in steps.asked if layout.stages > 1} == {1}
    # Activations are computed again only where they have no room.
    again = {layout.tensor for dnn, layout, _, _ in steps.asked if not dnn.endswith(KEPT)}
    assert again == {1}


def test_a_job_of_layouts_has_a_global_batch() -> None:
    with pytest.raises(ValueError, match="give --global-batch, which they divide"):
        question(global_batch=None, batch_size=4)
