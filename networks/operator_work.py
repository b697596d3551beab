"""How much PyTorch's operators have to do; needs PyTorch and nothing of this project.

Work is floating-point operations of matrix products and convolutions, a multiplication and an
addition each as one, as PyTorch's `FlopCounterMode` counts. Of operators that it does not know,
recurrent ones and Fourier transforms have formulas here, others are taken apart by PyTorch's own
tables of decompositions. Complex products count as the real ones that they consist of.

`networks/own_program.py` loads this file where no package of ours may be imported.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import log2, prod
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

_PER_ELEMENT = frozenset(
    {
        "_adaptive_avg_pool3d",
        "_embedding_bag",
        "_embedding_bag_forward_only",
        "_masked_scale",
        "_pack_padded_sequence",
        "_reshape_copy",
        "_safe_softmax",
        "_to_dense",
        "_upsample_bicubic2d_aa",
        "_upsample_bilinear2d_aa",
        "_upsample_lanczos2d_aa",
        "avg_pool2d",
        "avg_pool3d",
        "bernoulli",
        "bernoulli_",
        "bincount",
        "copy",
        "copy_",
        "cummax",
        "cummin",
        "fractional_max_pool2d",
        "full_like",
        "gather",
        "grid_sampler_3d",
        "index",
        "index_put",
        "index_reduce",
        "lift_fresh_copy",
        "logcumsumexp",
        "masked_scatter",
        "masked_scatter_",
        "masked_select",
        "multinomial",
        "nonzero_static",
        "poisson",
        "rand_like",
        "randint_like",
        "randn_like",
        "repeat_interleave",
        "rrelu_with_noise",
        "rrelu_with_noise_",
        "scatter",
        "scatter_add",
        "scatter_reduce",
        "segment_reduce",
        # Those below have decompositions, which take long to follow and have no products.
        "_adaptive_avg_pool2d",
        "adaptive_max_pool2d",
        "cat",
        "embedding",
        "max_pool2d_with_indices",
        "native_batch_norm",
        "native_dropout",
        "native_group_norm",
        "native_layer_norm",
        "stack",
    }
)
"""Operators that do some operations for each element that they read or write, and that PyTorch does
not mark as such."""
_MARKS = (torch.Tag.pointwise, torch.Tag.reduction, torch.Tag.inplace_view)
_FOR_EACH = 8
"""Operations that an unknown operator has at most, for each of its elements and each place along
its longest dimension: a singular value decomposition of n x n has some 21 n^3 (Golub and Van Loan,
Matrix Computations, section 8.6), on 3 n^2 elements."""


def flops(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: object
) -> float | None:
    """Return the floating-point operations of a call; None where there is no formula."""
    formula = _FORMULAS.get(short_name(func))
    if formula is not None:
        return formula(args, result)
    counted = flop_registry.get(getattr(func, "overloadpacket", func))
    if counted is None:
        return None
    # A complex product is four real ones, and as many additions.
    times = 4 if any(tensor.is_complex() for tensor in tensors(args)) else 1
    return times * float(counted(*args, **kwargs, out_val=result))


def recurrent_flops(given: torch.Tensor, weights: Iterable[torch.Tensor]) -> float:
    """Return those of recurrent layers: each step of a sequence is multiplied by all matrices.

    That holds for LSTM, GRU and plain layers alike, of several layers, both directions and with
    projections: their matrices are of all gates.

    Args:
        given: [..., features], all steps of all sequences.
        weights: of the layers; vectors are biases.
    """
    steps = given.numel() // given.shape[-1]
    return 2.0 * steps * sum(weight.numel() for weight in weights if weight.ndim == 2)


class WorkCounter:
    """Counts the work of operators: by formulas, or by what they consist of."""

    def __init__(self) -> None:
        self._without: set[Any] = set()

    def work(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: object
    ) -> float | None:
        """Return floating-point operations, 0 of what does some for each element; None: unknown."""
        counted = flops(func, args, kwargs, result)
        if counted is not None:
            return counted
        if func in self._without or _is_per_element(func):
            return 0.0
        decomposed = decomposition_table.get(func)
        if decomposed is None:
            return None
        parts = _Parts(self)
        try:
            with parts:
                decomposed(*args, **kwargs)
        except Exception:
            return None
        if parts.work == 0.0:
            self._without.add(func)
        return parts.work


class _Parts(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds the work of the operators that are called while it is entered."""

    def __init__(self, counter: WorkCounter) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.work: float | None = 0.0
        self._counter = counter

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if self.work is not None and func.name().startswith("aten::"):
            work = self._counter.work(func, args, kwargs or {}, result)
            self.work = None if work is None else self.work + work
        return result


