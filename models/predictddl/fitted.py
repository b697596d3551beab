"""PredictDDL, ours: steps from the work of a network's graph, and from what like networks took.

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
from functools import cached_property
from math import exp, hypot
from typing import Self

import numpy as np
import polars as pl

from models.predictddl import log_linear, model
from models.predictddl.known import FEWEST_FAMILIES, Key, Known, key_of
from models.predictddl.learned import REGRESSORS
from models.predictddl.model import Fitting, Floats, Forecast, LeftOut, Model
from models.predictddl.moved import Moved, Steps
from models.predictddl.work import TERMS
from models.profiled_run import PREDICTED
from models.system import NotCovered
from networks.families import family
from networks.primitives import PrimitiveGraph
from warehouse.records import BadInput, Record, Scenario

BASELINES: Mapping[str, Fitting] = {
    "log_linear": log_linear.fitted,
    "histogram": log_linear.histogram,
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
        times: how many times as long each term takes here as on the hosts that are learned from,
            as steps of this host say (`moved`); None: this one is learned from.
    """

    seen: str
    unseen: str
    left_out: Mapping[str, float]
    answers: str
    scores: Mapping[str, float]
    far: float
    coefficients: tuple[float, ...]
    elsewhere: float | None = None
    times: Mapping[str, float] | None = None


@dataclass(frozen=True, eq=False)
class PredictDDL:
    """A fitted model, and what leaving out told."""

    known: Known
    parameters: Parameters
    _models: dict[str, Model] = field(default_factory=dict, repr=False)

    @classmethod
    def fit(cls, known: Known) -> Self:
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
        tried = {name: model.by_family(source, families, model.ours(name)) for name in REGRESSORS}
        unseen = model.chosen(tried)
        left_out = {
            OURS: tried[unseen],
            **{name: model.by_family(source, families, one) for name, one in BASELINES.items()},
        }
        answers = _shipped(left_out)
        by_run = {name: model.by_run(source, model.ours(name)) for name in REGRESSORS}
        known_runs = {name: one for name, one in by_run.items() if one is not None}
        seen = model.chosen(known_runs) if known_runs else unseen
        scores = {
            "unseen": left_out[answers].quantile_score(),
            "seen": (known_runs or tried)[seen].quantile_score(),
        }
        types = None if known.is_moved else model.by_node_type(known, model.ours(seen))
        parameters = Parameters(
            seen=seen,
            unseen=unseen,
            left_out={name: one.mean_error for name, one in left_out.items()},
            answers=answers,
            scores=scores,
            elsewhere=None if types is None else types.quantile_error(),
            far=model.far(source),
            coefficients=tuple(Model.fit(source, "none").linear.coefficients.tolist()),
        )
        found = cls(known, parameters)
        if not known.is_moved:
            return found
        return replace(found, parameters=parameters.model_copy(update={"times": found.times()}))

    def predict(self, scenarios: Sequence[Scenario]) -> pl.DataFrame:
        """Return scenario_id, value (step_time_s), low and high of each scenario.

        Of nodes of a type that no step was measured on, low and high are NULL if all steps are of
        one type of this host: nothing tells how wrong that is.

        Raises:
            NotCovered: a network is far from all that were measured, or nobody has measured a type
                of node; the message says what to do.
        """
        rows = [self._predict(one) for one in scenarios]
        return pl.DataFrame(rows, schema=PREDICTED, orient="row")

    def times(self) -> Mapping[str, float]:
        """Return how many times as long each term takes here as on the hosts learned from."""
        return dict(zip(TERMS, self._moved.times().tolist(), strict=True))

    def parameters_json(self) -> str:
        """Return the parameters as canonical JSON."""
        return self.parameters.canonical_json()

    def distance(self, scenario: Scenario) -> tuple[float, str]:
        """Return the cosine distance to the nearest network that was measured, and its name."""
        return self.known.nearest(key_of(scenario))

    def knowing(
        self,
        graphs: Mapping[Key, PrimitiveGraph],
        measured: Mapping[str, Mapping[str, float]],
    ) -> Self:
        """Return this, fitted as it is, with graphs that have no name and more node types."""
        known = self.known.knowing(graphs, measured)
        names = {self.parameters.seen, self.parameters.unseen, "none"}
        models = {name: replace(self._model(name), known=known.source) for name in names}
        found = type(self)(known, self.parameters, models)
        if known.is_moved:
            vars(found).update(_moved=self._moved)
        return found

    def uncorrected(self, scenarios: Sequence[Scenario]) -> tuple[Floats, Steps]:
        """Return logarithms of seconds as others' runs tell them, before steps of this host do."""
        found = [self._forecast(one) for one in scenarios]
        logarithms, deviations = np.array(found).reshape(len(found), 2).T
        networks = np.array([one.workload.dnn for one in scenarios], dtype=object)
        return logarithms, Steps(networks, self._model("none").parts(scenarios), deviations)

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
            found, deviation = float((logarithms + changes)[0]), float(deviations[0])
        else:
            found, deviation = self._forecast(scenario)
        half = self._half(scenario, NORMAL * deviation * model.widened(apart, self.parameters.far))
        interval = (None, None) if half is None else (exp(found - half), exp(found + half))
        return scenario.scenario_id, exp(found), *interval

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
        found, deviations = forecast([scenario])
        score = self.parameters.scores["seen" if self._is_seen(scenario) else "unseen"]
        return float(found[0]), float(deviations[0]) * score / NORMAL

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
    def _moved(self) -> Moved:
        """What steps of this host say of forecasts from others."""
        measured = np.log([one.step_s for one in self.known.own])
        logarithms, steps = self.uncorrected([one.scenario for one in self.known.own])
        return Moved(steps, measured - logarithms)

    @cached_property
    def _baseline(self) -> Forecast:
        return BASELINES[self.parameters.answers](self.known.source)

    def _model(self, regressor: str) -> Model:
        if regressor not in self._models:
            self._models[regressor] = Model.fit(self.known.source, regressor)
        return self._models[regressor]


def _shipped(left_out: Mapping[str, LeftOut]) -> str:
    """Return ours where it errs less than all others with confidence, else the best of these."""
    ours, others = left_out[OURS], {name: left_out[name] for name in BASELINES}
    if all(ours.surely_below(one) for one in others.values()):
        return OURS
    return min(others, key=lambda name: others[name].mean_error)
