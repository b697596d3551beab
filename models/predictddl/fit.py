"""PredictDDL, ours: steps from the work of a graph and from like networks, here or on other hosts.

The time of a step is a linear model of the work (`linear_work`), times what a regressor says of
networks of this kind in such setups. Which regressor it is, is chosen by leaving out families of
networks, for networks that were measured by leaving out runs. How wrong these left-out forecasts
were makes the interval; it widens for networks further from all others than any family left out.
Unless the model errs less than two baselines on families left out, with 95 % confidence, the better
baseline answers for networks that were not measured, and is named.

Where steps of other hosts are learned from, forecasts are corrected by the steps of this one, and
intervals say how much hosts differ (`moved`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import exp, hypot
from typing import Self

import numpy as np
import polars as pl
import scipy
from numpy.typing import NDArray

from models.predictddl import model, work
from models.predictddl.model import Fitting, Floats, IntervalForecaster, WorkModel
from models.predictddl.residuals import REGRESSORS
from models.predictddl.training_set import FEWEST_FAMILIES, Key, TrainingSet, key_of
from models.profiled_run import PREDICTED
from models.system import NotCovered
from networks.catalogue import family
from networks.primitives import PrimitiveGraph
from warehouse.records import BadInput, Record, Scenario

# From one host to another: how much longer each kind of work takes there.
#
# A step on other hosts is a sum of terms (`models.predictddl.work.terms`). Here each term takes
# `exp(d)` times as long, where nobody knows `d` before a step was measured here; what nodes can do
# (probe `inventory`) has been taken into account already. So a step takes `exp(sum of w d)` times
# as long, `w` being the part of each term in the step, and what is left is the network's own. Steps
# that were measured here tell of `d`, four of them most of it.
#
# Source: linear regression with normal priors, Rasmussen and Williams, Gaussian Processes for
# Machine Learning, section 2.1; the terms and the priors are ours.


_APART = 0.3
"""Deviation of `d`: hosts differ by so much in each kind of work, after inventories."""
_OF_NETWORK = 0.5
"""The part of a forecast's variance that runs of one network share."""


@dataclass(frozen=True, eq=False)
class ForecastSteps:
    """Steps as they are forecast from other hosts.

    Attributes:
        networks: the name of each step's network.
        parts: of each term in each step: [steps, terms], rows of sum 1.
        deviations: of the logarithm of each step's seconds, as forecast.
    """

    networks: NDArray[np.object_]
    parts: Floats
    deviations: Floats


@dataclass(frozen=True, eq=False)
class HostTransfer:
    """What steps of this host say of forecasts from other hosts.

    Attributes:
        measured: here; there may be none.
        left: logarithm of measured less forecast seconds of each.
    """

    measured: ForecastSteps
    left: Floats

    def predict(self, steps: ForecastSteps) -> tuple[Floats, Floats]:
        """Return by how much logarithms of seconds change here, and their deviations then."""
        itself = _APART**2 * (steps.parts**2).sum(axis=1) + steps.deviations**2
        if not len(self.left):
            return np.zeros(len(itself)), np.sqrt(itself)
        across = _shared(steps, self.measured)
        explained = (across * scipy.linalg.cho_solve(self._factor, across.T).T).sum(axis=1)
        return across @ self._weights, np.sqrt(np.maximum(itself - explained, 1e-12))

    @cached_property
    def _factor(self) -> tuple[Floats, bool]:
        covariance = _shared(self.measured, self.measured)
        own = (1 - _OF_NETWORK) * self.measured.deviations**2
        covariance[np.diag_indices_from(covariance)] += own
        factor: tuple[Floats, bool] = scipy.linalg.cho_factor(covariance, lower=True)
        return factor

    @cached_property
    def _weights(self) -> Floats:
        weights: Floats = scipy.linalg.cho_solve(self._factor, self.left)
        return weights


def _shared(steps: ForecastSteps, other: ForecastSteps) -> Floats:
    """Return what two steps' logarithms have in common: this host, and their network."""
    same = steps.networks[:, None] == other.networks[None, :]
    network = _OF_NETWORK * steps.deviations[:, None] * other.deviations[None, :] * same
    covariance: Floats = _APART**2 * steps.parts @ other.parts.T + network
    return covariance


BASELINES: Mapping[str, Fitting] = {
    "log_linear": work.fit_log_linear,
    "histogram": partial(work.fit_log_linear, of_counts=True),
}
"""Regressions on a few figures of a network, and on how many primitives of each type it has."""
OURS = "predictddl"
NORMAL = 1.645
"""Nine of ten values of a normal distribution are within so many deviations."""


