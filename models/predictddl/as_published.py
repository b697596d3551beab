"""PredictDDL as published: an embedding of the graph and features of the cluster, into a regressor.

What is predicted is the time of an epoch. Four kinds of regressors are tuned over the paper's
grids, and the one that is best on networks left out is fitted to all. Networks that compare kinds
had no part in the choice of their settings: else the kind with most settings has most tries.

Source: Assogba et al., PredictDDL, sections III-C and IV-B2.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from models.predictddl.observations import batch_of, images_per_step, of_node, one_thread
from models.predictddl.training_set import TrainingSet, key_of
from models.profiled_run import PREDICTED
from networks.primitives import PRIMITIVES, PrimitiveGraph
from warehouse.records import BadInput, Record, Scenario

Floats = NDArray[np.float64]
EPOCH_IMAGES = 50_000
"""Of CIFAR-10's training set: an epoch's time is a step's times so many images over its own."""
_FOLDS = 4
_SEED = 0
_ITERATIONS_MLP = 500
_ITERATIONS = 20_000
"""Of a support vector machine, which else may not end."""


class RegressorChoice(Record):
    """A kind of regressor, its settings, and its error on networks left out.

    Attributes:
        kind: of `GRIDS`.
        settings: those that err least on networks left out of all runs.
        error: mean relative error. Where kinds were compared, with settings that were chosen
            without the networks that it is of; of one kind alone, the error of its settings.
    """

    kind: str
    settings: Mapping[str, float | int | str]
    error: float


OfNetwork = Callable[[TrainingSet, PrimitiveGraph], Sequence[float]]
"""From a network's graph to its features."""


def embedding(known: TrainingSet, graph: PrimitiveGraph) -> Sequence[float]:
    """Return the embedding of a graph."""
    vector: Sequence[float] = known.embedder.embedding(graph).tolist()
    return vector


def histogram(known: TrainingSet, graph: PrimitiveGraph) -> Sequence[float]:
    """Return how many primitives of each type a graph has."""
    return [float(graph.histogram[name]) for name in PRIMITIVES]


def size_features(known: TrainingSet, graph: PrimitiveGraph) -> Sequence[float]:
    """Return layers and parameters, as gray boxes do (Figs. 1, 2).

    Layers are nodes that have parameters: normalizations and biases count as others do.
    """
    layers = sum(node.parameters > 0 for node in graph.nodes)
    return [float(layers), float(graph.parameter_count)]


def no_features(known: TrainingSet, graph: PrimitiveGraph) -> Sequence[float]:
    """Return nothing: a black box."""
    return []


@dataclass(frozen=True, eq=False)
class PublishedRegressors:
    """Regressors of epochs on features of networks and clusters.

    Attributes:
        known: runs that were measured.
        of_network: features of a network.
        named: whether the name of the network is a feature too (Figs. 1 and 2).
        choice: of the regressors that were tried.
    """

    known: TrainingSet
    of_network: OfNetwork
    named: bool
    choice: RegressorChoice

    @classmethod
    def fit(
        cls,
        known: TrainingSet,
        of_network: OfNetwork,
        *,
        kinds: Sequence[str] = ("polynomial", "linear", "svr", "mlp"),
        named: bool = False,
    ) -> Self:
        """Choose and fit a regressor.

        Raises:
            BadInput: too few networks to leave some out.
        """
        choices = best_of_kinds(known, of_network, kinds, named=named)
        return cls(known, of_network, named, min(choices, key=lambda choice: choice.error))

    def predict(self, scenarios: Sequence[Scenario]) -> pl.DataFrame:
        """Return scenario_id and value (step_time_s); low and high are NULL."""
        steps_s = self.steps_s(scenarios)
        rows = [
            (scenario.scenario_id, float(step_s), None, None)
            for scenario, step_s in zip(scenarios, steps_s, strict=True)
        ]
        return pl.DataFrame(rows, schema=PREDICTED, orient="row")

    def parameters_json(self) -> str:
        """Return the choice as canonical JSON."""
        return self.choice.canonical_json()

    def steps_s(self, scenarios: Sequence[Scenario]) -> Floats:
        """Return seconds of steps; a regressor may say less than nothing, which counts as 1 µs."""
        rows = _features(scenarios, self.known, self.of_network, self.named)
        parts = np.array([images_per_step(scenario) / EPOCH_IMAGES for scenario in scenarios])
        steps_s: Floats = np.maximum(self._forecast(rows) * parts, 1e-6)
        return steps_s

    @cached_property
    def _forecast(self) -> Callable[[Floats], Floats]:
        runs = _runs(self.known, self.of_network, self.named)
        with one_thread():
            return runs.forecast_by(self.choice.kind, self.choice.settings)


