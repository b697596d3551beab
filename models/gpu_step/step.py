"""What a training step asks of a GPU: forward and backward of each pass, and the optimizer's step.

The optimizer's grouped operators follow from the parameters (PyTorch's `foreach` implementations,
its default on GPUs): plain SGD is one, AdamW eight; 8-bit AdamW (bitsandbytes) has one for each
parameter. A pass after the first adds its gradients to those that are there. float16 scales the
loss: gradients are checked and unscaled at once, and the host waits for the check
(torch.amp.GradScaler, which refuses gradients in float16: where all that is trained is in half
precision, nothing is scaled).

Source: torch/optim of PyTorch 2.11; ours otherwise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from models.gpu_step.dataflow import BREAKS, WAITS
from models.gpu_step.fusion import GUARDS
from models.gpu_step.operators import DEPTHWISE, HALF, PRODUCTS, Work, laid_out, work_of
from networks.gpu_steps import GpuStep, Operator, Tensor
from warehouse.records import Optimizer, Precision

_ADAM = (
    *(("lerp_", 2), ("mul_", 1), ("addcmul_", 3), ("sqrt", 1)),
    *(("div_", 1), ("add_", 1), ("addcdiv_", 3)),
)
_GROUPS: Mapping[Optimizer, tuple[tuple[str, int], ...]] = {
    "sgd": (("add_", 2),),
    "momentum": (("mul_", 1), ("add_", 2), ("add_", 2)),
    "adam": _ADAM,
    "adamw": (("mul_", 1), *_ADAM),
}
"""Grouped operators and how many lists of tensors each is given."""
_CHECK = Operator(WAITS, (Tensor((), "float32"),), ())
"""Of loss scaling."""


@dataclass(frozen=True)
class StepWork:
    """Works of a step, each that differs once, their order, and which of them the host waits for.

    `order` has places in `works`, `waits` places in `order`. `parameters`: how many are trained.
    """

    works: tuple[Work, ...]
    order: NDArray[np.int64]
    waits: tuple[int, ...]
    parameters: int = 0
    issued: NDArray[np.bool_] | float = 1.0
    """Which calls of `order` the host issues, 1: all; CUDA graphs have the others."""
    first_of_optimizer: int | None = None
    """Place in `works` from which on they are the optimizer's; None: nothing is."""

    @classmethod
    def of(cls, works: Sequence[Work], calls: Sequence[int]) -> Self:
        """Return works that are done so often, one after the other; the host waits for none."""
        return cls(tuple(works), np.repeat(np.arange(len(works)), calls), ())

    @cached_property
    def calls(self) -> NDArray[np.float64]:
        """How often each work is done."""
        return np.bincount(self.order, minlength=len(self.works)).astype(float)

    @cached_property
    def flops_by_dtype(self) -> Mapping[str, float]:
        """Operations of all matrix products and convolutions of a step, forward and backward."""
        flops = dict[str, float]()
        for work, calls in zip(self.works, self.calls, strict=True):
            if work.kind in PRODUCTS:
                flops[work.dtype] = flops.get(work.dtype, 0.0) + (
                    work.flops * work.repeats * float(calls)
                )
        return flops

    @cached_property
    def on_gpu(self) -> NDArray[np.bool_]:
        """Which works launch something."""
        return np.array([work.kind != "none" for work in self.works])


