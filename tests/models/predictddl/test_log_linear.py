"""Regressions on figures of a network: what they say of one that they have not seen, by hand."""

from collections.abc import Callable

import numpy as np
import pytest

from models.predictddl.ghn import Embedder
from models.predictddl.observations import ObservedStep
from models.predictddl.training_set import TrainingSet
from models.predictddl.work import fit_log_linear
from tests.models.predictddl import study
from warehouse.records import Scenario

UNSEEN = "elk"
"""It has more layers and operations than any that is fitted to."""


def per_convolution(scenario: Scenario) -> float:
    """Return seconds that only the number of convolutions, the batch and the type decide."""
    convolutions = study.network(scenario.workload.dnn).histogram["conv"]
    speed = study.SPEED[scenario.worker_groups[0].node_type]
    return 1e8 * (1 + convolutions) ** 1.5 * scenario.workload.batch_size / speed


def per_operation(scenario: Scenario) -> float:
    """Return seconds that only operations, the batch and the type decide."""
    speed = study.SPEED[scenario.worker_groups[0].node_type]
    return float(study.network(scenario.workload.dnn).flops) * scenario.workload.batch_size / speed


@pytest.mark.parametrize(("of_counts", "step_s"), [(True, per_convolution), (False, per_operation)])
def test_laws_of_their_figures_reach_a_network_that_was_not_seen(
    of_counts: bool, step_s: Callable[[Scenario], float]
) -> None:
    nothing = abs(
        np.log(step_s(study.scenario(UNSEEN, 1, 4)))
        - np.mean([np.log(step_s(study.scenario(dnn, 1, 4))) for dnn in study.NETWORKS[:-1]])
    )
    seen, unseen = study.scenarios(study.NETWORKS[:-1]), study.scenarios([UNSEEN])
    runs = [ObservedStep(scenario, step_s(scenario)) for scenario in seen]
    known = TrainingSet(runs, study.MEASURED, study.graphs, Embedder.untrained())
    log_steps, deviations = fit_log_linear(known, of_counts=of_counts)(unseen)
    assert (deviations > 0).all()
    errors = np.abs(log_steps - np.log([step_s(scenario) for scenario in unseen]))
    assert errors.mean() < 0.25 * nothing
