"""PredictDDL, ours: steps from the work of a network's graph, and from what like networks took.

The time of a step is a linear model of the work (`linear_work`), times what a regressor says of
networks of this kind in such setups. Which regressor it is, is chosen by leaving out families of
networks, for networks that were measured by leaving out runs. How wrong these left-out forecasts
were makes the interval; it widens for networks further from all others than any family left out.
Unless the model errs less than two baselines on families left out, with 95 % confidence, the better
baseline answers for networks that were not measured, and is named.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, hypot
from typing import Self

import polars as pl

from models.predictddl import log_linear, model
from models.predictddl.known import Key, Known, key_of
from models.predictddl.learned import REGRESSORS
from models.predictddl.model import Fitting, Forecast, LeftOut, Model
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


class Parameters(Record):
    """What a fit to the same rows needs to be made again, and what it came to.

    Attributes:
        seen: the regressor for networks that were measured.
        unseen: the one for others.
        left_out: by system, mean absolute error of logarithms on families left out.
        answers: whose forecasts of unseen networks are given: `OURS`, or one of `BASELINES`.
        scores: quantile of |error| / deviation on what was left out: families (unseen), and runs
            (seen), which is missing where no network has several runs.
        far: cosine distance beyond which nothing is said.
        coefficients: of the linear model, seconds of each term.
        elsewhere: quantile of |error| of logarithms on types of nodes left out, or on hosts where
            all steps are of others; None: steps are of one.
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

    known: Known
    parameters: Parameters
    _models: dict[str, Model] = field(default_factory=dict, repr=False)

    @classmethod
    def fit(cls, known: Known) -> Self:
        """Fit to runs.

        Raises:
            BadInput: networks of fewer than two families, or runs that cannot be fitted to.
        """
        families = sorted(set(map(family, known.names)))
        if len(families) < 2:
            raise BadInput(
                "predictddl learns from networks of two families or more, found only "
                f"{', '.join(sorted(known.names))}; list others under train of a study, and "
                "`stepcast run`"
            )
        tried = {name: model.by_family(known, families, model.ours(name)) for name in REGRESSORS}
        unseen = model.chosen(tried)
        left_out = {
            OURS: tried[unseen],
            **{name: model.by_family(known, families, one) for name, one in BASELINES.items()},
        }
        answers = _shipped(left_out)
        by_run = {name: model.by_run(known, model.ours(name)) for name in REGRESSORS}
        known_runs = {name: one for name, one in by_run.items() if one is not None}
        seen = model.chosen(known_runs) if known_runs else unseen
        scores = {"unseen": left_out[answers].quantile_score()}
        if known_runs:
            scores["seen"] = known_runs[seen].quantile_score()
        places = model.hosts if known.is_of_others else model.node_types
        elsewhere = model.by_place(known, model.ours(seen), places)
        parameters = Parameters(
            seen=seen,
            unseen=unseen,
            left_out={name: one.mean_error for name, one in left_out.items()},
            answers=answers,
            scores=scores,
            elsewhere=None if elsewhere is None else elsewhere.quantile_error(),
            far=model.far(known),
            coefficients=tuple(Model.fit(known, "none").linear.coefficients.tolist()),
        )
        return cls(known, parameters)

    def predict(self, scenarios: Sequence[Scenario]) -> pl.DataFrame:
        """Return scenario_id, value (step_time_s), low and high of each scenario.

        Of nodes of a type that no step was measured on, low and high are NULL if all steps are of
        one type, and on a host without steps, if they are of one host: nothing tells how wrong that
        is.

        Raises:
            NotCovered: a network is far from all that were measured, or nobody has measured a type
                of node; the message says what to do.
        """
        rows = [self._predict(one) for one in scenarios]
        return pl.DataFrame(rows, schema=PREDICTED, orient="row")

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
        names = {self.parameters.seen, self.parameters.unseen}
        models = {name: replace(self._model(name), known=known) for name in names}
        return type(self)(known, self.parameters, models)

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
        found, deviation = self._forecast(scenario)
        half = self._half(scenario, deviation, apart)
        interval = (None, None) if half is None else (exp(found - half), exp(found + half))
        return scenario.scenario_id, exp(found), *interval

    def _forecast(self, scenario: Scenario) -> tuple[float, float]:
        """Return the logarithm of a scenario's seconds, and its deviation."""
        answers = self.answered_by(scenario)
        if answers != OURS:
            forecast = self._baseline
        elif self._is_seen(scenario):
            forecast = self._model(self.parameters.seen).forecast
        else:
            forecast = self._model(self.parameters.unseen).forecast
        found, deviations = forecast([scenario])
        return float(found[0]), float(deviations[0])

    def _half(self, scenario: Scenario, deviation: float, apart: float) -> float | None:
        """Return half the width of an interval of logarithms; None: nothing tells.

        An unseen network on an unseen type of node has two reasons to err, independent of another.
        """
        scores, is_seen = self.parameters.scores, self._is_seen(scenario)
        score = scores.get("seen", scores["unseen"]) if is_seen else scores["unseen"]
        own = score * deviation * model.widened(apart, self.parameters.far)
        if not self._new_types(scenario):
            return own
        elsewhere = self.parameters.elsewhere
        if elsewhere is None:
            return None
        return max(own, elsewhere) if is_seen else hypot(own, elsewhere)

    def _is_seen(self, scenario: Scenario) -> bool:
        return scenario.workload.dnn in self.known.names

    def _new_types(self, scenario: Scenario) -> set[str]:
        """Return the types of a scenario's nodes that no step was measured on."""
        return model.node_types(scenario) - self.known.node_types

    @cached_property
    def _baseline(self) -> Forecast:
        return BASELINES[self.parameters.answers](self.known)

    def _model(self, regressor: str) -> Model:
        if regressor not in self._models:
            self._models[regressor] = Model.fit(self.known, regressor)
        return self._models[regressor]


def _shipped(left_out: Mapping[str, LeftOut]) -> str:
    """Return ours where it errs less than all others with confidence, else the best of these."""
    ours, others = left_out[OURS], {name: left_out[name] for name in BASELINES}
    if all(ours.surely_below(one) for one in others.values()):
        return OURS
    return min(others, key=lambda name: others[name].mean_error)
