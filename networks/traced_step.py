"""The operators of a training step of a PyTorch module; needs PyTorch and `operator_work`.

What is noted are the operators that the dispatcher is asked for below automatic differentiation,
which are those that a processor runs, forward, backward and in the optimizer: `aten::convolution`,
not the `aten::conv2d` above it. Arguments are in the form in which PyTorch's profiler records them.

`networks/own_program.py` loads this file where no package of ours may be imported.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

import torch

from networks.operator_recorder import OperatorRecorder
from networks.operator_work import flops

_LEARNING_RATE = 0.01
Fields = dict[str, Any]
"""Of `networks.operation_graph.GraphOperation`."""


def record_step(
    module: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor, most: int | None = None
) -> list[Fields]:
    """Run a step of stochastic gradient descent; return its operators.

    Fake tensors, and a module of them, make this free of computation.

    Raises:
        ValueError: there are more than `most` operators.
    """
    optimizer = torch.optim.SGD(module.parameters(), lr=_LEARNING_RATE)

    def step() -> None:
        loss_of: Any = getattr(module, "loss_of", torch.nn.functional.cross_entropy)
        loss = loss_of(module(images), labels)
        loss.backward()
        optimizer.step()

    operators, _ = record_operators(step, most)
    optimizer.zero_grad()
    return operators


def record_operators(
    step: Callable[[], None], most: int | None = None
) -> tuple[list[Fields], list[float]]:
    """Run a training step; return its operators, and microseconds of each.

    Raises:
        ValueError: there are more than `most` operators.
    """
    recorder = _StepRecorder(most)
    with recorder:
        step()
    return recorder.operations, recorder.times_us


class _StepRecorder(OperatorRecorder):  # type: ignore[no-untyped-call]
    """Notes every operator that is called while it is entered."""

    device = "cpu"

    def __init__(self, most: int | None) -> None:
        super().__init__(most)
        self.operations: list[Fields] = []
        self.times_us: list[float] = []
        self._numbers: dict[str, Iterator[int]] = {}

    def note(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return what an operator makes, and note it."""
        if not func.name().startswith("aten::"):
            # A tensor without values is asked for its device, which costs a real one nothing.
            return func(*args, **kwargs)
        # In-place operators change what they are given: it is described before.
        given = (*args, *kwargs.values())
        inputs, read = json.dumps([_dims(value) for value in given]), sum(map(_bytes, given))
        started_ns = time.perf_counter_ns()
        result = func(*args, **kwargs)
        us = (time.perf_counter_ns() - started_ns) / 1e3
        written = result if isinstance(result, tuple) else (result,)
        operation_type = func.name().partition(".")[0]
        self.count()
        self.times_us.append(us)
        number = next(self._numbers.setdefault(operation_type, count()))
        self.operations.append(
            {
                "name": f"{operation_type}_{number}",
                "type": operation_type,
                "inputs": inputs,
                "outputs": json.dumps([_dims(value) for value in written]),
                "attributes": json.dumps({"values": [_value(value) for value in given]}),
                "input_bytes": read,
                "output_bytes": sum(map(_bytes, written)),
                "flops": flops(func, args, kwargs, result),
            }
        )
        return result


def _dims(value: object) -> list[Any]:
    """Return a tensor's shape, those of a list of tensors, or [] for anything else."""
    if isinstance(value, torch.Tensor):
        return list(value.shape)
    if isinstance(value, list) and any(isinstance(element, torch.Tensor) for element in value):
        return [_dims(element) for element in value]
    return []


def _bytes(value: object) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    return sum(map(_bytes, value)) if isinstance(value, list) else 0


def _value(value: object) -> str:
    """Return what is no tensor as text; nothing for tensors and None, as the profiler does."""
    tensors = isinstance(value, torch.Tensor) or _dims(value)
    return "" if tensors or value is None else str(value)
