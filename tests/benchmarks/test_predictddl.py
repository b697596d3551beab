"""The benchmark of PredictDDL runs on few networks, and counts what Ernest has to measure."""

import pytest

from benchmarks import predictddl
from models.predictddl import fitted
from models.predictddl.learned import REGRESSORS


def test_it_measures_all_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitted, "REGRESSORS", {"none": REGRESSORS["none"]})
    told: list[str] = []
    found = predictddl.measure(("small_cnn", "squeezenet"), told.append).to_dict()
    assert list(found) == [
        "embed_ms",
        "trace_ms",
        "batch100_s",
        "ratio_to_ernest",
        "ratio_without_probes",
    ]
    assert all(value > 0 for value in found.values())
    assert found["ratio_to_ernest"] > found["ratio_without_probes"]
    assert told[-1] == "2 workloads by PredictDDL and by Ernest"


def test_its_large_graph_has_the_nodes_asked_for() -> None:
    graph = predictddl.chain(500)
    assert len(graph.nodes) == 500
    assert {target for _, target in graph.edges} == set(range(1, 500))
