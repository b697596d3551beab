"""PredictDDL, ours: steps from the work of a network's graph, and from what like networks took.

The time of a step is a linear model of the work (`linear_work`), times what a regressor says of
networks of this kind in such setups. Which regressor it is, is chosen by leaving out families of
networks, for networks that were measured by leaving out runs. How wrong these left-out forecasts
were makes the interval. Where even then a regression on three figures of a network would have been
better, its answer is given, and said to be its.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp
from typing import Self

import numpy as np
import polars as pl

from models.predictddl import log_linear, model
from models.predictddl.ghn import cosine_distance
from models.predictddl.known import Key, Known, key_of
from models.predictddl.learned import REGRESSORS
from models.predictddl.model import Forecast, Model
from models.system import NotCovered
from networks.families import family
from networks.primitives import PrimitiveGraph
from warehouse.records import BadInput, Record, Scenario

PREDICTIONS = {
    "scenario_id": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "unknown": pl.String,
}


class Parameters(Record):
    """What a fit to the same rows needs to be made again, and what it came to.

    Attributes:
        seen: the regressor for networks that were measured.
        unseen: the one for others.
        left_out: by system, mean absolute error on families left out.
        answers: the system that answers for unseen networks.
        scores: quantile of |error| / deviation on runs and families left out: seen and unseen.
        far: cosine distance beyond which nothing is said.
        coefficients: of the linear model, seconds of each term.
    """

    seen: str
    unseen: str
    left_out: Mapping[str, float]
    answers: str
    scores: Mapping[str, float]
    far: float
    coefficients: tuple[float, ...]


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
            BadInput: fewer than two networks, or runs that cannot be fitted to.
        """
        families = sorted(set(map(family, known.names)))
        if len(families) < 2:
            raise BadInput(
                f"predictddl learns from networks of several families, found {len(known.names)} of "
                f"{len(families)}; list more under train of a study, and `stepcast run`"
            )
        errors = {name: model.by_family(known, families, model.ours(name)) for name in REGRESSORS}
        by_run = {name: model.by_run(known, name) for name in REGRESSORS}
        unseen, seen = model.chosen(errors), model.chosen(by_run)
        fallback = model.by_family(known, families, log_linear.fitted)
        histogram, _ = model.by_family(known, families, log_linear.histogram)
        ours, deviations = errors[unseen]
        left_out = {
            "predictddl": float(np.abs(ours).mean()),
            "log_linear": float(np.abs(fallback[0]).mean()),
            "histogram": float(np.abs(histogram).mean()),
        }
        better = left_out["predictddl"] <= min(left_out.values())
        answers = "predictddl" if better else "log_linear"
        if not better:
            ours, deviations = fallback
        parameters = Parameters(
            seen=seen,
            unseen=unseen,
            left_out=left_out,
            answers=answers,
            scores={
                "unseen": model.quantile(ours, deviations),
                "seen": model.quantile(*by_run[seen]),
            },
            far=model.far(known, families),
            coefficients=tuple(Model.fit(known, "none").linear.coefficients.tolist()),
        )
        return cls(known, parameters)

    def predict(self, scenarios: Sequence[Scenario]) -> pl.DataFrame:
        """Return scenario_id, value (step_time_s), low, high and unknown of each scenario.

        Raises:
            NotCovered: a network is far from all that were measured; the message says what to do.
        """
        rows = [self._predict(one) for one in scenarios]
        return pl.DataFrame(rows, schema=PREDICTIONS, orient="row")

    def parameters_json(self) -> str:
        """Return the parameters as canonical JSON."""
        return self.parameters.canonical_json()

    def distance(self, scenario: Scenario) -> tuple[float, str]:
        """Return the cosine distance to the nearest network that was measured, and its name."""
        key = key_of(scenario)
        ours = self.known.embedding(key, self.known.graphs([key])[key])
        return min(
            (cosine_distance(ours, other), dnn) for (dnn, _), other in self.known.embeddings.items()
        )

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

    def who(self, scenario: Scenario) -> str:
        """Return the system that answers for a scenario: see `Parameters.answers`."""
        is_seen = scenario.workload.dnn in self.known.names
        return "predictddl" if is_seen else self.parameters.answers

    def _predict(self, scenario: Scenario) -> tuple[str | float | None, ...]:
        is_seen = scenario.workload.dnn in self.known.names
        apart, nearest = (0.0, scenario.workload.dnn) if is_seen else self.distance(scenario)
        if apart > self.parameters.far:
            raise NotCovered(
                f"{scenario.label}: no measured network is like {scenario.workload.dnn} (the "
                f"nearest, {nearest}, is {apart:.3f} off, and forecasts were judged up to "
                f"{self.parameters.far:.3f}); list it under train of a study, and `stepcast run`"
            )
        who = "seen" if is_seen else "unseen"
        if who == "unseen" and self.parameters.answers != "predictddl":
            found, deviation = self._log_linear([scenario])
        else:
            regressor = self.parameters.seen if is_seen else self.parameters.unseen
            found, deviation = self._model(regressor).forecast([scenario])
        half = self.parameters.scores[who] * float(deviation[0])
        value = float(found[0])
        return scenario.scenario_id, exp(value), exp(value - half), exp(value + half), None

    @cached_property
    def _log_linear(self) -> Forecast:
        return log_linear.fitted(self.known)

    def _model(self, regressor: str) -> Model:
        if regressor not in self._models:
            self._models[regressor] = Model.fit(self.known, regressor)
        return self._models[regressor]
