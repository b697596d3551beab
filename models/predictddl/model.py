"""A linear model of work and a regressor of what it leaves; what leaving out tells of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from models.predictddl.ghn import cosine_distance
from models.predictddl.known import Known, key_of, rows_of, terms_of
from models.predictddl.learned import REGRESSORS, Regressor
from models.predictddl.linear_work import LinearWork
from networks.families import family
from warehouse.records import Scenario

Floats = NDArray[np.float64]
COVERAGE = 0.9
_FAR = 1.5
"""A network is far out beyond so many times the distance of the family that is furthest off."""
_WORTH = 0.98
"""A more complicated regressor has to err by less than this times what a simpler one does."""
Forecast = Callable[[Sequence[Scenario]], tuple[Floats, Floats]]
"""Logarithms of seconds, with deviations."""
Fitting = Callable[[Known], Forecast]


@dataclass(frozen=True, eq=False)
class Model:
    """A linear model of work and a regressor of what it leaves, fitted to some runs."""

    known: Known
    linear: LinearWork
    regressor: Regressor

    @classmethod
    def fit(cls, known: Known, regressor: str) -> Self:
        """Fit to all runs that are known."""
        of_runs = [terms_of(one.scenario, known, known.networks) for one in known.runs]
        linear = LinearWork.fit(of_runs, known.steps_s)
        left = np.log(known.steps_s) - np.log([linear.step_s(one) for one in of_runs])
        rows = rows_of([one.scenario for one in known.runs], known, known.networks)
        return cls(known, linear, REGRESSORS[regressor](rows, left))

    def forecast(self, scenarios: Sequence[Scenario]) -> tuple[Floats, Floats]:
        """Return the logarithm of each scenario's seconds, and its deviation."""
        graphs = self.known.graphs([key_of(one) for one in scenarios])
        linear = [self.linear.step_s(terms_of(one, self.known, graphs)) for one in scenarios]
        more, deviation = self.regressor.predict(rows_of(scenarios, self.known, graphs))
        return np.log(linear) + more, deviation


def ours(regressor: str) -> Fitting:
    """Return what fits our model with a regressor."""
    return lambda known: Model.fit(known, regressor).forecast


def by_family(known: Known, families: Sequence[str], fitting: Fitting) -> tuple[Floats, Floats]:
    """Return errors of logarithms, and deviations, of each family by a fit to the others."""
    errors, deviations = [], []
    for name in families:
        out = [one for one in known.runs if family(one.scenario.workload.dnn) == name]
        rest = known.without(lambda one, out=out: one in out)  # type: ignore[misc]
        found, deviation = fitting(rest)([one.scenario for one in out])
        errors.append(found - np.log([one.step_s for one in out]))
        deviations.append(deviation)
    return np.concatenate(errors), np.concatenate(deviations)


def by_run(known: Known, regressor: str, folds: int = 8) -> tuple[Floats, Floats]:
    """Return errors and deviations of runs of networks that others of it are known of."""
    errors, deviations = [], []
    for fold in range(folds):
        out = [one for place, one in enumerate(known.runs) if place % folds == fold]
        rest = known.without(lambda one, out=out: one in out)  # type: ignore[misc]
        left = {one.scenario.workload.dnn for one in rest.runs}
        out = [one for one in out if one.scenario.workload.dnn in left]
        if not out:
            continue
        found, deviation = Model.fit(rest, regressor).forecast([one.scenario for one in out])
        errors.append(found - np.log([one.step_s for one in out]))
        deviations.append(deviation)
    if not errors:
        return np.array([0.2]), np.array([0.2])
    return np.concatenate(errors), np.concatenate(deviations)


def chosen(tried: Mapping[str, tuple[Floats, Floats]]) -> str:
    """Return the first that no later one beats clearly: they are in order of their size."""
    errors = {name: float(np.abs(found).mean()) for name, (found, _) in tried.items()}
    best, *others = errors
    for name in others:
        if errors[name] < _WORTH * errors[best]:
            best = name
    return best


def quantile(errors: Floats, deviations: Floats) -> float:
    """Return the score below which `COVERAGE` of left-out forecasts were, for a finite sample."""
    scores = np.sort(np.abs(errors) / np.maximum(deviations, 1e-9))
    place = min(int(np.ceil(COVERAGE * (len(scores) + 1))) - 1, len(scores) - 1)
    return float(scores[place])


def far(known: Known, families: Sequence[str]) -> float:
    """Return how far off a network may be: more than any family is from all others."""
    nearest = []
    for (dnn, _), ours in known.embeddings.items():
        others = [
            cosine_distance(ours, other)
            for (name, _), other in known.embeddings.items()
            if family(name) != family(dnn)
        ]
        nearest.append(min(others))
    return _FAR * max(nearest)
