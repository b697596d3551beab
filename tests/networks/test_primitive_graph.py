"""Graphs of primitives: counted by hand, and beside what PyTorch's step computes."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from networks.catalogue import LIBRARY, names
from networks.primitives import PRIMITIVES, Primitive, PrimitiveGraph
from networks.pytorch_graph import primitive_graph, pytorch_graph
from networks.traced import CannotTrace, fields_of

OURS = [name for name in names("pytorch") if name not in LIBRARY]
BATCH = 2


class Forward(nn.Module):
    """Modules by name, and a function of them and what they are given."""

    def __init__(self, forward: Callable[..., Tensor], **parts: nn.Module) -> None:
        super().__init__()
        self._function = forward
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, *given: Tensor) -> Tensor:
        """Return what the function makes of them."""
        return self._function(self, *given)


def traced(made: Callable[[], nn.Module], *shape: int) -> PrimitiveGraph:
    """Return the graph of a module for images of a shape."""
    with FakeTensorMode():
        fields = fields_of(made(), (torch.empty(BATCH, *shape),), "hand", shape[-1], BATCH).graph
    return PrimitiveGraph.of(fields)


def kinds(graph: PrimitiveGraph) -> list[str]:
    return [node.type for node in graph.nodes]


def test_a_residual_block() -> None:
    def block() -> nn.Module:
        return Forward(
            lambda own, x: functional.relu(own.norm(own.conv(x)) + x),
            conv=nn.Conv2d(4, 4, 3, padding=1, bias=False),
            norm=nn.BatchNorm2d(4),
        )

    graph = traced(block, 4, 8, 8)
    assert kinds(graph) == ["input", "conv", "batch_norm", "sum"]
    assert graph.edges == ((0, 1), (0, 3), (1, 2), (2, 3))
    conv, norm, total = graph.nodes[1:]
    assert (conv.parameters, conv.kernel, conv.output_elements) == (144, 9, 256)
    assert conv.flops == 2 * 64 * 144
    assert (norm.parameters, total.parameters, total.output_elements) == (8, 0, 256)


@pytest.mark.parametrize(
    ("groups", "dilation", "kind", "parameters"),
    [
        (1, 1, "conv", 8 * 8 * 9),
        (2, 1, "group_conv", 8 * 4 * 9),
        (8, 1, "depthwise_conv", 8 * 9),
        (1, 2, "dilated_conv", 8 * 8 * 9),
    ],
)
def test_convolutions_of_groups_of_channels(
    groups: int, dilation: int, kind: str, parameters: int
) -> None:
    graph = traced(
        lambda: nn.Conv2d(8, 8, 3, padding=dilation, groups=groups, dilation=dilation), 8, 4, 4
    )
    assert kinds(graph) == ["input", kind, "bias"]
    assert [node.parameters for node in graph.nodes] == [0, parameters, 8]
    assert graph.nodes[1].flops == 2 * 16 * parameters


def test_squeeze_and_excitation() -> None:
    def made() -> nn.Module:
        return Forward(
            lambda own, x: x * torch.sigmoid(own.up(functional.relu(own.down(own.pool(x))))),
            pool=nn.AdaptiveAvgPool2d(1),
            down=nn.Conv2d(8, 2, 1),
            up=nn.Conv2d(2, 8, 1),
        )

    graph = traced(made, 8, 4, 4)
    assert kinds(graph) == ["input", "global_pool", "conv", "bias", "conv", "bias", "product"]
    assert (0, 6) in graph.edges and (5, 6) in graph.edges
    assert sum(node.parameters for node in graph.nodes) == graph.parameter_count == 42


def test_attention_by_hand_is_two_products_of_matrices() -> None:
    def made() -> nn.Module:
        def forward(own: Forward, x: Tensor) -> Tensor:
            words = x.flatten(2).transpose(1, 2)
            query, key = (getattr(own, name)(words) for name in ("query", "key"))
            weights = torch.softmax(query @ key.transpose(1, 2), -1)
            return weights @ words

        return Forward(forward, query=nn.Linear(8, 8), key=nn.Linear(8, 8))

    graph = traced(made, 8, 2, 2)
    assert graph.histogram["linear"] == graph.histogram["bias"] == 2
    assert graph.histogram["matmul"] == 2
    assert [node.flops for node in graph.nodes if node.type == "matmul"] == [2 * 4 * 4 * 8] * 2


@pytest.mark.parametrize("dnn", OURS)
def test_a_network_s_nodes_have_its_parameters(dnn: str) -> None:
    side = 107 if dnn == "inception_v3" else 64
    graph = primitive_graph(dnn, side)
    assert 0 < sum(node.parameters for node in graph.nodes) == graph.parameter_count
    reached = {target for _, target in graph.edges}
    assert reached == set(range(1, len(graph.nodes))), "all but the images read something"


@pytest.mark.parametrize("dnn", ["small_cnn", "squeezenet", "mobilenet", "resnet18"])
def test_a_network_s_nodes_have_the_operations_of_a_step_s_forward_pass(dnn: str) -> None:
    step = pytorch_graph(dnn, BATCH, 64)
    graph = primitive_graph(dnn, 64)
    assert graph.parameter_count == step.parameter_count
    forward = [
        operation
        for operation in step.operations
        if operation.type in ("aten::convolution", "aten::addmm")
    ]
    assert graph.flops * BATCH == sum(operation.flops or 0 for operation in forward)


def test_a_network_that_looks_at_values_names_the_operator() -> None:
    def made() -> nn.Module:
        return Forward(lambda _, x: x * 2 if x.sum().item() > 0 else x)

    with pytest.raises(CannotTrace, match=r"hand: no graph.*aten::_local_scalar_dense"):
        traced(made, 3, 4, 4)


NODES = st.builds(
    Primitive,
    type=st.sampled_from(PRIMITIVES),
    parameters=st.integers(0, 10**9),
    flops=st.floats(0, 1e15),
    output_elements=st.integers(0, 10**9),
    kernel=st.integers(0, 49),
)


@settings(max_examples=30)
@given(nodes=st.lists(NODES, min_size=1, max_size=6), draw=st.data())
def test_a_graph_is_what_its_json_says(nodes: list[Primitive], draw: st.DataObject) -> None:
    pairs = [(source, target) for target in range(len(nodes)) for source in range(target)]
    edges = tuple(draw.draw(st.lists(st.sampled_from(pairs)))) if pairs else ()
    graph = PrimitiveGraph("x", 32, tuple(nodes), edges, 7)
    assert PrimitiveGraph.of(json_of(graph)) == graph


def json_of(graph: PrimitiveGraph) -> dict[str, object]:
    import json

    fields: dict[str, object] = json.loads(graph.to_json())
    return fields


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        ((), (), "expected 1 to 5,000 nodes, found 0"),
        ((Primitive("convolution"),), (), "node 0: no primitive 'convolution'"),
        ((Primitive("input"), Primitive("conv")), ((1, 0),), "edge 1 → 0"),
        ((Primitive("input"),), ((0, 1),), "edge 0 → 1: expected places of 1 nodes"),
    ],
)
def test_what_is_no_graph_is_refused(
    nodes: tuple[Primitive, ...], edges: tuple[tuple[int, int], ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        PrimitiveGraph("x", 32, nodes, edges, 0)