def most_work(args: Sequence[Any], result: object) -> float:
    """Return what an operator of which nothing is known has to do at most."""
    touched = list(tensors((*args, result)))
    longest = max((size for tensor in touched for size in tensor.shape), default=1)
    return float(_FOR_EACH * longest * sum(map(numbers, touched)))


def numbers(tensor: torch.Tensor) -> int:
    """Return how many real numbers a tensor has: a complex one is two."""
    return tensor.numel() * (2 if tensor.is_complex() else 1)


def tensors(values: Iterable[object]) -> Iterator[torch.Tensor]:
    """Yield all tensors of arguments, also those in lists."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors(value)


def short_name(func: Any) -> str:
    """Return `mm` of `aten::mm.out`."""
    return str(func.name()).partition(".")[0].removeprefix("aten::")


def _is_per_element(func: Any) -> bool:
    if short_name(func) in _PER_ELEMENT or func.is_view:
        return True
    if any(mark in func.tags for mark in _MARKS):
        return True
    # Where no tensor is given, constants are made.
    return not any("Tensor" in str(argument.type) for argument in func._schema.arguments)  # noqa: SLF001


def _convolution_backward(args: Sequence[Any], result: object) -> float:
    # PyTorch's own count takes the groups of a convolution for one.
    moved, kernel, gradients = args[0], args[2], args[-1]
    return float(2 * sum(gradients[:2]) * moved.numel() * prod(kernel.shape[1:]))


def _fourier(args: Sequence[Any], tensor: torch.Tensor) -> float:
    """Return 5 n log2 n of n complex numbers, half of n real ones, as FFTW's authors count."""
    length = prod(tensor.shape[at] for at in args[1])
    each = 5.0 if tensor.is_complex() else 2.5
    return each * tensor.numel() * log2(max(length, 1))


def _attention(args: Sequence[Any], result: object) -> float:
    shapes = (tensor.shape for tensor in args[:3])
    return float(sdpa_flop_count(*shapes))  # type: ignore[no-untyped-call]


def _attention_backward(args: Sequence[Any], result: object) -> float:
    shapes = (tensor.shape for tensor in args[:4])
    return float(sdpa_backward_flop_count(*shapes))  # type: ignore[no-untyped-call]


def _distances(args: Sequence[Any], result: object) -> float:
    """Return those of all pairs of points: a difference, its power and a sum for each number."""
    return float(3 * args[0].numel() * args[1].shape[-2])


def _trilinear(args: Sequence[Any], result: object) -> float:
    """Return two products and a sum for each place of three tensors that are spread out."""
    shapes = [list(tensor.shape) for tensor in args[:3]]
    for shape, spread in zip(shapes, args[3:6], strict=True):
        for at in sorted(spread):
            shape.insert(at, 1)
    return float(3 * prod(max(sizes) for sizes in zip(*shapes, strict=True)))


_FORMULAS: Mapping[str, Callable[[Sequence[Any], Any], float]] = {
    "convolution_backward": _convolution_backward,
    "_fft_r2c": lambda args, result: _fourier(args, args[0]),
    "_fft_c2r": lambda args, result: _fourier(args, result),
    "_fft_c2c": lambda args, result: _fourier(args, args[0]),
    "_cdist_forward": _distances,
    "_trilinear": _trilinear,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "_scaled_dot_product_fused_attention_overrideable": _attention,
    "mkldnn_rnn_layer": lambda args, result: recurrent_flops(args[0], args[1:5]),
    "_cudnn_rnn": lambda args, result: recurrent_flops(args[0], args[1]),
    "miopen_rnn": lambda args, result: recurrent_flops(args[0], args[1]),
    # Gradients of what they read, and of their matrices.
    "mkldnn_rnn_layer_backward": lambda args, result: 2 * recurrent_flops(args[0], args[1:5]),
    "_cudnn_rnn_backward": lambda args, result: 2 * recurrent_flops(args[0], args[1]),
    "miopen_rnn_backward": lambda args, result: 2 * recurrent_flops(args[0], args[1]),
}