class Parameters(Record):
    """What a fit to the same rows needs to be made again, and what it came to.

    Attributes:
        seen: the regressor for networks that were measured.
        unseen: the one for others.
        left_out: by system, mean absolute error of logarithms on families left out.
        answers: whose forecasts of unseen networks are given: `OURS`, or one of `BASELINES`.
        scores: quantile of |error| / deviation on what was left out: families (unseen), and runs
            (seen), or families where no network has several runs.
        far: cosine distance beyond which nothing is said.
        coefficients: of the linear model, seconds of each term.
        elsewhere: quantile of |error| of logarithms on types of nodes left out; None: steps are of
            one, or of other hosts.
    """

    seen: str
    unseen: str
    left_out: Mapping[str, float]
    answers: str
    scores: Mapping[str, float]
    far: float
    coefficients: tuple[float, ...]
    elsewhere: float | None = None


@dataclass(frozen=True, eq=False)
class PredictDDL:
    """A fitted model, and what leaving out told."""

    known: TrainingSet
    parameters: Parameters
    _models: dict[str, WorkModel] = field(default_factory=dict, repr=False)

    @classmethod
    def fit(cls, known: TrainingSet) -> Self:
        """Fit to runs.

        Raises:
            BadInput: networks of fewer than two families, or runs that cannot be fitted to.
        """
        source = known.source
        families = sorted(set(map(family, source.names)))
        if len(families) < FEWEST_FAMILIES:
            raise BadInput(
                "predictddl learns from networks of two families or more, found only "
                f"{', '.join(sorted(source.names))}; list others under train of a study, and "
                "`stepcast run`"
            )
        tried = {
            name: model.by_family(source, families, model.fit_with(name)) for name in REGRESSORS
        }
        unseen = model.choose_regressor(tried)
        left_out = {
            OURS: tried[unseen],
            **{name: model.by_family(source, families, fit) for name, fit in BASELINES.items()},
        }
        others = {name: left_out[name] for name in BASELINES}
        if all(left_out[OURS].surely_below(other) for other in others.values()):
            answers = OURS
        else:
            answers = min(others, key=lambda name: others[name].mean_error)
        by_run = {name: model.by_run(source, model.fit_with(name)) for name in REGRESSORS}
        known_runs = {name: held_out for name, held_out in by_run.items() if held_out is not None}
        seen = model.choose_regressor(known_runs) if known_runs else unseen
        scores = {
            "unseen": left_out[answers].quantile_score(),
            "seen": (known_runs or tried)[seen].quantile_score(),
        }
        types = None if known.is_moved else model.by_node_type(known, model.fit_with(seen))
        parameters = Parameters(
            seen=seen,
            unseen=unseen,
            left_out={name: held_out.mean_error for name, held_out in left_out.items()},
            answers=answers,
            scores=scores,
            elsewhere=None if types is None else types.quantile_error(),
            far=model.family_error(source),
            coefficients=tuple(WorkModel.fit(source, "none").coefficients.tolist()),
        )
        return cls(known, parameters)

    def predict(self, scenarios: Sequence[Scenario]) -> pl.DataFrame:
        """Return scenario_id, value (step_time_s), low and high of each scenario.

        Of nodes of a type that no step was measured on, low and high are NULL if all steps are of
        one type of this host: nothing tells how wrong that is.

        Raises:
            NotCovered: a network is far from all that were measured, or nobody has measured a type
                of node; the message says what to do.
        """
        rows = [self._predict(scenario) for scenario in scenarios]
        return pl.DataFrame(rows, schema=PREDICTED, orient="row")

    def parameters_json(self) -> str:
        """Return the parameters as canonical JSON."""
        return self.parameters.canonical_json()

    def distance(self, scenario: Scenario) -> tuple[float, str]:
        """Return the cosine distance to the nearest network that was measured, and its name."""
        return self.known.nearest(key_of(scenario))

    def with_graphs(
        self, graphs: Mapping[Key, PrimitiveGraph], measured: Mapping[str, Mapping[str, float]]
    ) -> Self:
        """Return this, fitted as it is, with graphs that have no name and more node types."""
        known = self.known.with_graphs(graphs, measured)
        names = {self.parameters.seen, self.parameters.unseen, "none"}
        models = {name: replace(self._model(name), known=known.source) for name in names}
        extended = type(self)(known, self.parameters, models)
        if known.is_moved:
            vars(extended).update(_moved=self._moved)
        return extended

    def uncorrected(self, scenarios: Sequence[Scenario]) -> tuple[Floats, ForecastSteps]:
        """Return logarithms of seconds as others' runs tell them, before steps of this host do."""
        forecasts = [self._forecast(scenario) for scenario in scenarios]
        logarithms, deviations = np.array(forecasts).reshape(len(forecasts), 2).T
        networks = np.array([scenario.workload.dnn for scenario in scenarios], dtype=object)
        return logarithms, ForecastSteps(networks, self._model("none").parts(scenarios), deviations)

    def answered_by(self, scenario: Scenario) -> str:
        """Return whose forecast of a scenario is given: see `Parameters.answers`."""
        return OURS if self._is_seen(scenario) else self.parameters.answers

    def _predict(self, scenario: Scenario) -> tuple[str | float | None, ...]:
        apart, nearest = (0.0, "") if self._is_seen(scenario) else self.distance(scenario)
        if apart > self.parameters.far:
            raise NotCovered(
                f"{scenario.label}: no measured network is like {scenario.workload.dnn} (the "
                f"nearest, {nearest}, is {apart:.3f} off, and forecasts were judged up to "
                f"{self.parameters.far:.3f}); list it under train of a study, and `stepcast run`"
            )
        for name in sorted(self._new_types(scenario) - self.known.measured.keys()):
            raise NotCovered(
                f"{scenario.label}: nobody has measured what nodes of type {name} can do; "
                "`stepcast run` a study that trains on them (probe inventory)"
            )
        if self.known.is_moved:
            logarithms, steps = self.uncorrected([scenario])
            changes, deviations = self._moved.predict(steps)
            logarithm, deviation = float((logarithms + changes)[0]), float(deviations[0])
        else:
            logarithm, deviation = self._forecast(scenario)
        half = self._half(
            scenario, NORMAL * deviation * model.interval_factor(apart, self.parameters.far)
        )
        interval = (None, None) if half is None else (exp(logarithm - half), exp(logarithm + half))
        return scenario.scenario_id, exp(logarithm), *interval

    def _forecast(self, scenario: Scenario) -> tuple[float, float]:
        """Return the logarithm of a scenario's seconds, and its deviation.

        Deviations are scaled so that of what was left out nine of ten are within `NORMAL` of them.
        """
        answers = self.answered_by(scenario)
        if answers != OURS:
            forecast = self._baseline
        elif self._is_seen(scenario):
            forecast = self._model(self.parameters.seen).forecast
        else:
            forecast = self._model(self.parameters.unseen).forecast
        logarithms, deviations = forecast([scenario])
        score = self.parameters.scores["seen" if self._is_seen(scenario) else "unseen"]
        return float(logarithms[0]), float(deviations[0]) * score / NORMAL

    def _half(self, scenario: Scenario, own: float) -> float | None:
        """Return half the width of an interval of logarithms; None: nothing tells.

        An unseen network on an unseen type of node has two reasons to err, independent of another.
        Other hosts tell of all types alike.

        Args:
            scenario: that is forecast.
            own: half the width on a type that steps were measured on.
        """
        if self.known.is_moved or not self._new_types(scenario):
            return own
        elsewhere = self.parameters.elsewhere
        if elsewhere is None:
            return None
        return max(own, elsewhere) if self._is_seen(scenario) else hypot(own, elsewhere)

    def _is_seen(self, scenario: Scenario) -> bool:
        """Tell whether the network was measured, with images of this size."""
        return key_of(scenario) in self.known.source.keys

    def _new_types(self, scenario: Scenario) -> set[str]:
        """Return the types of a scenario's nodes that no step was measured on."""
        return model.node_types(scenario) - self.known.node_types

    @cached_property
    def _moved(self) -> HostTransfer:
        """What steps of this host say of forecasts from others."""
        measured = np.log([run.step_s for run in self.known.own])
        logarithms, steps = self.uncorrected([run.scenario for run in self.known.own])
        return HostTransfer(steps, measured - logarithms)

    @cached_property
    def _baseline(self) -> IntervalForecaster:
        return BASELINES[self.parameters.answers](self.known.source)

    def _model(self, regressor: str) -> WorkModel:
        if regressor not in self._models:
            self._models[regressor] = WorkModel.fit(self.known.source, regressor)
        return self._models[regressor]