def best_of_kinds(
    known: TrainingSet, of_network: OfNetwork, kinds: Sequence[str], *, named: bool = False
) -> Sequence[RegressorChoice]:
    """Return the best regressor of each kind.

    Raises:
        BadInput: too few networks to leave some out.
    """
    if len(known.names) < 2:
        raise BadInput(
            "regressors as published are chosen by networks left out, found only "
            f"{', '.join(sorted(known.names)) or 'none'}; list others under train of a "
            "study, and `stepcast run`"
        )
    runs = _runs(known, of_network, named)
    with one_thread():
        best = [_best(kind, runs) for kind in kinds]
        if len(best) > 1:
            best = [
                choice.model_copy(update={"error": _nested(choice.kind, runs)}) for choice in best
            ]
    return best


def epoch_s(scenario: Scenario, step_s: float) -> float:
    """Return seconds of an epoch of a scenario, of so many seconds a step."""
    return step_s * EPOCH_IMAGES / images_per_step(scenario)


def _features(
    scenarios: Sequence[Scenario], known: TrainingSet, of_network: OfNetwork, named: bool
) -> Floats:
    """Return features of networks, then of clusters: [scenarios, features].

    Of a cluster: servers, cores, memory (bytes), storage throughput (bytes a second) and
    floating-point operations a second, summed over all servers (eq. 1 and 2), and the largest batch
    of a device, images. The paper's number of GPUs is missing: a node here is one device.
    The batch is ours: the paper does not list it.
    """
    graphs = known.graphs([key_of(scenario) for scenario in scenarios])
    names = sorted({run.scenario.workload.dnn for run in known.runs}) if named else []
    own = {key: list(of_network(known, graph)) for key, graph in graphs.items()}
    rows = []
    for scenario in scenarios:
        nodes = [(group, of_node(group, known.measured)) for group in scenario.worker_groups]
        rows.append(
            [
                *own[key_of(scenario)],
                *(float(name == scenario.workload.dnn) for name in names),
                float(scenario.strategy.workers),
                sum(group.count * can.cores for group, can in nodes),
                sum(group.count * can.memory_bytes for group, can in nodes),
                sum(group.count * can.disk_Bps for group, can in nodes),
                sum(group.count * can.dense_flops for group, can in nodes),
                max(float(batch_of(scenario, group)) for group, _ in nodes),
            ]
        )
    return np.array(rows)


GRIDS: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "polynomial": {},
    "linear": {},
    "svr": {
        "kernel": ("rbf", "linear"),
        "C": (1.0, 10.0, 100.0, 1000.0),
        "gamma": (0.05, 0.1, 0.25, 0.5),
        "epsilon": (0.05, 0.1, 0.2),
    },
    "mlp": {"neurons": (1, 2, 3, 4, 5)},
}
"""Section IV-B2."""


