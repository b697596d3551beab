"""Graphs of PyTorch's networks without running them: operators of a step, primitive operations.

The step is run once with tensors that have shapes and no values (PyTorch's fake tensors): nothing
is computed. `networks.traced_step` notes the operators.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from networks.gpu_trace import Precision, trace_step
from networks.operation_graph import GraphOperation, OperationGraph
from networks.primitives import PrimitiveGraph
from networks.pytorch_training import build_pytorch
from networks.traced import fields_of
from networks.traced_step import Fields, record_operators, record_step


def pytorch_graph(
    dnn: str, batch_size: int, image_size: int, num_classes: int = 10
) -> OperationGraph:
    """Return what one step of stochastic gradient descent computes.

    `flops` of an operation count a multiplication and an addition each as one, as PyTorch's
    `FlopCounterMode`; None where that counts none (elementwise operators, pools, normalizations).

    Args:
        dnn: one of `networks.names("pytorch")`.
        batch_size: images per step.
        image_size: side of an image, pixels.
        num_classes: of the last layer.

    Raises:
        UnknownNetwork: no network of PyTorch has that name.
        ValueError: the images are too small for the network.
    """
    with FakeTensorMode():
        module = build_pytorch(dnn, image_size, num_classes)
        images = torch.empty(batch_size, 3, image_size, image_size)
        labels = torch.zeros(batch_size, dtype=torch.int64)
        operations = step_operators(module, images, labels)
    trained = (parameter for parameter in module.parameters() if parameter.requires_grad)
    parameter_count = sum(parameter.numel() for parameter in trained)
    return OperationGraph(dnn, batch_size, image_size, parameter_count, operations)


def step_operators(
    module: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor
) -> tuple[GraphOperation, ...]:
    """Return the operators of a training step, in the order in which they are called.

    Fake tensors, and a module of them, make this free of computation.
    """
    return timed_operators(module, images, labels)[0]


def timed_operators(
    module: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor
) -> tuple[tuple[GraphOperation, ...], list[float]]:
    """Run a training step on a processor; return its operators, and the microseconds of each."""
    return _operations(*record_step(module, images, labels))


def operators_of(step: Callable[[], None]) -> tuple[tuple[GraphOperation, ...], list[float]]:
    """Run a training step, whatever its recipe; return its operators, and microseconds of each."""
    return _operations(*record_operators(step))


def _operations(
    operators: Sequence[Fields], times_us: list[float]
) -> tuple[tuple[GraphOperation, ...], list[float]]:
    return tuple(GraphOperation(**operator) for operator in operators), times_us


def gpu_step_fields(
    dnn: str, batch_size: int, image_size: int, precision: str, num_classes: int = 10
) -> dict[str, Any]:
    """Return a training step as a GPU is asked for it: fields of `networks.gpu_steps.GpuStep`.

    Raises:
        UnknownNetwork: no network of PyTorch has that name.
        ValueError: the images are too small for the network.
    """
    with FakeTensorMode():
        module = build_pytorch(dnn, image_size, num_classes)
        images = torch.empty(batch_size, 3, image_size, image_size)
        labels = torch.zeros(batch_size, dtype=torch.int64)
        return trace_step(module, images, labels, cast(Precision, precision))


# The graph of primitive operations of PyTorch's networks of ours.


_BATCH = 2
"""Batch normalization of a single value is refused by PyTorch."""


def primitive_graph(dnn: str, image_size: int, num_classes: int = 10) -> PrimitiveGraph:
    """Return the graph of a network.

    Raises:
        UnknownNetwork: no network of PyTorch has that name.
        ValueError: the images are too small for the network.
    """
    with FakeTensorMode():
        module = build_pytorch(dnn, image_size, num_classes)
        images = torch.empty(_BATCH, 3, image_size, image_size)
        return PrimitiveGraph.of(fields_of(module, (images,), dnn, image_size, _BATCH).graph)
