"""Regressions on figures of a network: what they say of one that they have not seen, by hand."""

from collections.abc import Callable

import numpy as np
import pytest

from models.predictddl.ghn import Embedder
from models.predictddl.observations import ObservedStep
from models.predictddl.training_set import TrainingSet
from models.predictddl.work import fit_histogram, fit_log_linear
from tests.models.predictddl import study
from warehouse.records import Scenario

UNSEEN = "elk"
"""It has more layers and operations than any that is fitted to."""


def per_convolution(one: Scenario) -> float:
    """Return seconds that only the number of convolutions, the batch and the type decide."""
    convolutions = study.network(one.workload.dnn).histogram["conv"]
    speed = study.SPEED[one.worker_groups[0].node_type]
    return 1e8 * (1 + convolutions) ** 1.5 * one.workload.batch_size / speed


def per_operation(one: Scenario) -> float:
    """Return seconds that only operations, the batch and the type decide."""
    speed = study.SPEED[one.worker_groups[0].node_type]
    return float(study.network(one.workload.dnn).flops) * one.workload.batch_size / speed


def error_of(fit: Callable[[TrainingSet], object], step_s: Callable[[Scenario], float]) -> float:
    """Return the mean error of logarithms for the unseen network, fitted to the four others."""
    seen = study.scenarios(study.NETWORKS[:-1])
    runs = [ObservedStep(one, step_s(one)) for one in seen]
    forecast = fit(TrainingSet(runs, study.MEASURED, study.graphs, Embedder.untrained()))
    asked = study.scenarios([UNSEEN])
    found, deviations = forecast(asked)  # type: ignore[operator]
    assert (deviations > 0).all()
    return float(np.abs(found - np.log([step_s(one) for one in asked])).mean())


@pytest.mark.parametrize(
    ("fit", "step_s"), [(fit_histogram, per_convolution), (fit_log_linear, per_operation)]
)
def test_laws_of_their_figures_reach_a_network_that_was_not_seen(
    fit: Callable[[TrainingSet], object], step_s: Callable[[Scenario], float]
) -> None:
    nothing = abs(
        np.log(step_s(study.scenario(UNSEEN, 1, 4)))
        - np.mean([np.log(step_s(study.scenario(one, 1, 4))) for one in study.NETWORKS[:-1]])
    )
    assert error_of(fit, step_s) < 0.25 * nothing
