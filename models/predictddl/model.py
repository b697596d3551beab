"""Seconds of a step as a sum of terms of work, and a regressor of what that leaves."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy
from numpy.typing import NDArray

from models.predictddl.ghn import cosine_distance
from models.predictddl.observations import ObservedStep, one_thread
from models.predictddl.residuals import REGRESSORS, Regressor
from models.predictddl.training_set import TrainingSet, key_of, rows_of, terms_of
from networks.catalogue import family
from warehouse.records import BadInput, Scenario

Floats = NDArray[np.float64]
COVERAGE = 0.9
_FAR = 1.5
"""A network is far out beyond so many times the distance of the family that is furthest off."""
_LEAST_FAR = 1e-6
"""Cosine distances below that are of equal graphs: sums of 32-bit floats differ by as much."""
_WORTH = 0.98
"""A more complicated regressor has to err by less than this times what a simpler one does."""
_DRAWS = 2000
IntervalForecaster = Callable[[Sequence[Scenario]], tuple[Floats, Floats]]
"""Logarithms of seconds, with deviations."""
Fitting = Callable[[TrainingSet], IntervalForecaster]


def fit_coefficients(terms: Sequence[Floats], step_s: Floats) -> Floats:
    """Return coefficients of `models.predictddl.work.terms`, fitted to measured steps.

    Nodes of several groups wait for the slowest: of a mix, the group with the most seconds counts.
    Which that is, is found in turns with the coefficients, from the first.

    Args:
        terms: of each run, [groups, terms].
        step_s: of each run.

    Raises:
        BadInput: fewer runs than `FEWEST_RUNS`.
    """
    if len(terms) < FEWEST_RUNS:
        raise BadInput(
            f"expected {FEWEST_RUNS} measured runs or more to fit to, found {len(terms)}; list "
            "more under train of a study, and `stepcast run`"
        )
    slowest = np.array([term[0] for term in terms])
    for _ in range(5):
        design = slowest / step_s[:, None]
        size = np.linalg.norm(design, axis=0)
        scale = np.where(size > 0, size, 1.0)
        drawn = _DRAWN * np.sqrt(len(terms)) * np.eye(len(scale))
        matrix = np.vstack([design / scale, drawn])
        solution, _ = scipy.optimize.nnls(
            matrix, np.concatenate([np.ones(len(terms)), np.zeros(len(scale))])
        )
        coefficients = solution / scale
        chosen = np.array([term[np.argmax(term @ coefficients)] for term in terms])
        if np.array_equal(chosen, slowest):
            break
        slowest = chosen
    return np.asarray(coefficients)


@dataclass(frozen=True, eq=False)
class WorkModel:
    """A linear model of work and a regressor of what it leaves, fitted to some runs."""

    known: TrainingSet
    coefficients: Floats
    regressor: Regressor

    @classmethod
    def fit(cls, known: TrainingSet, regressor: str) -> Self:
        """Fit to all runs that are known."""
        of_runs = [terms_of(run.scenario, known, known.networks) for run in known.runs]
        coefficients = fit_coefficients(of_runs, known.steps_s)
        left = np.log(known.steps_s) - np.log([_step_s(run, coefficients) for run in of_runs])
        rows = rows_of([run.scenario for run in known.runs], known, known.networks)
        with one_thread():
            return cls(known, coefficients, REGRESSORS[regressor](rows, left))

    def forecast(self, scenarios: Sequence[Scenario]) -> tuple[Floats, Floats]:
        """Return the logarithm of each scenario's seconds, and its deviation."""
        graphs = self.known.graphs([key_of(scenario) for scenario in scenarios])
        linear = [
            _step_s(terms_of(scenario, self.known, graphs), self.coefficients)
            for scenario in scenarios
        ]
        rows = rows_of(scenarios, self.known, graphs)
        with one_thread():
            more, deviation = self.regressor.predict(rows)
        return np.log(linear) + more, deviation

    def parts(self, scenarios: Sequence[Scenario]) -> Floats:
        """Return the part of each term in each step, of its slowest nodes: [scenarios, terms]."""
        graphs = self.known.graphs([key_of(scenario) for scenario in scenarios])
        parts = []
        for scenario in scenarios:
            seconds = terms_of(scenario, self.known, graphs) * self.coefficients
            slowest = seconds[np.argmax(seconds.sum(axis=1))]
            parts.append(slowest / max(float(slowest.sum()), 1e-12))
        return np.array(parts).reshape(len(scenarios), len(self.coefficients))


