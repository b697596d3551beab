"""How much PyTorch's operators have to do.

Work is floating-point operations of matrix products and convolutions, a multiplication and an
addition each as one, as PyTorch's `FlopCounterMode` counts. Of operators that it does not know,
recurrent ones and Fourier transforms have formulas here, others are taken apart by PyTorch's own
tables of decompositions. Complex products count as the real ones that they consist of.

`networks/own_program.py` loads this file where no package of ours may be imported.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from math import log2, prod
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch.utils.flop_counter import flop_registry

from networks.operator_recorder import OperatorRecorder, is_work, kernel_in_parts, tensors

_PER_ELEMENT = frozenset(
    {
        "_adaptive_avg_pool3d",
        "_embedding_bag",
        "_embedding_bag_forward_only",
        "_is_all_true",
        "_is_any_true",
        "_masked_scale",
        "_pack_padded_sequence",
        "_reshape_copy",
        "_safe_softmax",
        "_to_dense",
        "_upsample_bicubic2d_aa",
        "_upsample_bilinear2d_aa",
        "_upsample_lanczos2d_aa",
        "adaptive_max_pool3d",
        "addr",
        "avg_pool2d",
        "avg_pool3d",
        "bernoulli",
        "bernoulli_",
        "binary_cross_entropy_with_logits",
        "bincount",
        "bucketize",
        "col2im",
        "copy",
        "copy_",
        "cummax",
        "cummin",
        "fractional_max_pool2d",
        "fractional_max_pool3d",
        "full_like",
        "gather",
        "grid_sampler_2d",
        "grid_sampler_3d",
        "histc",
        "im2col",
        "index",
        "index_put",
        "index_reduce",
        "isclose",
        "isin",
        "kthvalue",
        "lift_fresh_copy",
        "linalg_cross",
        "logcumsumexp",
        "lu_unpack",
        "masked_scatter",
        "masked_scatter_",
        "masked_select",
        "max_pool3d_with_indices",
        "median",
        "mode",
        "multi_margin_loss",
        "multilabel_margin_loss_forward",
        "multinomial",
        "nanmedian",
        "nonzero_static",
        "poisson",
        "put_",
        "rand_like",
        "randint_like",
        "randn_like",
        "repeat_interleave",
        "rrelu_with_noise",
        "rrelu_with_noise_",
        "scatter",
        "scatter_add",
        "scatter_reduce",
        "searchsorted",
        "segment_reduce",
        "sort",
        "take",
        "topk",
        "trace",
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
    # A complex product is four real ones, and as many additions.
    times = 4 if any(tensor.is_complex() for tensor in tensors(args)) else 1
    name = short_name(func)
    if (formula := _FORMULAS.get(name)) is not None:
        return formula(args, result) * (1 if name.startswith("_fft") else times)
    if name in _ATTENTION:
        return _attention(_by_name(func, args, kwargs))
    counted = flop_registry.get(getattr(func, "overloadpacket", func))
    return None if counted is None else times * float(counted(*args, **kwargs, out_val=result))


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
        if func in self._without:
            return 0.0
        counted = flops(func, args, kwargs, result)
        if counted is not None:
            return counted
        if _is_per_element(func):
            self._without.add(func)
            return 0.0
        decomposed = decomposition_table.get(func) or kernel_in_parts(func)
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


class _Parts(OperatorRecorder):  # type: ignore[no-untyped-call]
    """Adds the work of the operators that are called while it is entered."""

    def __init__(self, counter: WorkCounter) -> None:
        super().__init__()
        self.work: float | None = 0.0
        self._counter = counter

    def note(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return what an operator makes, and add its work."""
        result = func(*args, **kwargs)
        if self.work is not None and is_work(func):
            work = self._counter.work(func, args, kwargs, result)
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


def short_name(func: Any) -> str:
    """Return `mm` of `aten::mm.out`."""
    return str(func.name()).partition(".")[0].removeprefix("aten::")


@cache
def _is_per_element(func: Any) -> bool:
    name = short_name(func)
    if name in _PER_ELEMENT or func.is_view:
        return True
    # Gradients of operators that have formulas have some, too.
    if func.namespace == "aten" and name.endswith("_backward"):
        return True
    if any(mark in func.tags for mark in _MARKS):
        return True
    # Where no tensor is given, constants are made.
    return not any("Tensor" in str(argument.type) for argument in func._schema.arguments)  # noqa: SLF001


