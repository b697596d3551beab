"""The compiled traversal beside PyTorch's, closed forms of tiny graphs, and shortest paths."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from models.predictddl.ghn import SHAPES, SIZE, Embedder, cosine_distance, lengths_of
from models.predictddl.hypernetwork import Hypernetwork
from models.predictddl.systems import load_shipped_embedder
from networks.kept_graphs import keep_in
from networks.primitives import PRIMITIVES, Primitive, PrimitiveGraph
from networks.pytorch_graph import primitive_graph
from tests.networks.test_primitive_graph import Forward, traced
from warehouse.records import BadInput


def graph_of(types: list[str], edges: list[tuple[int, int]]) -> PrimitiveGraph:
    return PrimitiveGraph("x", 8, tuple(map(Primitive, types)), tuple(edges), 0)


@st.composite
def graphs(draw: st.DrawFn) -> PrimitiveGraph:
    """Draw a graph of up to a dozen primitives, connected or not."""
    types = draw(st.lists(st.sampled_from(PRIMITIVES), min_size=1, max_size=12))
    pairs = [(source, target) for target in range(len(types)) for source in range(target)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return graph_of(types, edges)


@pytest.fixture(scope="module")
def hypernetwork() -> Hypernetwork:
    torch.manual_seed(3)
    return Hypernetwork(10)


@settings(max_examples=40, deadline=None)
@given(made=st.lists(graphs(), min_size=1, max_size=3))
def test_compiled_states_are_those_of_pytorch(
    hypernetwork: Hypernetwork, made: list[PrimitiveGraph]
) -> None:
    with torch.no_grad():
        together = hypernetwork.states(made).numpy()
    embedder = hypernetwork.embedder()
    apart = np.concatenate([embedder.states(graph) for graph in made])
    np.testing.assert_allclose(apart, together, atol=2e-6)


def constant(gate: float, **values: float) -> Embedder:
    """Return parameters of 0 but some of one value; the update gate has a bias of its own."""
    parameters = {
        name: np.full(shape, values.get(name.replace(".", "_"), 0.0), np.float32)
        for name, shape in SHAPES.items()
    }
    parameters["gru.bias_ih"][SIZE : 2 * SIZE] = gate
    return Embedder(parameters)


def test_messages_come_along_edges_and_by_the_length_of_paths() -> None:
    """A chain of three: perceptrons that say 1 (edges) and 1/4 (virtual edges), gates of 0.

    Forward, the third node hears 1 of the second and 1/4 over 2 of the first.
    """
    embedder = constant(-100.0, near_2_bias=1.0, far_2_bias=0.25)
    embedder.parameters["gru.weight_ih"][2 * SIZE :] = np.eye(SIZE, dtype=np.float32)
    states = embedder.states(graph_of(["conv"] * 3, [(0, 1), (1, 2)]))
    # The last pass is the backward one: the first node hears the other two.
    expected = [np.tanh(1.125), np.tanh(1.0), 0.0]
    np.testing.assert_allclose(states[:, 0], expected, rtol=1e-6)


@settings(max_examples=60, deadline=None)
@given(graph=graphs())
def test_paths_are_the_shortest(graph: PrimitiveGraph) -> None:
    count = len(graph.nodes)
    best = np.full((count, count), np.inf)
    for source, target in graph.edges:
        best[source, target] = 1
    for middle in range(count):
        best = np.minimum(best, best[:, [middle]] + best[[middle], :])
    expected = np.where(np.isfinite(best), best, 0)
    assert np.array_equal(lengths_of(graph), expected)


def test_an_embedder_is_what_its_file_says(tmp_path: Path) -> None:
    first = Embedder.untrained(7)
    first.write(tmp_path / "x.safetensors")
    second = Embedder.read(tmp_path / "x.safetensors")
    assert all(np.array_equal(first.parameters[name], second.parameters[name]) for name in SHAPES)
    assert (tmp_path / "x.safetensors").stat().st_size < 2**20


def test_what_is_no_embedder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="expected an embedder's parameters"):
        Embedder.read(tmp_path / "none.safetensors")
    (tmp_path / "text.safetensors").write_text("text")
    with pytest.raises(BadInput, match=r"text\.safetensors: expected an embedder's parameters"):
        Embedder.read(tmp_path / "text.safetensors")
    parameters = {**Embedder.untrained().parameters, "embed": np.zeros((3, SIZE), np.float32)}
    with pytest.raises(BadInput, match=r"expected embed of float32 \[20, 32\], found float32 \[3"):
        Embedder(parameters)


def test_a_transformer_is_embedded() -> None:
    """Random networks of the training have no attention: its parameters stay as they began."""

    def made() -> nn.Module:
        layer = nn.TransformerEncoderLayer(8, 2, 16)
        return Forward(lambda own, x: layer(x.flatten(2).transpose(1, 2)), layer=layer)

    graph = traced(made, 8, 4, 4)
    assert graph.histogram["layer_norm"] == 2
    assert graph.histogram["attention"] or graph.histogram["matmul"]
    embedder = load_shipped_embedder()
    embedding = embedder.embedding(graph)
    assert embedding.shape == (SIZE,)
    assert np.isfinite(embedding).all()
    resnet18, resnet50, vgg11 = (
        embedder.embedding(primitive_graph(name, 64)) for name in ("resnet18", "resnet50", "vgg11")
    )
    apart = min(cosine_distance(embedding, other) for other in (resnet18, resnet50, vgg11))
    assert apart > cosine_distance(resnet18, resnet50)


def test_an_embedding_is_kept_until_the_graph_or_a_parameter_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder, graph = Embedder.untrained(), graph_of([PRIMITIVES[0]] * 2, [(0, 1)])
    keep_in(tmp_path)
    before = embedder.embedding(graph)
    with monkeypatch.context() as patch:
        patch.setattr(Embedder, "states", None)  # none are needed
        np.testing.assert_array_equal(Embedder.untrained().embedding(graph), before)
    assert (Embedder.untrained(seed=1).embedding(graph) != before).any()
    assert (embedder.embedding(graph_of([PRIMITIVES[0]] * 3, [(0, 1)])) != before).any()
