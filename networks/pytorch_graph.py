"""Graphs of PyTorch's networks without running them: operators of a step, primitive operations.

The step is run once with tensors that have shapes and no values (PyTorch's fake tensors): nothing
is computed. `networks.traced_step` notes the operators.
"""

from collections.abc import Callable
from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from networks.gpu_trace import Precision, trace_step
from networks.operation_graph import GraphOperation, OperationGraph
from networks.primitives import PrimitiveGraph
from networks.pytorch_training import build_pytorch
from networks.traced import fields_of
from networks.traced_step import record_operators, record_step


def pytorch_graph(dnn: str, batch_size: int, image_size: int) -> OperationGraph:
    """Return what one step of stochastic gradient descent computes.

    `flops` of an operation count a multiplication and an addition each as one, as PyTorch's
    `FlopCounterMode`; None where that counts none (elementwise operators, pools, normalizations).

    Args:
        dnn: one of `networks.names("pytorch")`.
        batch_size: images per step.
        image_size: side of an image, pixels.

    Raises:
        UnknownNetwork: no network of PyTorch has that name.
        ValueError: the images are too small for the network.
    """
    with FakeTensorMode():
        module, images, labels = _module_and_batch(dnn, batch_size, image_size)
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
    return tuple(GraphOperation(**operator) for operator in record_step(module, images, labels))


def operators_of(step: Callable[[], None]) -> tuple[tuple[GraphOperation, ...], list[float]]:
    """Run a training step, whatever its recipe; return its operators, and microseconds of each."""
    operators, times_us = record_operators(step)
    return tuple(GraphOperation(**operator) for operator in operators), times_us


def gpu_step_fields(dnn: str, batch_size: int, image_size: int, precision: str) -> dict[str, Any]:
    """Return a training step as a GPU is asked for it: fields of `networks.gpu_steps.GpuStep`.

    Raises:
        UnknownNetwork: no network of PyTorch has that name.
        ValueError: the images are too small for the network.
    """
    with FakeTensorMode():
        traced = _module_and_batch(dnn, batch_size, image_size)
        return trace_step(*traced, cast(Precision, precision))


_BATCH = 2
"""Batch normalization of a single value is refused by PyTorch."""


def primitive_graph(dnn: str, image_size: int) -> PrimitiveGraph:
    """Return the graph of primitive operations of a network.

    Raises:
        UnknownNetwork: no network of PyTorch has that name.
        ValueError: the images are too small for the network.
    """
    with FakeTensorMode():
        module, images, _ = _module_and_batch(dnn, _BATCH, image_size)
        return PrimitiveGraph.of(fields_of(module, (images,), dnn, image_size, _BATCH).graph)


def _module_and_batch(
    dnn: str, batch_size: int, image_size: int
) -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    module = build_pytorch(dnn, image_size)
    images = torch.empty(batch_size, 3, image_size, image_size)
    return module, images, torch.zeros(batch_size, dtype=torch.int64)