def _by_name(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of a call by name, with defaults of those that are not given."""
    schema = func._schema.arguments  # noqa: SLF001
    defaults = {argument.name: argument.default_value for argument in schema}
    given = zip(defaults, args, strict=False)
    return {**defaults, **dict(given), **kwargs}


def _convolution_backward(args: Sequence[Any], result: object) -> float:
    # PyTorch's own count takes the groups of a convolution for one.
    slope, given, kernel, is_transposed, gradients = *args[:3], args[7], args[-1]
    moved = given if is_transposed else slope
    return float(2 * sum(gradients[:2]) * moved.numel() * prod(kernel.shape[1:]))


def _fourier(args: Sequence[Any], tensor: torch.Tensor) -> float:
    """Return 5 n log2 n of n complex numbers, half of n real ones, as FFTW's authors count."""
    length = prod(tensor.shape[at] for at in args[1])
    each = 5.0 if tensor.is_complex() else 2.5
    return each * tensor.numel() * log2(max(length, 1))


def _attention(given: Mapping[str, Any]) -> float:
    """Return those of two products, of five backward; causal ones skip what is not seen."""
    query, key, value = (given[name].shape for name in ("query", "key", "value"))
    length, keys = query[-2], key[-2]
    seen = length * keys
    if given["is_causal"]:
        whole = min(length, keys)
        seen = whole * (whole + 1) // 2 + (length - whole) * keys
    sizes = query[-1] + value[-1]
    if "grad_out" in given:
        sizes = 3 * query[-1] + 2 * value[-1]
    return float(2 * prod(query[:-2]) * seen * sizes)


def _grouped(args: Sequence[Any], result: Any) -> float:
    """Return those of products of experts: each row of one side is multiplied by one matrix."""
    left, right = args[0].shape, args[1].shape
    return float(2 * prod(left) * right[-1])


def _distances(args: Sequence[Any], result: object) -> float:
    """Return those of all pairs of points: a difference, its power and a sum for each number."""
    return float(3 * args[0].numel() * args[1].shape[-2])


_ATTENTION = frozenset(
    f"_scaled_dot_product_{kind}{direction}"
    for kind in ("flash_attention_for_cpu", "fused_attention_overrideable")
    for direction in ("", "_backward")
)


def _trilinear(args: Sequence[Any], result: object) -> float:
    """Return those of two products: of the first two tensors, and of what they make and the third.

    Tensors are spread out to a common shape; a product sums what the other does not need.
    """
    spread, summed = [set(places) for places in args[3:6]], set(args[6])
    sizes = [1] * max(place + 1 for places in (*spread, summed) for place in places)
    sizes += [1] * (args[0].ndim + len(spread[0]) - len(sizes))
    for tensor, places in zip(args[:3], spread, strict=True):
        own = iter(tensor.shape)
        for place in range(len(sizes)):
            sizes[place] = max(sizes[place], 1 if place in places else next(own))
    left_out = (spread[0] & spread[1], summed & spread[2])
    return 2.0 * sum(
        prod([size for place, size in enumerate(sizes) if place not in places])
        for places in left_out
    )


_FORMULAS: Mapping[str, Callable[[Sequence[Any], Any], float]] = {
    "convolution_backward": _convolution_backward,
    "_fft_r2c": lambda args, result: _fourier(args, args[0]),
    "_fft_c2r": lambda args, result: _fourier(args, result),
    "_fft_c2c": lambda args, result: _fourier(args, args[0]),
    "_cdist_forward": _distances,
    "_cdist_backward": lambda args, result: _distances(args[1:], result),
    "_grouped_mm": _grouped,
    "_trilinear": _trilinear,
    "mkldnn_rnn_layer": lambda args, result: recurrent_flops(args[0], args[1:5]),
    "_cudnn_rnn": lambda args, result: recurrent_flops(args[0], args[1]),
    # Gradients of what they read, and of their matrices.
    "mkldnn_rnn_layer_backward": lambda args, result: 2 * recurrent_flops(args[0], args[1:5]),
    "_cudnn_rnn_backward": lambda args, result: 2 * recurrent_flops(args[0], args[1]),
}
