"""The operators of a training step as a GPU would be asked for them, traced without a GPU.

Tensors are fake: they have shapes and types, and no values. They say that they are on a processor,
for a PyTorch without CUDA refuses fake CUDA tensors in places (indexing, streams of backward).
Where the two devices differ, the GPU's behaviour is put in place:

* autocast casts what CUDA's autocast casts (its list of operators in float32 is longer),
* dropout is one operator, `native_dropout`,
* attention is one operator, unless in float32 with grouped queries, which PyTorch takes apart;
  a mask of truths becomes what is added to scores,
* recurrent layers are one operator each way, cuDNN's, however many steps their sequences have,
* a value that is asked for (`.item()`) is known or made up, as `networks.known_values` says,
* operators that somebody wrote in Python (`torch.library.custom_op`) are those that they call,
* bilinear layers are the products that PyTorch loops over,
* a mask that `transformers` makes only while it is traced is left out, as attention is causal then.

Where precision is of all (`bfloat16-true`), parameters, buffers and batch are cast before, as
FullyShardedDataParallel casts its units and a whole module once, and nothing is cast by autocast.

`networks.gpu_recorder` notes what is asked for.

`networks/own_program.py` loads this file where no package of ours may be imported.
"""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal

import torch
from torch.nn.functional import cross_entropy
from torch.utils import checkpoint

from networks.gpu_recorder import Recorder
from networks.operator_recorder import RECURRENT, replaced
from networks.operator_work import numbers
from networks.own_torch import exchange_tensors

Precision = Literal["float32", "bfloat16", "float16", "bfloat16-true", "float16-true"]
_IN_FLOAT32 = (
    "layer_norm",
    "native_layer_norm",
    "group_norm",
    "pow.Tensor_Scalar",
    "pow.Tensor_Tensor",
    "pow.Scalar",
    "exp",
    "log",
    "rsqrt",
    "reciprocal",
    "softplus",
    "norm.Scalar",
    "softmax.int",
    "log_softmax.int",
    "sum",
    "sum.dim_IntList",
    "cumsum",
    "prod",
)
"""What CUDA's autocast computes in float32 and the processor's does not (autocast_mode.cpp)."""
_HALF = (torch.bfloat16, torch.float16)
_DROPOUT: Any = torch.nn.functional.dropout
_SCALED_DOT_PRODUCT_ATTENTION: Any = torch.nn.functional.scaled_dot_product_attention
Fields = dict[str, Any]
"""Of `networks.gpu_steps.GpuStep`."""


def trace_step(
    module: torch.nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    precision: Precision = "float32",
    most: int | None = None,
    *,
    keeps_activations: bool = False,
) -> Fields:
    """Return the operators of forward and backward of a module of fake tensors.

    The loss is the module's `loss_of`, else the cross-entropy of what it returns.

    Args:
        module: made under a `FakeTensorMode`, which has to be entered.
        images: the batch, which is in memory all the time.
        labels: of its samples.
        precision: of autocast, under which parameters keep their type; or of all.
        most: operators that there may be.
        keeps_activations: as if nothing were checkpointed.

    Raises:
        ValueError: there are more.
    """
    recorder = Recorder(most)
    name, _, is_of_all = precision.partition("-")
    dtype = getattr(torch, name)
    as_made = list(module.parameters())
    with ExitStack() as stack:
        inputs = getattr(module, "inputs", [])
        if is_of_all:

            def cast(tensor: torch.Tensor) -> torch.Tensor:
                return tensor.detach().to(dtype) if tensor.is_floating_point() else tensor

            stack.callback(exchange_tensors(module, cast))
            stack.callback(inputs.__setitem__, slice(None), inputs[:])
            images, inputs[:] = cast(images), list(map(cast, inputs))
        for standing in (*module.buffers(), images, *inputs[1:], labels):
            recorder.hold(standing)
        recorder.parameters.update(map(recorder.hold, module.parameters()))
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        for parameter in trained:
            hooked: Any = parameter
            stack.callback(hooked.register_post_accumulate_grad_hook(recorder.note_gradient).remove)
        stack.enter_context(_cuda_lists())
        stack.enter_context(recorder)
        stack.enter_context(_as_on_gpu(recorder, keeps_activations=keeps_activations))
        # What trains in half precision does so by itself.
        is_full = any(parameter.dtype not in _HALF for parameter in trained)
        is_autocast = dtype in _HALF and not is_of_all and is_full
        with torch.autocast("cpu", dtype if is_autocast else torch.bfloat16, is_autocast):
            loss = getattr(module, "loss_of", cross_entropy)(module(images), labels)
        forward = len(recorder.calls)
        torch.autograd.backward([loss])
        # No optimizer keeps anything of a parameter that gets no gradient.
        has_slope = [parameter.grad is not None for parameter in module.parameters()]
    for parameter in trained:
        parameter.grad = None
    slopes = list(zip(as_made, has_slope, strict=True))
    return {
        "operators": list(recorder.operators),
        "order": [number for number, _ in recorder.calls],
        "parameters": [_flat(each) for each, has_slope in slopes if has_slope],
        "frozen": [_flat(each) for each, has_slope in slopes if not has_slope],
        **recorder.memory(),
        "units": _units(module),
        "flow": recorder.flow(forward),
        "digest": recorder.digest.hexdigest(),
    }


