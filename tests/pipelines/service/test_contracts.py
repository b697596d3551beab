"""Equations (1) and (2) of the paper, and the ends of what may be asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from models.predictddl.observations import Capabilities
from pipelines.service.contracts import Graph, Node, Question, Workload
from tests.pipelines.service.reports import report
from warehouse import limits


def test_a_core_has_its_part_and_free_cores_are_summed() -> None:
    """Eight cores of 16 GB have 2 GB each (eq. 1); six free ones have 12 GB (eq. 2)."""
    assert report(utilisation=0.25).available == Capabilities(
        cores=6.0,
        dense_flops=6e10,
        depthwise_flops=3e9,
        memory_Bps=1.5e10,
        results_Bps=3e9 * 8 / 18,
        disk_Bps=3e8,
        memory_bytes=12e9,
    )


def test_no_more_memory_is_available_than_nobody_uses() -> None:
    half_busy = report(utilisation=0.5, free_memory_bytes=10**9)
    assert half_busy.available.memory_bytes == 1e9
    assert report(utilisation=0.5, free_memory_bytes=10**10).available.memory_bytes == 8e9


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.5, 1024))
def test_a_busier_node_has_no_more(one: float, other: float, cores: float) -> None:
    low, high = sorted((one, other))
    less = report(cores=cores, utilisation=high).available
    more = report(cores=cores, utilisation=low).available
    for name in Capabilities.model_fields:
        assert getattr(less, name) <= getattr(more, name) * (1 + 1e-12)


@pytest.mark.parametrize(
    "fields",
    [
        {"cores": 0},
        {"cores": float("nan")},
        {"utilisation": 1.1},
        {"node_type": "../etc"},
        {"gpus": 1.5},
    ],
)
def test_a_report_that_cannot_be_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        report(**fields)


def test_words_are_refused_for_networks_that_see_images() -> None:
    with pytest.raises(ValidationError, match="networks here see images, and no words"):
        Workload.model_validate({"dnn": "vgg11", "sequence_length": 128})


@pytest.mark.parametrize("fields", [{}, {"dnn": "vgg11", "graph": {}}, {"dnn": "a/b.py:net"}])
def test_a_workload_is_one_network_by_name_or_graph(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Workload.model_validate(fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"workloads": [{}] * 1000},
        {"workloads": [{"graph": {"nodes": [{}] * 5000, "edges": [], "parameter_count": 0}}]},
        {f"field_{place}": 0 for place in range(1000)},
    ],
)
def test_many_faults_make_few_errors(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as caught:
        Question.model_validate(fields)
    assert caught.value.error_count() < 60


def test_a_question_has_an_end() -> None:
    small = Workload(dnn="vgg11")
    Question(workloads=[small] * limits.WORKLOADS)
    with pytest.raises(ValidationError, match="at most 100"):
        Question(workloads=[small] * (limits.WORKLOADS + 1))
    nodes = [Node(type="conv")] * 5000
    large = Workload(graph=Graph(nodes=nodes, edges=[], parameter_count=0))
    Question(workloads=[large] * 4)
    with pytest.raises(ValidationError, match="20,000 nodes together, found 25,000"):
        Question(workloads=[large] * 5)
