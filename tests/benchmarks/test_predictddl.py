"""The benchmark of PredictDDL runs on few networks, and counts what Ernest has to measure."""

from collections import Counter

import pytest

from benchmarks import predictddl
from models.predictddl import fit as predictddl_fit
from models.predictddl.ghn import Embedder
from models.predictddl.residuals import REGRESSORS
from networks.primitives import PrimitiveGraph
from networks.pytorch_graph import primitive_graph
from profilers.probe import RequestedScenarios
from profilers.probes import PROBES


@pytest.mark.exhaustive
def test_it_measures_all_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictddl_fit, "REGRESSORS", {"none": REGRESSORS["none"]})
    lines: list[str] = []
    networks = ("small_cnn", "squeezenet"), ("squeezenet_v1_1", "resnet10")
    figures = predictddl.measure(*networks, lines.append).to_dict()
    assert list(figures) == [
        "embed_ms",
        "trace_ms",
        "batch100_s",
        "ratio_to_ernest",
        "ratio_without_probes",
        "ratio_with_training_runs",
    ]
    assert all(value > 0 for value in figures.values())
    assert figures["ratio_to_ernest"] > figures["ratio_without_probes"]
    assert figures["ratio_to_ernest"] > figures["ratio_with_training_runs"]
    assert lines[1] == "2 workloads by PredictDDL and by Ernest"


@pytest.mark.exhaustive
def test_graphs_of_a_batch_differ_and_none_is_embedded_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graphs = {("small_cnn", 64): primitive_graph("small_cnn", 64)}
    graphs |= {("squeezenet", 64): primitive_graph("squeezenet", 64)}
    monkeypatch.setattr(predictddl_fit, "REGRESSORS", {"none": REGRESSORS["none"]})
    fit = predictddl_fit.PredictDDL.fit(
        predictddl.synthetic_training_set([dnn for dnn, _ in graphs], graphs)
    )
    made = predictddl.variants(list(graphs.values()), 20)
    assert (
        len({(graph.nodes, graph.edges) for graph in made})
        == len({graph.dnn for graph in made})
        == 20
    )
    embedded: list[str] = []
    embedding = Embedder.embedding

    def noting(self: Embedder, graph: PrimitiveGraph) -> object:
        embedded.append(graph.dnn)
        return embedding(self, graph)

    monkeypatch.setattr(Embedder, "embedding", noting)
    predictddl.batch_s(fit, made)
    assert Counter(embedded) == dict.fromkeys((graph.dnn for graph in made), 5)


def test_runs_that_share_a_start_pay_for_it_once() -> None:
    """Both batches of a network are measured on one start of its programs."""
    probe = PROBES["torch_throughput"]
    runs = tuple(predictddl.training(["small_cnn"])[:2])
    first, second = probe.needs(RequestedScenarios(own=runs), probe.settings())
    assert first.start == second.start
    together = first.start_s + first.expected_s + second.expected_s
    assert predictddl.planned_s(RequestedScenarios(own=runs)) == pytest.approx(together)


def test_its_large_graph_has_the_nodes_asked_for() -> None:
    graph = predictddl.chain(500)
    assert len(graph.nodes) == 500
    assert {target for _, target in graph.edges} == set(range(1, 500))
