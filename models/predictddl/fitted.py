"""PredictDDL, ours: steps from the work of a network's graph, and from what like networks took.

The time of a step is a linear model of the work (`linear_work`), times what a regressor says of
networks of this kind in such setups. Which regressor it is, is chosen by leaving out families of
networks, for networks that were measured by leaving out runs. How wrong these left-out forecasts
were makes the interval. Where even then a regression on three figures of a network would have been
better, its answer is given, and said to be its.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, log
from typing import Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from models.predictddl import log_linear
from models.predictddl.ghn import Embedder, cosine_distance
from models.predictddl.learned import REGRESSORS, Regressor, Rows
from models.predictddl.linear_work import LinearWork
from models.predictddl.observed import Capabilities, Observed, batch_of, of_node
from models.predictddl.work import Work, ranks_of, terms, traits
from models.system import NotCovered
from networks.families import family
from networks.primitives import PrimitiveGraph
from warehouse.records import BadInput, Record, Scenario

Floats = NDArray[np.float64]
Graphs = Callable[[Iterable[tuple[str, int]]], Mapping[tuple[str, int], PrimitiveGraph]]
COVERAGE = 0.9
_FAR = 1.5
"""A network is far out beyond so many times the distance of the family that is furthest off."""
_WORTH = 0.98
"""A more complicated regressor has to err by less than this times what a simpler one does."""
_UNSHAPED_BPS = 1.25e9
"""Links whose speed nobody says: 10 Gb/s."""
_COMPONENTS = 4
"""Of embeddings, that a regressor gets: the directions in which measured networks differ most."""
Left = Mapping[str, float]


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
class Known:
    """Runs that were measured, as the models take them.

    Attributes:
        runs: scenarios and steps.
        measured: what node types can do.
        links_Bps: speeds of links, by their `link_mbps`.
        graphs: of networks.
        embedder: of graphs.
    """

    runs: Sequence[Observed]
    measured: Mapping[str, Mapping[str, float]]
    graphs: Graphs
    embedder: Embedder

    def without(self, which: Callable[[Observed], bool]) -> Self:
        """Return this without some runs."""
        kept = [one for one in self.runs if not which(one)]
        return type(self)(kept, self.measured, self.graphs, self.embedder)

    def knowing(
        self,
        graphs: Mapping[tuple[str, int], PrimitiveGraph],
        measured: Mapping[str, Mapping[str, float]],
    ) -> Self:
        """Return this with more graphs and node types; what was measured stays as it is."""

        def both(wanted: Iterable[tuple[str, int]]) -> Mapping[tuple[str, int], PrimitiveGraph]:
            asked = list(dict.fromkeys(wanted))
            ours = self.graphs([one for one in asked if one not in graphs])
            return {**ours, **{one: graphs[one] for one in asked if one in graphs}}

        more = replace(self, graphs=both, measured={**measured, **self.measured})
        # These rest on the runs alone, and take seconds.
        vars(more).update(networks=self.networks, embeddings=self.embeddings)
        return more

    @cached_property
    def networks(self) -> Mapping[tuple[str, int], PrimitiveGraph]:
        """The graphs of all networks that were measured."""
        return self.graphs([key_of(one.scenario) for one in self.runs])

    @cached_property
    def embeddings(self) -> Mapping[tuple[str, int], NDArray[np.float32]]:
        """The embeddings of all networks that were measured."""
        return {key: self.embedder.embedding(graph) for key, graph in self.networks.items()}

    @cached_property
    def steps_s(self) -> Floats:
        """Measured seconds."""
        return np.array([one.step_s for one in self.runs])


@dataclass(frozen=True, eq=False)
class Model:
    """A linear model of work and a regressor of what it leaves, fitted to some runs."""

    known: Known
    linear: LinearWork
    regressor: Regressor

    @classmethod
    def fit(cls, known: Known, regressor: str) -> Self:
        """Fit to all runs that are known."""
        of_runs = [_terms(one.scenario, known, known.networks) for one in known.runs]
        linear = LinearWork.fit(of_runs, known.steps_s)
        left = np.log(known.steps_s) - np.log([linear.step_s(one) for one in of_runs])
        rows = _rows([one.scenario for one in known.runs], known, known.networks)
        return cls(known, linear, REGRESSORS[regressor](rows, left))

    def forecast(self, scenarios: Sequence[Scenario]) -> tuple[Floats, Floats]:
        """Return the logarithm of each scenario's seconds, and its deviation."""
        graphs = self.known.graphs([key_of(one) for one in scenarios])
        linear = [self.linear.step_s(_terms(one, self.known, graphs)) for one in scenarios]
        more, deviation = self.regressor.predict(_rows(scenarios, self.known, graphs))
        return np.log(linear) + more, deviation


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
        names = {one.scenario.workload.dnn for one in known.runs}
        families = sorted(set(map(family, names)))
        if len(families) < 2:
            raise BadInput(
                f"predictddl learns from networks of several families, found {len(names)} of "
                f"{len(families)}; list more under train of a study, and `stepcast run`"
            )
        errors = {name: _by_family(known, families, _ours(name)) for name in REGRESSORS}
        unseen = _chosen({name: float(np.abs(found[0]).mean()) for name, found in errors.items()})
        by_run = {name: _by_run(known, name) for name in REGRESSORS}
        seen = _chosen({name: float(np.abs(found[0]).mean()) for name, found in by_run.items()})
        fallback, _ = _by_family(known, families, log_linear.fitted)
        histogram, _ = _by_family(known, families, log_linear.histogram)
        ours, deviations = errors[unseen]
        left_out = {
            "predictddl": float(np.abs(ours).mean()),
            "log_linear": float(np.abs(fallback).mean()),
            "histogram": float(np.abs(histogram).mean()),
        }
        better = left_out["predictddl"] <= min(left_out.values())
        answers = "predictddl" if better else "log_linear"
        if not better:
            ours, deviations = fallback, np.full(len(fallback), float(fallback.std()) or 0.1)
        at_home, of_runs = by_run[seen]
        parameters = Parameters(
            seen=seen,
            unseen=unseen,
            left_out=left_out,
            answers=answers,
            scores={"unseen": _quantile(ours, deviations), "seen": _quantile(at_home, of_runs)},
            far=_far(known, families),
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
        ours = self.known.embedder.embedding(self.known.graphs([key])[key])
        return min(
            (cosine_distance(ours, other), dnn) for (dnn, _), other in self.known.embeddings.items()
        )

    def knowing(
        self,
        graphs: Mapping[tuple[str, int], PrimitiveGraph],
        measured: Mapping[str, Mapping[str, float]],
    ) -> Self:
        """Return this, fitted as it is, with graphs that have no name and more node types."""
        known = self.known.knowing(graphs, measured)
        names = {self.parameters.seen, self.parameters.unseen}
        models = {name: replace(self._model(name), known=known) for name in names}
        return type(self)(known, self.parameters, models)

    def who(self, scenario: Scenario) -> str:
        """Return the system that answers for a scenario: see `Parameters.answers`."""
        names = {one.scenario.workload.dnn for one in self.known.runs}
        return "predictddl" if scenario.workload.dnn in names else self.parameters.answers

    def _predict(self, scenario: Scenario) -> tuple[str | float | None, ...]:
        known = {one.scenario.workload.dnn for one in self.known.runs}
        is_seen = scenario.workload.dnn in known
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
    def _log_linear(self) -> Callable[[Sequence[Scenario]], tuple[Floats, Floats]]:
        return log_linear.fitted(self.known)

    def _model(self, regressor: str) -> Model:
        if regressor not in self._models:
            self._models[regressor] = Model.fit(self.known, regressor)
        return self._models[regressor]


PREDICTIONS = {
    "scenario_id": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "unknown": pl.String,
}
Fitting = Callable[[Known], Callable[[Sequence[Scenario]], tuple[Floats, Floats]]]
"""From runs to what forecasts logarithms of seconds, with deviations."""


def key_of(scenario: Scenario) -> tuple[str, int]:
    """Return what tells graphs apart: a network, and the side of its images."""
    return scenario.workload.dnn, scenario.workload.image_size


def link_Bps(scenario: Scenario) -> float:
    """Return the speed of a scenario's links, bytes a second."""
    return _UNSHAPED_BPS if scenario.link_mbps is None else scenario.link_mbps * 125_000


def _ours(regressor: str) -> Fitting:
    return lambda known: Model.fit(known, regressor).forecast


def _terms(
    scenario: Scenario, known: Known, graphs: Mapping[tuple[str, int], PrimitiveGraph]
) -> Floats:
    """Return the terms of each group of a scenario's nodes, [groups, terms]."""
    work = Work.of(graphs[key_of(scenario)])
    return np.array(
        [
            terms(work, scenario, group, of_node(group, known.measured), link_Bps(scenario))
            for group in scenario.worker_groups
        ]
    )


def _rows(
    scenarios: Sequence[Scenario],
    known: Known,
    graphs: Mapping[tuple[str, int], PrimitiveGraph],
) -> Rows:
    """Return what regressors take: kinds of networks, and how and where they train."""
    keys = [key_of(one) for one in scenarios]
    axes, middle = _axes(known)
    own = {key: traits(Work.of(graphs[key])) for key in set(keys)}
    embedded = {key: (known.embedder.embedding(graphs[key]) - middle) @ axes for key in set(keys)}
    kinds = np.array([np.concatenate([own[key], embedded[key]]) for key in keys])
    setups = np.array([_setup(one, known) for one in scenarios])
    return Rows(np.array([dnn for dnn, _ in keys], dtype=object), kinds, setups)


def _axes(known: Known) -> tuple[Floats, Floats]:
    """Return the directions in which embeddings of measured networks differ most, and the mean."""
    found = np.array([known.embeddings[key] for key in sorted(known.embeddings)], np.float64)
    middle = found.mean(axis=0)
    _, _, directions = np.linalg.svd(found - middle, full_matrices=False)
    return directions[:_COMPONENTS].T, middle


def _setup(scenario: Scenario, known: Known) -> list[float]:
    group = max(scenario.worker_groups, key=lambda one: batch_of(scenario, one))
    can: Capabilities = of_node(group, known.measured)
    return [
        log(ranks_of(scenario)),
        log(batch_of(scenario, group)),
        log(can.dense_flops),
        log(can.memory_Bps),
    ]


def _by_family(known: Known, families: Sequence[str], fitting: Fitting) -> tuple[Floats, Floats]:
    """Return errors of logarithms, and deviations, of each family by a fit to the others."""
    errors, deviations = [], []
    for name in families:
        out = [one for one in known.runs if family(one.scenario.workload.dnn) == name]
        rest = known.without(lambda one, out=out: one in out)  # type: ignore[misc]
        found, deviation = fitting(rest)([one.scenario for one in out])
        errors.append(found - np.log([one.step_s for one in out]))
        deviations.append(deviation)
    return np.concatenate(errors), np.concatenate(deviations)


def _by_run(known: Known, regressor: str, folds: int = 8) -> tuple[Floats, Floats]:
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


def _chosen(errors: Mapping[str, float]) -> str:
    """Return the first that no later one beats clearly: they are in order of their size."""
    best, *others = errors
    for name in others:
        if errors[name] < _WORTH * errors[best]:
            best = name
    return best


def _quantile(errors: Floats, deviations: Floats) -> float:
    """Return the score below which `COVERAGE` of left-out forecasts were, for a finite sample."""
    scores = np.sort(np.abs(errors) / np.maximum(deviations, 1e-9))
    place = min(int(np.ceil(COVERAGE * (len(scores) + 1))) - 1, len(scores) - 1)
    return float(scores[place])


def _far(known: Known, families: Sequence[str]) -> float:
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