@dataclass(frozen=True, eq=False)
class _Runs:
    """Features, seconds of an epoch and networks of some runs."""

    features: Floats
    seconds: Floats
    networks: NDArray[np.object_]

    def of(self, which: NDArray[np.bool_]) -> Self:
        return type(self)(self.features[which], self.seconds[which], self.networks[which])

    def folds(self) -> Iterator[tuple[Self, Self]]:
        """Yield runs to fit to and runs of the networks left out; nothing of one network."""
        order = sorted(set(self.networks))
        for first in range(min(_FOLDS, len(order)) if len(order) > 1 else 0):
            out = np.isin(self.networks, order[first::_FOLDS])
            yield self.of(~out), self.of(out)

    @cached_property
    def standardized(self) -> tuple[Any, Any, Floats, Floats]:
        """Scalers of features and of seconds, and both as they scale them: for all settings."""
        from sklearn.preprocessing import StandardScaler

        scalers = StandardScaler().fit(self.features), StandardScaler().fit(self.seconds[:, None])
        features, seconds = scalers
        scaled = seconds.transform(self.seconds[:, None]).ravel()
        return *scalers, features.transform(self.features), scaled

    def forecast_by(self, kind: str, settings: Mapping[str, Any]) -> Callable[[Floats], Floats]:
        """Return what forecasts seconds from features, by a regressor that is fitted to these."""
        from sklearn.exceptions import ConvergenceWarning

        features, seconds, *scaled = self.standardized
        fitted = _regressor(kind, settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted.fit(*scaled)
        return lambda rows: seconds.inverse_transform(
            fitted.predict(features.transform(rows))[:, None]
        ).ravel()


def _runs(known: TrainingSet, of_network: OfNetwork, named: bool) -> _Runs:
    scenarios = [run.scenario for run in known.runs]
    return _Runs(
        _features(scenarios, known, of_network, named),
        np.array([epoch_s(run.scenario, run.step_s) for run in known.runs]),
        np.array([scenario.workload.dnn for scenario in scenarios], dtype=object),
    )


def _best(kind: str, runs: _Runs) -> RegressorChoice:
    """Return the settings of a kind with the least mean relative error on networks left out.

    Where runs are of one network none can be left out, and the first settings are taken.
    """
    folds = list(runs.folds())
    tried = []
    for settings in _settings(kind):
        errors = [_errors(kind, settings, seen, out) for seen, out in folds]
        error = float(np.concatenate(errors).mean()) if errors else 0.0
        tried.append(RegressorChoice(kind=kind, settings=settings, error=error))
    return min(tried, key=lambda choice: choice.error)


def _nested(kind: str, runs: _Runs) -> float:
    """Return the mean relative error of a kind whose settings other networks choose."""
    errors = []
    for seen, out in runs.folds():
        first, *others = _settings(kind)
        settings = _best(kind, seen).settings if others else first
        errors.append(_errors(kind, settings, seen, out))
    return float(np.concatenate(errors).mean())


def _errors(kind: str, settings: Mapping[str, Any], seen: _Runs, out: _Runs) -> Floats:
    return np.abs(seen.forecast_by(kind, settings)(out.features) / out.seconds - 1)


def _settings(kind: str) -> Sequence[Mapping[str, Any]]:
    """Return the settings of a kind's grid, those once that differ in nothing that counts."""
    grid = GRIDS[kind]
    every = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    # A linear kernel has no gamma.
    return [
        settings
        for settings in every
        if settings.get("kernel") != "linear" or settings["gamma"] == grid["gamma"][0]
    ]


def _regressor(kind: str, settings: Mapping[str, Any]) -> Any:
    """Return a regressor of a kind, to be fitted to standardized features and seconds."""
    from sklearn.linear_model import LinearRegression
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures
    from sklearn.svm import SVR

    if kind == "svr":
        return SVR(**settings, max_iter=_ITERATIONS)
    if kind == "mlp":
        neurons = (int(settings["neurons"]),)
        return MLPRegressor(
            hidden_layer_sizes=neurons, solver="lbfgs", max_iter=_ITERATIONS_MLP, random_state=_SEED
        )
    squares = [PolynomialFeatures(2, include_bias=False)] if kind == "polynomial" else []
    return make_pipeline(*squares, LinearRegression())
