"""Training steps of PyTorch, extracted without computing, beside hand-worked and executed ones."""

import json
import time

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import networks
from networks.operation_graph import GraphOperation
from networks.pytorch_graph import operators_of, pytorch_graph, step_operators
from tests.exhaustive import exhaustive
from tests.networks.test_primitive_graph import Forward


def tiny() -> nn.Module:
    """Return a 3 × 3 convolution of 3 to 4 channels in steps of 2, a ReLU, a mean, two logits."""
    return Forward(
        lambda own, images: own.dense(own.convolution(images).relu().mean((2, 3))),
        convolution=nn.Conv2d(3, 4, 3, stride=2, padding=1, bias=False),
        dense=nn.Linear(4, 2),
    )


def operators(module: nn.Module, side: int = 8) -> tuple[GraphOperation, ...]:
    """A step of two images, with real tensors."""
    return step_operators(module, torch.rand(2, 3, side, side), torch.tensor([0, 1]))


def of_type(operations: tuple[GraphOperation, ...], operation_type: str) -> list[GraphOperation]:
    return [op for op in operations if op.type == operation_type]


def test_a_convolution_and_its_gradient() -> None:
    operations = operators(tiny())
    (forward,) = of_type(operations, "aten::convolution")
    assert json.loads(forward.inputs)[:2] == [[2, 3, 8, 8], [4, 3, 3, 3]]
    assert json.loads(forward.outputs) == [[2, 4, 4, 4]]
    assert json.loads(forward.attributes)["values"][3:5] == ["[2, 2]", "[1, 1]"]
    assert forward.input_bytes == 4 * (2 * 3 * 8 * 8 + 4 * 3 * 3 * 3)
    assert forward.output_bytes == 4 * 2 * 4 * 4 * 4
    # 27 products for each of 2 · 4 · 4 · 4 values, and as many additions.
    assert forward.flops == 2 * 27 * 128
    (backward,) = of_type(operations, "aten::convolution_backward")
    assert json.loads(backward.inputs)[:3] == [[2, 4, 4, 4], [2, 3, 8, 8], [4, 3, 3, 3]]
    # The image needs no gradient: only the filter's is computed.
    assert json.loads(backward.attributes)["values"][-1] == "[False, True, False]"
    assert json.loads(backward.outputs) == [[], [4, 3, 3, 3], []]


def test_each_group_of_a_convolution_meets_its_own_channels() -> None:
    layers = (nn.Conv2d(3, 3, 3, groups=groups, bias=False) for groups in (1, 3))
    operations = operators(nn.Sequential(*layers, nn.Flatten()), 6)
    dense, apart = (op.flops for op in of_type(operations, "aten::convolution"))
    assert (dense, apart) == (2 * 27 * 2 * 3 * 16, 2 * 9 * 2 * 3 * 4)
    # Backwards the last comes first, and needs gradients of its input and of its filter.
    apart, dense = (op.flops for op in of_type(operations, "aten::convolution_backward"))
    assert (apart, dense) == (2 * 2 * 9 * 2 * 3 * 4, 2 * 27 * 2 * 3 * 16)


def test_dense_layers_and_the_update_of_every_parameter() -> None:
    operations = operators(tiny())
    (dense,) = of_type(operations, "aten::addmm")
    assert json.loads(dense.inputs)[:3] == [[2], [2, 4], [4, 2]]
    assert dense.flops == 2 * 2 * 4 * 2
    # What the dense layer was given, and its weights, each have a gradient.
    assert [op.flops for op in of_type(operations, "aten::mm")] == [2 * 2 * 2 * 4, 2 * 2 * 2 * 4]
    updates = [op for op in of_type(operations, "aten::add_") if "-0.01" in op.attributes]
    assert [json.loads(update.inputs)[0] for update in updates] == [[4, 3, 3, 3], [2, 4], [2]]
    assert len({op.name for op in operations}) == len(operations)


@pytest.mark.parametrize(
    "dnn", ["small_cnn", "resnet10", *exhaustive("alexnet", "squeezenet", "mobilenet")]
)
def test_the_graph_is_what_is_executed(dnn: str) -> None:
    side = max(networks.minimum_image_size(dnn, "pytorch"), 40)
    graph = pytorch_graph(dnn, 2, side)
    module = networks.build_pytorch(dnn, side)
    executed = operators(module, side)
    assert graph.operations == executed
    assert graph.parameter_count == sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("dnn", ["small_cnn", *exhaustive("vgg11", "resnet50")])
def test_work_agrees_with_pytorch_s_own_count(dnn: str) -> None:
    side = 40
    graph = pytorch_graph(dnn, 2, side)
    module = networks.build_pytorch(dnn, side)
    with FlopCounterMode(display=False) as counted:
        logits = module(torch.rand(2, 3, side, side))
        nn.functional.cross_entropy(logits, torch.tensor([0, 1])).backward()
    assert sum(operation.flops or 0 for operation in graph.operations) == counted.get_total_flops()


def test_operators_that_run_are_timed_each_by_itself() -> None:
    images, module = torch.rand(2, 3, 8, 8), tiny()

    def step() -> None:
        nn.functional.cross_entropy(module(images), torch.tensor([0, 1])).backward()

    started_ns = time.perf_counter_ns()
    operations, times_us = operators_of(step)
    took_us = (time.perf_counter_ns() - started_ns) / 1e3
    assert len(times_us) == len(operations)
    assert min(times_us) > 0
    assert sum(times_us) < took_us
    module.zero_grad()
    assert operators_of(step)[0] == operations
