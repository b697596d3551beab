"""A linear model of work and a regressor of what it leaves; what leaving out tells of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from models.predictddl.ghn import cosine_distance
from models.predictddl.known import Known, key_of, rows_of, terms_of
from models.predictddl.learned import REGRESSORS, Regressor
from models.predictddl.linear_work import FEWEST_RUNS, LinearWork
from models.predictddl.observed import Observed
from models.threads import one_thread
from networks.families import family
from warehouse.records import Scenario

Floats = NDArray[np.float64]
COVERAGE = 0.9
_FAR = 1.5
"""A network is far out beyond so many times the distance of the family that is furthest off."""
_LEAST_FAR = 1e-6
"""Cosine distances below that are of equal graphs: sums of 32-bit floats differ by as much."""
_WORTH = 0.98
"""A more complicated regressor has to err by less than this times what a simpler one does."""
_DRAWS = 2000
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
        with one_thread():
            return cls(known, linear, REGRESSORS[regressor](rows, left))

    def forecast(self, scenarios: Sequence[Scenario]) -> tuple[Floats, Floats]:
        """Return the logarithm of each scenario's seconds, and its deviation."""
        graphs = self.known.graphs([key_of(one) for one in scenarios])
        linear = [self.linear.step_s(terms_of(one, self.known, graphs)) for one in scenarios]
        rows = rows_of(scenarios, self.known, graphs)
        with one_thread():
            more, deviation = self.regressor.predict(rows)
        return np.log(linear) + more, deviation

    def parts(self, scenarios: Sequence[Scenario]) -> Floats:
        """Return the part of each term in each step, of its slowest nodes: [scenarios, terms]."""
        graphs = self.known.graphs([key_of(one) for one in scenarios])
        found = [self.linear.parts(terms_of(one, self.known, graphs)) for one in scenarios]
        return np.array(found).reshape(len(scenarios), len(self.linear.coefficients))


def ours(regressor: str) -> Fitting:
    """Return what fits our model with a regressor."""
    return lambda known: Model.fit(known, regressor).forecast


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Runs that were left out of the fit that forecast them.

    Attributes:
        errors: of logarithms of seconds, forecast less measured.
        deviations: of these logarithms, as forecast.
        families: of each run's network.
    """

    errors: Floats
    deviations: Floats
    families: NDArray[np.object_]

    @property
    def mean_error(self) -> float:
        """The mean absolute error of logarithms."""
        return float(np.abs(self.errors).mean())

    def quantile_error(self) -> float:
        """Return the error below which `COVERAGE` of forecasts were, for a finite sample."""
        return _quantile(np.abs(self.errors))

    def quantile_score(self) -> float:
        """Return the same of scores, errors over their deviations."""
        return _quantile(np.abs(self.errors) / np.maximum(self.deviations, 1e-9))

    def surely_below(self, other: "LeftOut") -> bool:
        """Tell whether errors are below another's of the same runs, with 95 % confidence.

        Families are drawn again, because runs of one family err alike.
        """
        less = np.abs(other.errors) - np.abs(self.errors)
        names = sorted(set(self.families))
        sums = np.array([less[self.families == name].sum() for name in names])
        counts = np.array([(self.families == name).sum() for name in names])
        drawn = np.random.default_rng(0).integers(0, len(names), (_DRAWS, len(names)))
        means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
        return bool(np.quantile(means, 0.05) > 0)


def by_family(known: Known, families: Sequence[str], fitting: Fitting) -> LeftOut:
    """Forecast the runs of each family by a fit to the others."""
    found = []
    for name in families:
        out = [one for one in known.runs if _family(one) == name]
        found.append(_forecast(known.without(lambda one, out=out: one in out), out, fitting))  # type: ignore[misc]
    return _together(found)


def by_node_type(known: Known, fitting: Fitting) -> LeftOut | None:
    """Forecast the runs on each type of nodes by a fit that has no steps there.

    Returns: None where there are no steps on another type.
    """
    found = []
    for name in sorted(known.node_types):
        out = [one for one in known.runs if name in node_types(one.scenario)]
        rest = known.without(lambda one, out=out: one in out)  # type: ignore[misc]
        if len(rest.runs) >= FEWEST_RUNS:
            found.append(_forecast(rest, out, fitting))
    return _together(found) if found else None


def by_run(known: Known, fitting: Fitting, folds: int = 8) -> LeftOut | None:
    """Forecast runs, in folds, by a fit that knows other runs of the same networks.

    Returns: None where no network has several runs.
    """
    found = []
    for fold in range(folds):
        out = [one for place, one in enumerate(known.runs) if place % folds == fold]
        rest = known.without(lambda one, out=out: one in out)  # type: ignore[misc]
        if out := [one for one in out if one.scenario.workload.dnn in rest.names]:
            found.append(_forecast(rest, out, fitting))
    return _together(found) if found else None


def node_types(scenario: Scenario) -> set[str]:
    """Return the types of nodes that compute steps."""
    return {group.node_type for group in scenario.worker_groups}


def chosen(tried: Mapping[str, LeftOut]) -> str:
    """Return the first that no later one beats clearly: they are in order of their size."""
    best, *others = tried
    for name in others:
        if tried[name].mean_error < _WORTH * tried[best].mean_error:
            best = name
    return best


def widened(apart: float, far: float) -> float:
    """Return how much wider the interval of a network is at a cosine distance from known ones.

    Up to the distance of the family that is furthest off, errors of families left out tell; beyond,
    intervals widen with the distance, up to `_FAR` times.
    """
    return max(1.0, _FAR * apart / far)


def far(known: Known) -> float:
    """Return how far off a network may be: `_FAR` times the family that is furthest from others."""
    nearest = []
    for (dnn, _), ours in known.embeddings.items():
        others = [
            cosine_distance(ours, other)
            for (name, _), other in known.embeddings.items()
            if family(name) != family(dnn)
        ]
        nearest.append(min(others))
    return max(_FAR * max(nearest), _LEAST_FAR)


def _quantile(values: Floats) -> float:
    ordered = np.sort(values)
    return float(ordered[min(int(np.ceil(COVERAGE * (len(ordered) + 1))), len(ordered)) - 1])


def _forecast(known: Known, out: Sequence[Observed], fitting: Fitting) -> LeftOut:
    scenarios = [one.scenario for one in out]
    found, deviations = fitting(known)(scenarios)
    return LeftOut(
        errors=found - np.log([one.step_s for one in out]),
        deviations=deviations,
        families=np.array([_family(one) for one in out], dtype=object),
    )


def _together(parts: Sequence[LeftOut]) -> LeftOut:
    return LeftOut(
        np.concatenate([one.errors for one in parts]),
        np.concatenate([one.deviations for one in parts]),
        np.concatenate([one.families for one in parts]),
    )


def _family(one: Observed) -> str:
    return family(one.scenario.workload.dnn)
