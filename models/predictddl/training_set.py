"""Runs that were measured, and what models take of them: work, kinds of networks, setups."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import log
from typing import Self

import numpy as np
from numpy.typing import NDArray

from models.predictddl.ghn import Embedder, cosine_distance
from models.predictddl.observations import Capabilities, ObservedStep, batch_of, host_of, of_node
from models.predictddl.residuals import RunFeatures
from models.predictddl.work import Work, ranks_of, terms, traits
from networks.catalogue import family
from networks.primitives import PrimitiveGraph
from warehouse.records import Scenario

Floats = NDArray[np.float64]
Key = tuple[str, int]
"""What tells graphs apart: a network, and the side of its images."""
Graphs = Callable[[Iterable[Key]], Mapping[Key, PrimitiveGraph]]
_UNSHAPED_BPS = 1.25e9
"""Links whose speed nobody says: 10 Gb/s."""
FEWEST_FAMILIES = 2
"""Of networks, that a fit learns from."""
OWN_STEPS, OWN_FAMILIES = 24, 6
"""Of a host, that it is learned from alone; see `are_enough`."""
_COMPONENTS = 4
"""Of embeddings, that a regressor gets: the directions in which measured networks differ most."""


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Runs that were measured, as the models take them.

    Attributes:
        runs: scenarios and steps.
        measured: what node types can do.
        graphs: of networks.
        embedder: of graphs.
    """

    runs: Sequence[ObservedStep]
    measured: Mapping[str, Mapping[str, float]]
    graphs: Graphs
    embedder: Embedder
    _embedded: dict[Key, NDArray[np.float32]] = field(default_factory=dict, repr=False)

    def without(self, which: Callable[[ObservedStep], bool]) -> Self:
        """Return this without some runs."""
        kept = [run for run in self.runs if not which(run)]
        return type(self)(kept, self.measured, self.graphs, self.embedder, self._embedded)

    def with_graphs(
        self, graphs: Mapping[Key, PrimitiveGraph], measured: Mapping[str, Mapping[str, float]]
    ) -> Self:
        """Return this with more graphs and node types; what was measured stays as it is."""

        def both(wanted: Iterable[Key]) -> Mapping[Key, PrimitiveGraph]:
            keys = list(dict.fromkeys(wanted))
            named = self.graphs([key for key in keys if key not in graphs])
            return {**named, **{key: graphs[key] for key in keys if key in graphs}}

        # What somebody sent stays with this, and out of what all share.
        embedded = {
            key: embedding for key, embedding in self._embedded.items() if key not in graphs
        }
        more = replace(
            self, graphs=both, measured={**measured, **self.measured}, _embedded=embedded
        )
        # These rest on the runs alone, and take seconds.
        vars(more).update(networks=self.networks, embeddings=self.embeddings)
        if self.source is not self:
            vars(more).update(source=self.source.with_graphs(graphs, measured))
        return more

    @cached_property
    def names(self) -> frozenset[str]:
        """The networks that were measured."""
        return frozenset(run.scenario.workload.dnn for run in self.runs)

    @cached_property
    def keys(self) -> frozenset[Key]:
        """The networks that were measured, with the side of their images."""
        return frozenset(key_of(run.scenario) for run in self.runs)

    @cached_property
    def node_types(self) -> frozenset[str]:
        """The types of nodes that steps were measured on."""
        groups = (group for run in self.runs for group in run.scenario.worker_groups)
        return frozenset(group.node_type for group in groups)

    @cached_property
    def own(self) -> Sequence[ObservedStep]:
        """The runs of this host."""
        return [run for run in self.runs if not _is_elsewhere(run)]

    @cached_property
    def source(self) -> Self:
        """What forecasts are learned from: where this host has few runs, those of other hosts.

        Steps of this host then only correct these forecasts (`models.predictddl.fit`). Where
        others' runs do not do, all are learned from.
        """
        if not self.own:
            return self
        if are_enough([run.scenario for run in self.own]):
            return self.without(_is_elsewhere) if len(self.own) < len(self.runs) else self
        others = self.without(lambda run: not _is_elsewhere(run))
        families = {family(name) for name in others.names}
        return others if len(families) >= FEWEST_FAMILIES else self

    @property
    def is_moved(self) -> bool:
        """Whether forecasts are learned from other hosts."""
        return not self.source.own

    @cached_property
    def networks(self) -> Mapping[Key, PrimitiveGraph]:
        """The graphs of all networks that were measured."""
        return self.graphs(dict.fromkeys(key_of(run.scenario) for run in self.runs))

    @cached_property
    def embeddings(self) -> Mapping[Key, NDArray[np.float32]]:
        """The embeddings of all networks that were measured."""
        return {key: self.embedding(key, graph) for key, graph in self.networks.items()}

    @cached_property
    def steps_s(self) -> Floats:
        """Measured seconds."""
        return np.array([run.step_s for run in self.runs])

    @cached_property
    def axes(self) -> tuple[Floats, Floats]:
        """The directions in which embeddings of measured networks differ most, and the mean."""
        embeddings = np.array([self.embeddings[key] for key in sorted(self.embeddings)], np.float64)
        middle = embeddings.mean(axis=0)
        _, _, directions = np.linalg.svd(embeddings - middle, full_matrices=False)
        return directions[:_COMPONENTS].T, middle

    def embedding(self, key: Key, graph: PrimitiveGraph) -> NDArray[np.float32]:
        """Return the embedding of a network; asked again, it is at hand."""
        if key not in self._embedded:
            self._embedded[key] = self.embedder.embedding(graph)
        return self._embedded[key]

    def nearest(self, key: Key) -> tuple[float, str]:
        """Return the cosine distance to the nearest network that was measured, and its name."""
        embedding = self.embedding(key, self.graphs([key])[key])
        return min(
            (cosine_distance(embedding, other), dnn) for (dnn, _), other in self.embeddings.items()
        )


