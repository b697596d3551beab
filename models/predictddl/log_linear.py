"""What a step takes by a regression on a few figures of a network: what others have to beat."""

from collections.abc import Callable, Sequence
from math import log
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from models.predictddl.observations import batch_of, of_node
from models.predictddl.work import Work, ranks_of
from networks.primitives import PRIMITIVES
from warehouse.records import NodeGroup, Scenario

if TYPE_CHECKING:
    from models.predictddl.training_set import TrainingSet

Floats = NDArray[np.float64]
LogLinearForecaster = Callable[[Sequence[Scenario]], tuple[Floats, Floats]]
_DRAWN = 1e-3


def fit_log_linear(known: "TrainingSet") -> LogLinearForecaster:
    """Fit logarithms of seconds to those of operations, activations and parameters, and setups."""
    return _fitted(known, _figures)


def fit_histogram(known: "TrainingSet") -> LogLinearForecaster:
    """Fit logarithms of seconds to how many primitives of each type there are, and setups."""
    return _fitted(known, _counts, drawn=1.0)


def _fitted(
    known: "TrainingSet",
    of_network: Callable[[Work, Sequence[int]], list[float]],
    drawn: float = _DRAWN,
) -> LogLinearForecaster:
    def features(scenarios: Sequence[Scenario]) -> Floats:
        graphs = known.graphs(
            [(scenario.workload.dnn, scenario.workload.image_size) for scenario in scenarios]
        )
        rows = []
        for scenario in scenarios:
            graph = graphs[scenario.workload.dnn, scenario.workload.image_size]
            counts = [graph.histogram[name] for name in PRIMITIVES]
            own = of_network(Work.of(graph), counts)
            slowest = min(scenario.worker_groups, key=lambda group: _speed(group, known))
            rows.append(
                [
                    *own,
                    log(batch_of(scenario, slowest)),
                    log(ranks_of(scenario)),
                    float(ranks_of(scenario) > 1),
                    log(_speed(slowest, known)),
                ]
            )
        return np.array(rows)

    design = features([run.scenario for run in known.runs])
    middle, spread = design.mean(axis=0), design.std(axis=0)
    spread = np.where(spread > 1e-9, spread, 1.0)
    matrix = (design - middle) / spread
    target = np.log(known.steps_s)
    level = float(target.mean())
    normal = matrix.T @ matrix + drawn * np.eye(matrix.shape[1])
    weights = np.linalg.solve(normal, matrix.T @ (target - level))
    left = target - level - matrix @ weights
    deviation = float(np.sqrt((left**2).sum() / max(len(left) - matrix.shape[1] - 1, 1)))

    def forecast(scenarios: Sequence[Scenario]) -> tuple[Floats, Floats]:
        found = level + (features(scenarios) - middle) / spread @ weights
        return found, np.full(len(scenarios), deviation)

    return forecast


def _figures(work: Work, counts: Sequence[int]) -> list[float]:
    return [log(max(one, 1.0)) for one in (work.flops, work.activations, work.parameters)]


def _counts(work: Work, counts: Sequence[int]) -> list[float]:
    return [log(1 + count) for count in counts]


def _speed(group: NodeGroup, known: "TrainingSet") -> float:
    return of_node(group, known.measured).dense_flops