def _step_s(terms: Floats, coefficients: Floats) -> float:
    """Return the seconds of a step, whose groups have these terms: [groups, terms]."""
    return max(float((terms @ coefficients).max()), 1e-6)


def fit_with(regressor: str) -> Fitting:
    """Return what fits our model with a regressor."""
    return lambda known: WorkModel.fit(known, regressor).forecast


@dataclass(frozen=True, eq=False)
class HeldOutRuns:
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

    def surely_below(self, other: "HeldOutRuns") -> bool:
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


def by_family(known: TrainingSet, families: Sequence[str], fitting: Fitting) -> HeldOutRuns:
    """Forecast the runs of each family by a fit to the others."""
    parts = [[run for run in known.runs if _family(run) == name] for name in families]
    return _together([_forecast(_rest(known, out), out, fitting) for out in parts])


def by_node_type(known: TrainingSet, fitting: Fitting) -> HeldOutRuns | None:
    """Forecast the runs on each type of nodes by a fit that has no steps there.

    Returns: None where there are no steps on another type.
    """
    parts = [
        [run for run in known.runs if name in node_types(run.scenario)]
        for name in sorted(known.node_types)
    ]
    held_out = [
        _forecast(rest, out, fitting)
        for out in parts
        if len((rest := _rest(known, out)).runs) >= FEWEST_RUNS
    ]
    return _together(held_out) if held_out else None


def by_run(known: TrainingSet, fitting: Fitting, folds: int = 8) -> HeldOutRuns | None:
    """Forecast runs, in folds, by a fit that knows other runs of the same networks.

    Returns: None where no network has several runs.
    """
    held_out = []
    for fold in range(folds):
        rest = _rest(known, known.runs[fold::folds])
        out = [run for run in known.runs[fold::folds] if run.scenario.workload.dnn in rest.names]
        if out:
            held_out.append(_forecast(rest, out, fitting))
    return _together(held_out) if held_out else None


def _rest(known: TrainingSet, out: Sequence[ObservedStep]) -> TrainingSet:
    return known.without(lambda run: run in out)


def node_types(scenario: Scenario) -> set[str]:
    """Return the types of nodes that compute steps."""
    return {group.node_type for group in scenario.worker_groups}


def choose_regressor(tried: Mapping[str, HeldOutRuns]) -> str:
    """Return the first that no later one beats clearly: they are in order of their size."""
    best, *others = tried
    for name in others:
        if tried[name].mean_error < _WORTH * tried[best].mean_error:
            best = name
    return best


def interval_factor(apart: float, far: float) -> float:
    """Return how much wider the interval of a network is at a cosine distance from known ones.

    Up to the distance of the family that is furthest off, errors of families left out tell; beyond,
    intervals widen with the distance, up to `_FAR` times.
    """
    return max(1.0, _FAR * apart / far)


def family_error(known: TrainingSet) -> float:
    """Return how far off a network may be: `_FAR` times the family that is furthest from others."""
    nearest = []
    for (dnn, _), embedding in known.embeddings.items():
        others = [
            cosine_distance(embedding, other)
            for (name, _), other in known.embeddings.items()
            if family(name) != family(dnn)
        ]
        nearest.append(min(others))
    return max(_FAR * max(nearest), _LEAST_FAR)


def _quantile(values: Floats) -> float:
    ordered = np.sort(values)
    return float(ordered[min(int(np.ceil(COVERAGE * (len(ordered) + 1))), len(ordered)) - 1])


def _forecast(known: TrainingSet, out: Sequence[ObservedStep], fitting: Fitting) -> HeldOutRuns:
    scenarios = [run.scenario for run in out]
    logarithms, deviations = fitting(known)(scenarios)
    return HeldOutRuns(
        errors=logarithms - np.log([run.step_s for run in out]),
        deviations=deviations,
        families=np.array([_family(run) for run in out], dtype=object),
    )


def _together(parts: Sequence[HeldOutRuns]) -> HeldOutRuns:
    return HeldOutRuns(
        np.concatenate([part.errors for part in parts]),
        np.concatenate([part.deviations for part in parts]),
        np.concatenate([part.families for part in parts]),
    )


def _family(run: ObservedStep) -> str:
    return family(run.scenario.workload.dnn)


# Seconds of a step as a sum of terms with coefficients of 0 or more, by relative error.
#
# Source: the form is Ernest's (Venkataraman et al., NSDI 2016, section 3.2); the terms are ours.


FEWEST_RUNS = 3
_DRAWN = 0.02
"""How strongly coefficients, of terms scaled alike, are drawn to 0, in relative errors."""