def are_enough(trained: Collection[Scenario]) -> bool:
    """Tell whether a host's own steps tell more of it than corrected ones of other hosts do.

    Each of the two emulated hosts of `data/reference` was forecast from some of its own steps, and
    from the other's corrected by these: own steps alone were better from about 24 on
    (lab/predictddl.md).
    """
    scenarios = set(trained)
    families = {family(scenario.workload.dnn) for scenario in scenarios}
    return len(scenarios) >= OWN_STEPS and len(families) >= OWN_FAMILIES


def _is_elsewhere(run: ObservedStep) -> bool:
    return any(host_of(group.node_type) for group in run.scenario.worker_groups)


def key_of(scenario: Scenario) -> Key:
    """Return what tells graphs apart: a network, and the side of its images."""
    return scenario.workload.dnn, scenario.workload.image_size


def link_Bps(scenario: Scenario) -> float:
    """Return the speed of a scenario's links, bytes a second."""
    return _UNSHAPED_BPS if scenario.link_mbps is None else scenario.link_mbps * 125_000


def terms_of(
    scenario: Scenario, known: TrainingSet, graphs: Mapping[Key, PrimitiveGraph]
) -> Floats:
    """Return the terms of each group of a scenario's nodes, [groups, terms]."""
    work = Work.of(graphs[key_of(scenario)])
    return np.array(
        [
            terms(work, scenario, group, of_node(group, known.measured), link_Bps(scenario))
            for group in scenario.worker_groups
        ]
    )


def rows_of(
    scenarios: Sequence[Scenario], known: TrainingSet, graphs: Mapping[Key, PrimitiveGraph]
) -> RunFeatures:
    """Return what regressors take: kinds of networks, and how and where they train."""
    keys = [key_of(scenario) for scenario in scenarios]
    axes, middle = known.axes
    own = {key: traits(Work.of(graphs[key])) for key in set(keys)}
    embedded = {key: (known.embedding(key, graphs[key]) - middle) @ axes for key in set(keys)}
    kinds = np.array([np.concatenate([own[key], embedded[key]]) for key in keys])
    setups = np.array([_setup(scenario, known) for scenario in scenarios])
    return RunFeatures(np.array([dnn for dnn, _ in keys], dtype=object), kinds, setups)


def _setup(scenario: Scenario, known: TrainingSet) -> list[float]:
    group = max(scenario.worker_groups, key=lambda candidate: batch_of(scenario, candidate))
    can: Capabilities = of_node(group, known.measured)
    return [
        log(ranks_of(scenario)),
        log(batch_of(scenario, group)),
        log(can.dense_flops),
        log(can.memory_Bps),
    ]
