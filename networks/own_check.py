"""What alters a model's step: what no forecast knows is refused by its name, the rest is told.

Systems that learn from other networks know training in float32, of all parameters, that keeps its
activations. Steps of GPUs are traced as they are: with frozen parameters, half precision and
activations that are computed twice. A compiled step, or one with hooks, nobody traces.

`networks/own_program.py` loads this file where no package of ours may be imported.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.amp.autocast_mode import autocast
from torch.nn.modules import module as module_hooks
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from networks.operator_recorder import OperatorRecorder, tensors
from networks.operator_work import flops

_SINGLE = (torch.float32, torch.complex64)
_HALF = (torch.bfloat16, torch.float16)
_WRAPPERS = ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel", "FSDPModule")
_QUANTIZED = (
    *("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized", "torch.nn.quantized"),
    "bitsandbytes",
)
_HOOKS = ("_backward_hooks", "_backward_pre_hooks")
_SLOPE_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
_MOST_FROZEN = 0.05
"""Part of all parameters that may be frozen, as tables of positions are, without being told."""
CHECKPOINTED = "checkpointed activations"
"""What is told of a step that computes activations again."""
_INSTEAD_OF_IT = "return it in float32, bfloat16 or float16"
_INSTEAD = "no forecast knows what that changes"


class AlteredStep(ValueError):
    """A model trains in a way that no forecast knows; the message says which, and where."""


def check_module(module: torch.nn.Module, batch: Iterable[torch.Tensor], target: str) -> None:
    """Refuse what a module and its batch show before they are run.

    Raises:
        AlteredStep: naming what was seen first, and the submodule.
    """
    for seen in (*_settings(), *_of_batch(batch), *_of_parts(module), *_of_tensors(module)):
        raise AlteredStep(f"{target}: {seen}; {_INSTEAD}")


def _settings() -> Iterator[str]:
    precision = torch.get_float32_matmul_precision()
    if precision != "highest":
        yield f'it sets torch.set_float32_matmul_precision("{precision}"): leave that out'
    if torch.are_deterministic_algorithms_enabled():
        yield "it sets torch.use_deterministic_algorithms: leave that out"


def _of_batch(batch: Iterable[torch.Tensor]) -> Iterator[str]:
    for tensor in batch:
        if _is_other(tensor.dtype):
            yield f"its example batch is {_plain(tensor.dtype)}: {_INSTEAD_OF_IT}"
        if _is_channels_last(tensor):
            yield "its example batch has the memory format channels_last: give it contiguous"


def _of_parts(module: torch.nn.Module) -> Iterator[str]:
    for name, part in module.named_modules():
        where = _where(name, part)
        kinds = {base.__name__ for base in type(part).__mro__}
        if isinstance(part, torch.jit.ScriptModule):
            yield f"{where} is a ScriptModule: return the module that it was made of"
        elif "OptimizedModule" in kinds or vars(part).get("_compiled_call_impl") is not None:
            yield f"{where} is compiled (torch.compile): return it uncompiled"
        elif wrapper := kinds.intersection(_WRAPPERS):
            yield f"{where} is wrapped in {min(wrapper)}: return the module itself"
        elif type(part).__module__.startswith(_QUANTIZED):
            yield (
                f"{where} is quantized ({type(part).__name__}), as of Q-LoRA: return it in bfloat16"
            )
        elif any(vars(part).get(hooks) for hooks in _HOOKS):
            yield f"{where} has hooks in its backward pass: return it without them"


def _of_tensors(module: torch.nn.Module) -> Iterator[str]:
    for kind, held in (
        ("parameter", module.named_parameters()),
        ("buffer", module.named_buffers()),
    ):
        for name, tensor in held:
            if is_lazy(tensor):
                yield f"{kind} {name} has no shape yet: call the model with the batch once before"
            elif _is_other(tensor.dtype) or tensor.is_quantized:
                yield f"{kind} {name} is {_plain(tensor.dtype)}: {_INSTEAD_OF_IT}"
            elif is_traceable_wrapper_subclass(tensor) or tensor.layout != torch.strided:
                yield f"{kind} {name} is no plain tensor ({type(tensor).__name__}, {tensor.layout})"
            elif _is_channels_last(tensor):
                yield f"{kind} {name} has the memory format channels_last: leave it contiguous"
    for name, tensor in module.named_parameters():
        if any(getattr(tensor, hooks, None) for hooks in _SLOPE_HOOKS):
            yield f"parameter {name} has hooks on its gradient: return it without them"


class StepWatch(OperatorRecorder):  # type: ignore[no-untyped-call]
    """Notes what alters a training step, in the forward pass of a module.

    Attributes:
        seen: the first thing that no forecast knows, with the submodule; empty: none.
        altered: what systems that learn from other networks do not know, in words.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.seen = ""
        self.altered = dict.fromkeys(_altered_by_parameters(module))
        self._root = module
        self._names = {id(part): _where(name, part) for name, part in module.named_modules()}
        self._inside: list[str] = []
        self._derived: dict[int, torch.Tensor] = {}

    def check(self, target: str) -> None:
        """Refuse a model whose step has shown something.

        Raises:
            AlteredStep: naming it.
        """
        if self.seen:
            raise AlteredStep(f"{target}: {self.seen}; {_INSTEAD}")

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the module's forward passes."""
        entered = module_hooks.register_module_forward_pre_hook(self._enter)
        left = module_hooks.register_module_forward_hook(self._leave, always_call=True)
        made = autocast.__init__
        autocast.__init__ = self._noting(made)  # type: ignore[method-assign]
        try:
            with self:
                yield
        finally:
            autocast.__init__ = made  # type: ignore[method-assign]
            entered.remove()
            left.remove()
            self._inside.clear()
            self._derived.clear()

    def _noting(self, made: Any) -> Any:
        """Return what makes an autocast and notes it: of a device that is not here it is none."""

        def noting(own: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
            enabled = kwargs.get("enabled", args[1] if len(args) > 1 else True)
            if enabled and self._inside and not self.seen:
                self.seen = f"{self._inside[-1]} runs under autocast ({device_type}): leave it out"
            made(own, device_type, *args, **kwargs)

        return noting

    def _enter(self, part: torch.nn.Module, args: tuple[object, ...]) -> None:
        if part is self._root:
            self._derived.update((id(tensor), tensor) for tensor in tensors(args))
        if self._inside or part is self._root:
            self._inside.append(self._names.get(id(part), type(part).__name__))

    def _leave(self, part: torch.nn.Module, args: object, result: object) -> None:
        if self._inside:
            self._inside.pop()

    def note(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return what an operator makes; note what alters the step."""
        result = func(*args, **kwargs)
        if self._inside and not self.seen and func.name().startswith("aten::"):
            reason = self._refusal(func, args, kwargs, result)
            self.seen = f"{self._inside[-1]} {reason}" if reason else ""
        elif not self.seen and any(
            tensor.layout is torch.sparse_coo for tensor in tensors((result,))
        ):
            self.seen = "it has sparse gradients: leave sparse=True out of its embeddings"
        return result

    def _refusal(
        self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: object
    ) -> str:
        """Return why no forecast knows an operator, empty: one does; note what alters the step."""
        given = (id(tensor) for tensor in tensors((*args, *kwargs.values())))
        # What depends on the batch; of that, what is a matrix product or the like.
        if derived := any(tensor_id in self._derived for tensor_id in given):
            self._derived.update((id(tensor), tensor) for tensor in tensors((result,)))
        counts = derived and bool(flops(func, args, kwargs, result))
        if kinds := [device for device in ("cpu", "cuda") if torch.is_autocast_enabled(device)]:
            return f"runs under autocast ({kinds[0]}): leave it out"
        packed = torch._C._autograd._top_saved_tensors_default_hooks(True)  # noqa: SLF001
        recorded = torch.is_grad_enabled()
        if (packed is not None or not recorded) and _is_called_from("torch/utils/checkpoint.py"):
            self.altered[CHECKPOINTED] = None
        elif packed is not None:
            return "has hooks on saved tensors (torch.autograd.graph): leave them out"
        # What a torch.autograd.Function computes has a backward pass of its own.
        elif counts and not recorded and not _is_called_from("torch/autograd/function.py"):
            self.altered["layers without gradients"] = None
        if _is_called_from("torch/_dynamo/eval_frame.py", "compile_wrapper"):
            return "calls a compiled function (torch.compile): call it uncompiled"
        if not derived:
            return ""
        dtypes = [tensor.dtype for tensor in tensors((result,))]
        if any(dtype in _HALF for dtype in dtypes):
            self.altered["half precision"] = None
        other = [_plain(dtype) for dtype in dtypes if _is_other(dtype)]
        return f"computes in {other[0]}: let it compute in float32" if other else ""


def _altered_by_parameters(module: torch.nn.Module) -> Iterator[str]:
    """Yield what the parameters of a module show of how it is trained."""
    counts = {True: 0, False: 0}
    for parameter in module.parameters():
        counts[parameter.requires_grad] += parameter.numel()
    if counts[False] > _MOST_FROZEN * sum(counts.values()):
        yield "frozen parameters"
    if any(parameter.dtype in _HALF for parameter in module.parameters()):
        yield "half precision"


def _is_called_from(file: str, function: str = "") -> bool:
    """Tell whether a function of a file waits for the present call; any of it if none is named."""
    frame = sys._getframe()  # noqa: SLF001
    while frame is not None:
        code = frame.f_code
        if code.co_filename.endswith(file) and function in ("", code.co_name):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _is_other(dtype: torch.dtype) -> bool:
    """Tell whether numbers of a type are neither whole nor of single or half precision."""
    return (dtype.is_floating_point or dtype.is_complex) and dtype not in (*_SINGLE, *_HALF)


def _is_channels_last(tensor: torch.Tensor) -> bool:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    other = formats.get(tensor.ndim)
    if other is None or tensor.layout != torch.strided or tensor.is_contiguous():
        return False
    return tensor.is_contiguous(memory_format=other)


def _where(name: str, part: torch.nn.Module) -> str:
    return f"submodule {name} ({type(part).__name__})" if name else f"the {type(part).__name__}"


def _plain(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