def _flat(parameter: torch.Tensor) -> tuple[tuple[int], str]:
    """Return shape and type of a parameter's real numbers side by side."""
    real = parameter.real.dtype if parameter.is_complex() else parameter.dtype
    return (numbers(parameter),), str(real).removeprefix("torch.")


def _units(module: torch.nn.Module) -> list[int]:
    """Return elements of each unit that shards gather at once; first of what is in none.

    Units are layers of the outermost lists of modules, as wrapping policies of
    FullyShardedDataParallel choose them; of a network without lists, the parts that it has.
    """
    units, parts = list(_layers(module)), list(module.children())
    while not units and len(parts) == 1:
        parts = list(parts[0].children())
    known, sizes = set[torch.nn.Parameter](), list[int]()
    for unit in (*(units or parts), module):
        new = set(unit.parameters()) - known
        known |= new
        sizes.append(sum(each.numel() for each in new))
    return [sizes.pop(), *filter(None, sizes)]


def _layers(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    lists = (torch.nn.ModuleList, torch.nn.Sequential)
    for child in module.children():
        if isinstance(module, lists) and not isinstance(child, lists):
            yield child
        else:
            yield from _layers(child)


@contextmanager
def _cuda_lists() -> Iterator[None]:
    """Make the processor's autocast compute in float32 what CUDA's does."""
    autocast_keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)  # noqa: SLF001
    with torch.library._scoped_library("aten", "IMPL") as library:  # noqa: SLF001
        for name in _IN_FLOAT32:
            packet, _, overload = name.partition(".")
            operator = getattr(getattr(torch.ops.aten, packet), overload or "default")

            def in_float32(*args: Any, operator: Any = operator, **kwargs: Any) -> Any:
                raised = [
                    value.float()
                    if isinstance(value, torch.Tensor) and value.dtype in _HALF
                    else value
                    for value in args
                ]
                with torch._C._ExcludeDispatchKeyGuard(autocast_keys):  # noqa: SLF001
                    return operator(*raised, **kwargs)

            library.impl(name, in_float32, "AutocastCPU")
        yield


def _as_on_gpu(recorder: Recorder, *, keeps_activations: bool) -> AbstractContextManager[None]:
    """Replace functions that a GPU does in other operators than a processor, wherever named.

    A mode of PyTorch would not see what its own functions call, nor what checkpointing runs again.
    """
    functions: list[tuple[dict[str, Any], str, Any]] = [
        (vars(module), name, function)
        for name, original, function in (
            ("dropout", _DROPOUT, _dropout),
            ("scaled_dot_product_attention", _SCALED_DOT_PRODUCT_ATTENTION, _attention),
        )
        for module in list(sys.modules.values())
        if getattr(module, "__dict__", {}).get(name) is original
    ]
    recurrent = partial(_recurrent, recorder)
    functions += [(vars(torch._VF), name, recurrent) for name in RECURRENT]  # noqa: SLF001
    # While it is traced, transformers makes masks for attention that is causal without.
    if (library := sys.modules.get("transformers.utils.import_utils")) is not None:
        functions.append((vars(library), "is_fake_tensor", lambda _: False))
    if keeps_activations:
        at_once = SimpleNamespace(apply=lambda function, _, *args: function(*args))
        without = "_checkpoint_without_reentrant_generator"
        functions.append((vars(checkpoint), "CheckpointFunction", at_once))
        functions.append((vars(checkpoint), without, lambda *_, **__: iter([None])))
    return replaced(functions)