def step_work(
    step: GpuStep,
    optimizer: Optimizer | None = "sgd",
    precision: Precision = "float32",
    accumulate: int = 1,
    *,
    replayed: bool = False,
) -> StepWork:
    """Return the works of a step of `accumulate` passes; without an optimizer, its passes alone.

    `replayed`: graphs of a compiled step are CUDA graphs, each of which the host launches at once.
    """
    operators = list(step.operators)
    works = list(_works(step.operators))
    order, parameters = np.array(step.order, np.int64), step.parameters
    if precision == "tf32":
        works, order = _turned([in_tf32(work) for work in works], order)
    waiting = [number for number, operator in enumerate(operators) if operator.name == WAITS]
    issued = np.ones(len(order), bool)
    if replayed:
        names = [operators[number].name for number in step.order]
        # What follows the guards of a graph stands for its launch.
        before = ["", *names]
        issued = np.array(
            [
                GUARDS.name in (name, last) or name in BREAKS
                for name, last in zip(names, before, strict=False)
            ],
            bool,
        )
    if accumulate > 1:
        added = {each: len(works) + place for place, each in enumerate(step.trained_counts)}
        works += [work_of(Operator("add_", (each, each), ())) for each in added]
        more = np.array([added[each] for each in parameters], np.int64)
        again, again_issued = np.append(order, more), np.append(issued, np.ones(len(more), bool))
        order = np.append(order, np.tile(again, accumulate - 1))
        issued = np.append(issued, np.tile(again_issued, accumulate - 1))
    last: list[Operator] = []
    scales = precision == "float16" and any(each.dtype not in HALF for each in parameters)
    if optimizer is not None and scales:
        last += [Operator("_foreach_mul_", parameters, ()), _CHECK]
        waiting.append(len(works) + 1)
    first = len(works) + len(last)
    if optimizer == "adamw_8bit":
        last += [_quantized_adamw(parameter) for parameter in parameters]
    for name, lists in _GROUPS.get(optimizer, ()) if optimizer else ():
        outputs = parameters if name == "sqrt" else ()
        last.append(Operator(f"_foreach_{name}", parameters * lists, outputs))
    order = np.append(order, np.arange(len(works), len(works) + len(last)))
    issued = np.append(issued, np.ones(len(last), bool))
    return StepWork(
        (*works, *map(work_of, last)),
        order,
        tuple(np.flatnonzero(np.isin(order, waiting)).tolist()),
        len(parameters),
        issued if replayed else 1.0,
        None if optimizer is None else first,
    )


@lru_cache(maxsize=64)
def _works(operators: tuple[Operator, ...]) -> tuple[Work, ...]:
    """Return works; depthwise convolutions of permuted tensors are channels_last.

    What is pointwise keeps strides, so tensors of a shape that a permutation has made are such.
    """
    permuted = {
        operator.outputs[0].shape
        for operator in operators
        if operator.name == "permute"
        and len(shape := operator.inputs[0].shape) == 4
        and operator.outputs[0].shape == (shape[0], shape[3], *shape[1:3])
    }
    works = []
    for operator in operators:
        work = work_of(operator)
        if work.kind in DEPTHWISE:
            given = operator.inputs[work.kind == "depthwise_backward"]
            work = laid_out(work, given.shape in permuted)
        works.append(work)
    return tuple(works)


def _turned(works: list[Work], order: NDArray[np.int64]) -> tuple[list[Work], NDArray[np.int64]]:
    """Return works and their order, with products of backward turned, as traces tell no strides.

    Two of a layer's three products are: both of backward, or one of these and the forward one that
    is as long (GPT-2's). With a bias a product is forward, or forward computed again.
    """
    at = [place for place, work in enumerate(works) if work.name in ("mm", "bmm")]
    places = np.arange(len(works))
    places[at] = len(works) + np.arange(len(at))
    began = np.maximum.accumulate(np.array(["backward" in work.name for work in works])[order])
    turned = [replace(works[place], turned=True) for place in at]
    return [*works, *turned], np.where(began, places[order], order)


def _quantized_adamw(parameter: Tensor) -> Operator:
    """Return bitsandbytes' kernel, one a parameter: it reads gradient and moments, writes these."""
    moment = replace(parameter, dtype="uint8")
    written = (parameter, moment, moment)
    return Operator("adamw_8bit", (parameter, *written), written)


def in_tf32(work: Work) -> Work:
    """Return a product as units for TF32 do it; anything else as it is."""
    is_product = work.kind == "matmul" and work.dtype == "float32"
    return replace(work, dtype="tf32") if is_product else work
