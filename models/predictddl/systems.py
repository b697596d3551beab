"""PredictDDL as systems: ours, as published, and what each part of it is worth."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from math import exp
from typing import Any

import polars as pl

from models.inputs import out_of_scope_for_allreduce, refusing_unknown_networks
from models.predictddl import as_published, work
from models.predictddl.as_published import OfNetwork, PublishedRegressors
from models.predictddl.fit import NORMAL, Parameters, PredictDDL
from models.predictddl.ghn import SHIPPED, Embedder
from models.predictddl.observations import capabilities, observed_steps
from models.predictddl.training_set import TrainingSet
from models.profiled_run import PREDICTED
from models.system import FittedSystem, System, Tables
from networks.extraction import primitive_graphs
from warehouse.records import BadInput, Scenario
from warehouse.requirements import Refusal, Requirement

_DATASET = "digits"
Embedding = Callable[[], Embedder]


@cache
def load_shipped_embedder() -> Embedder:
    """Return the embedder that is shipped."""
    return Embedder.read(SHIPPED / f"{_DATASET}.safetensors")


@cache
def random_embedder() -> Embedder:
    """Return an embedder of random parameters."""
    return Embedder.untrained()


def _requires(scenario: Scenario) -> tuple[Requirement, ...] | Refusal:
    return out_of_scope_for_allreduce(scenario) or (
        Requirement("torch_throughput", "train", scenario),
        Requirement("inventory", "cluster", scenario, optional=True, any_link=True),
    )


def _prepare(scenarios: Sequence[Scenario]) -> None:
    loads = [
        scenario.workload for scenario in scenarios if out_of_scope_for_allreduce(scenario) is None
    ]
    with suppress(ValueError, RuntimeError):
        primitive_graphs((load.dnn, load.image_size) for load in loads)


def training_set_of(tables: Tables, embedding: Embedding) -> TrainingSet:
    """Return what raw tables tell.

    Raises:
        BadInput: no step was measured.
    """
    runs = observed_steps(tables)
    if not runs:
        raise BadInput(
            "predictddl learns from steps of other networks, found none; list some under train of "
            "a study, and `stepcast run`"
        )
    measured = capabilities(tables)
    return TrainingSet(runs, measured, refusing_unknown_networks()(primitive_graphs), embedding())


def fit(tables: Tables, embedding: Embedding) -> PredictDDL:
    """Fit to raw tables, with an embedder.

    Raises:
        BadInput: no step was measured, or runs cannot be fitted to.
    """
    return PredictDDL.fit(training_set_of(tables, embedding))


def _load(text: str, tables: Tables, embedding: Embedding = load_shipped_embedder) -> PredictDDL:
    return PredictDDL(training_set_of(tables, embedding), Parameters.model_validate_json(text))


class _LogLinear:
    """A regression of logarithms as a fitted system; it is fitted again when it is loaded."""

    def __init__(self, known: TrainingSet) -> None:
        self._forecast = work.fit_log_linear(known)

    def predict(self, scenarios: Sequence[Scenario]) -> pl.DataFrame:
        """Return scenario_id, value (step_time_s), low and high."""
        logarithms, deviations = self._forecast(scenarios)
        rows = [
            (scenario.scenario_id, exp(mean), exp(mean - NORMAL * sd), exp(mean + NORMAL * sd))
            for scenario, mean, sd in zip(scenarios, logarithms, deviations, strict=True)
        ]
        return pl.DataFrame(rows, schema=PREDICTED, orient="row")

    def parameters_json(self) -> str:
        """Return nothing that the rows do not say."""
        return "{}"


def _variant(
    name: str,
    what: str,
    in_words: str,
    embedding: Embedding,
    of_network: OfNetwork,
    version: str = "2",
    **choice: Any,
) -> System:
    """Return a system of published regressors; `choice` goes to `PublishedRegressors.fit`."""

    def fit(tables: Tables) -> FittedSystem:
        return PublishedRegressors.fit(training_set_of(tables, embedding), of_network, **choice)

    def load(text: str, tables: Tables) -> FittedSystem:
        chosen = as_published.RegressorChoice.model_validate_json(text)
        known = training_set_of(tables, embedding)
        return PublishedRegressors(known, of_network, choice.get("named", False), chosen)

    return replace(
        PREDICTDDL,
        name=name,
        version=version,
        what=what,
        in_words=in_words,
        beside="",
        has_fallback=False,
        only_named=True,
        fit=fit,
        load=load,
    )


PREDICTDDL = System(
    name="predictddl",
    version="6",
    what="Steps of networks that never ran, from their graphs and what others took.",
    source="Assogba et al., PredictDDL, 2023; the linear model of work and the interval are ours",
    tables=("run", "scenario", "sample"),
    inputs=_requires,
    fit=lambda tables: fit(tables, load_shipped_embedder),
    load=_load,
    transfers_across_hosts=True,
    pooled=True,
    beside="log_linear",
    in_words="PredictDDL",
    prepare=_prepare,
    has_fallback=True,
)


def with_embedder(version: str, embedding: Embedding) -> System:
    """Return the system with the embedder of another type of dataset.

    Args:
        version: what tells fits with this embedder from those with others.
        embedding: returns the embedder.
    """
    return replace(
        PREDICTDDL,
        version=f"{PREDICTDDL.version}+{version}",
        fit=lambda tables: fit(tables, embedding),
        load=lambda text, tables: _load(text, tables, embedding),
    )


LOG_LINEAR = replace(
    PREDICTDDL,
    name="log_linear",
    version="1",
    what="Baseline: logarithms of operations, activations, parameters and setups.",
    source="baseline",
    beside="",
    has_fallback=False,
    in_words="log-linear",
    fit=lambda tables: _LogLinear(training_set_of(tables, random_embedder)),
    load=lambda text, tables: _LogLinear(training_set_of(tables, random_embedder)),
)
PAPER = _variant(
    "predictddl_paper",
    "Baseline: PredictDDL as published, GHN-2's embedding into the best of four regressors.",
    "PredictDDL as published",
    load_shipped_embedder,
    as_published.embedding,
)
UNTRAINED = _variant(
    "predictddl_untrained",
    "As predictddl_paper, with a graph hypernetwork of random parameters.",
    "PredictDDL, untrained",
    random_embedder,
    as_published.embedding,
)
HISTOGRAM = _variant(
    "predictddl_histogram",
    "As predictddl_paper, with counts of primitives instead of an embedding.",
    "counts of operations",
    random_embedder,
    as_published.histogram,
)
BLACK_BOX = _variant(
    "black_box",
    "Baseline: linear regression on the network's name and the cluster (Figs. 1 and 2).",
    "black box",
    random_embedder,
    as_published.no_features,
    kinds=("linear",),
    named=True,
    version="1",
)
GRAY_BOX = _variant(
    "gray_box",
    "Baseline: as black_box, with numbers of layers and parameters (Figs. 1, 2 and 6).",
    "gray box",
    random_embedder,
    as_published.size_features,
    kinds=("linear",),
    named=True,
    version="1",
)