def _dropout(
    given: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> torch.Tensor:
    return torch.native_dropout(given, p, True)[0] if training and p else given


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    if torch.is_autocast_enabled("cpu"):
        half = torch.get_autocast_dtype("cpu")
        query, key, value = (tensor.to(half) for tensor in (query, key, value))
        if attn_mask is not None and attn_mask.is_floating_point():
            attn_mask = attn_mask.to(half)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        # What kernels add to scores is made for each call, and kept for backward.
        attn_mask = torch.where(attn_mask, 0.0, attn_mask.new_tensor(-torch.inf, dtype=query.dtype))
    if query.ndim != 4:
        # Its kernels have dimensions for batch, heads, words and features.
        shape = query.shape[:-1]
        query, key, value = map(_of_four_dimensions, (query, key, value))
        mask = None if attn_mask is None else _of_four_dimensions(attn_mask)
        attended = _attention(query, key, value, mask, dropout_p, is_causal, scale, enable_gqa)
        return attended.reshape(*shape, value.shape[-1])
    grouped = enable_gqa and query.shape[1] != key.shape[1]
    if grouped and query.dtype == torch.float32:
        return _in_parts(query, key, value, attn_mask, is_causal, scale)
    fused = torch.ops.aten._scaled_dot_product_fused_attention_overrideable  # noqa: SLF001
    return torch.as_tensor(
        fused(query, key, value, attn_mask, dropout_p, is_causal, False, scale=scale)[0]
    )


def _of_four_dimensions(tensor: torch.Tensor) -> torch.Tensor:
    """Return [batch, heads, words, features] of what may lack dimensions in front, or have more."""
    for _ in range(4 - tensor.ndim):
        tensor = tensor.unsqueeze(-3 if tensor.ndim > 2 else 0)
    return tensor.flatten(0, -4)


def _recurrent(recorder: Recorder, given: torch.Tensor, *args: Any) -> Any:
    """Return results and last states of recurrent layers, as `torch.nn.RNNBase` asks for them.

    Raises:
        ValueError: sequences are packed.
    """
    started, weights, *rest = args
    # The sizes of packed batches come before the states; tracing knows no values.
    if isinstance(rest[0], list | tuple):
        raise ValueError(
            "its training step packs sequences, of lengths that tracing cannot know; give padded "
            "ones of equal length"
        )
    states = [started] if isinstance(started, torch.Tensor) else list(started)
    tensors = [given, *states, *weights]
    if torch.is_autocast_enabled("cpu"):
        half = torch.get_autocast_dtype("cpu")
        tensors = [tensor.to(half) for tensor in tensors]
    directions = 2 if rest[4] else 1
    made: Any = _Recurrent.apply(recorder, directions, len(states), *tensors)  # type: ignore[no-untyped-call]
    return made


class _Recurrent(torch.autograd.Function):
    """cuDNN's recurrent layers: one operator forward, one backward."""

    @staticmethod
    def forward(
        ctx: Any, recorder: Recorder, directions: int, states: int, *tensors: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        given, *others = tensors
        started, weights = others[:states], others[states:]
        with recorder.aside():
            made = given.new_empty((*given.shape[:-1], directions * started[0].shape[-1]))
            last = [torch.empty_like(state) for state in started]
            # What cuDNN keeps for backward: the gates of all steps.
            gates = weights[0].shape[0] * started[0].shape[0]
            reserve = given.new_empty((given.numel() // given.shape[-1], gates))
        ctx.recorder = recorder
        ctx.save_for_backward(*tensors, reserve)
        recorder.add("_cudnn_rnn", tensors, (made, *last, reserve))
        return (made, *last)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> tuple[Any, ...]:
        *tensors, _reserve = ctx.saved_tensors
        with ctx.recorder.aside():
            slopes = [torch.empty_like(tensor) for tensor in tensors]
        ctx.recorder.add("_cudnn_rnn_backward", tensors, slopes)
        return (None, None, None, *slopes)


def _in_parts(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    is_causal: bool,
    scale: float | None,
) -> torch.Tensor:
    """Attention by products and a softmax, as `_scaled_dot_product_attention_math` does it."""
    times = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
    root = (scale or query.shape[-1] ** -0.5) ** 0.5
    scores = (query * root) @ (key * root).transpose(-2, -1)
    if is_causal:
        seen = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril()
        mask = torch.zeros_like(seen, dtype=query.dtype).masked_fill(~seen, float("-inf"))
    if mask is not None:
        scores = scores + mask
    shares: torch.Tensor = torch.ops.aten._safe_softmax(scores, -1)  # noqa: SLF001
    return shares @ value
