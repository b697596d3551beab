"""The graph of primitive operations of a PyTorch module; needs PyTorch and nothing of this project.

The forward pass runs once with tensors that have shapes and no values (PyTorch's fake tensors), so
any Python in it is followed as it runs. Each operator below automatic differentiation is a node, or
part of the edge between others: activations and changes of shape. Where a module asks for values of
its tensors there is no graph, and the operator that asked is named.

`networks/own_program.py` loads this file where no package of ours may be imported.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

_OF_ANY_KIND: Mapping[str, str] = {
    "addmm": "linear",
    "mm": "linear",
    "linear": "linear",
    "bmm": "matmul",
    "baddbmm": "matmul",
    "matmul": "matmul",
    "native_layer_norm": "layer_norm",
    "native_group_norm": "layer_norm",
    "_fused_rms_norm": "layer_norm",
    "max_pool2d_with_indices": "max_pool",
    "max_pool2d": "max_pool",
    "avg_pool2d": "avg_pool",
    "_adaptive_avg_pool2d": "global_pool",
    "embedding": "embedding",
    "cat": "concat",
    "stack": "concat",
}
_ARITHMETIC = {"add": "sum", "sub": "sum", "mul": "product", "div": "product"}
_WITH_PARAMETER = {"sum": "bias", "product": "scale"}
Fields = dict[str, Any]


class CannotTrace(ValueError):
    """A module has no graph; the message names the operator where it ended."""


def fields_of(
    module: torch.nn.Module,
    example: Sequence[torch.Tensor],
    dnn: str,
    image_size: int,
    batch_size: int,
    by_name: Mapping[str, torch.Tensor] | None = None,
) -> Fields:
    """Return the fields of `networks.primitives.PrimitiveGraph` of a module.

    Args:
        module: with fake parameters, or in a mode that takes real ones for such.
        example: what it is called with, a batch.
        dnn: its name.
        image_size: side of its images, pixels; 0 if it takes none.
        batch_size: of the example; figures of nodes are those of one image.
        by_name: the rest of the batch, arguments that are given by name.

    Raises:
        CannotTrace: an operator needs values, or knows no fake tensors.
    """
    by_name = by_name or {}
    recorder = _Recorder(module, (*example, *by_name.values()), batch_size)
    try:
        with torch.no_grad(), recorder:
            module(*example, **by_name)
    except Exception as error:
        raise CannotTrace(f"{dnn}: {_ended(error, recorder.last)}") from error
    return {
        "dnn": dnn,
        "image_size": image_size,
        "nodes": recorder.nodes,
        "edges": sorted(set(recorder.edges)),
        "parameter_count": sum(one.numel() for one in module.parameters() if one.requires_grad),
    }


def _ended(error: Exception, operator: str) -> str:
    """Say why a forward pass ended, and what to do about it."""
    told = _first_line(error)
    if isinstance(error, _OF_VALUES):
        return (
            f"no graph, its forward pass asks for values of its tensors ({operator}: {told}); "
            "let it decide by shapes only"
        )
    return (
        f"its forward pass failed after {operator} ({told}); call the module with the example "
        "batch yourself until that works"
    )


_OF_VALUES = (DataDependentOutputException, DynamicOutputShapeException)


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes primitives and which results each reads, while it is entered.

    Tensors are told apart by identity; all are kept, so that none takes the place of another.
    """

    def __init__(
        self, module: torch.nn.Module, example: Sequence[torch.Tensor], batch_size: int
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.nodes: list[Fields] = []
        self.edges: list[tuple[int, int]] = []
        self.last = "its start"
        self._batch_size = batch_size
        self._parameters = {id(one): one.numel() for one in module.parameters()}
        self._made_by: dict[int, int] = {}
        self._kept: list[object] = []
        self._add("input", (), example, elements=self._per_image(example))

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        self.last = func.name().partition(".")[0]
        result = func(*args, **kwargs)
        given, made = list(_tensors((*args, *kwargs.values()))), list(_tensors((result,)))
        self._kept.append((given, made))
        known = (self._made_by.get(id(one)) for one in given)
        sources = list(dict.fromkeys(one for one in known if one is not None))
        read = sum({id(one): self._parameters.get(id(one), 0) for one in given}.values())
        if not sources:
            # Views of parameters are parameters; anything else is a constant.
            self._parameters.update((id(one), read) for one in made)
            return result
        kind = _kind(self.last.removeprefix("aten::"), args, len(sources), read)
        if kind is None:
            self._made_by.update((id(one), sources[0]) for one in made)
            return result
        counted = flop_registry.get(func.overloadpacket)
        flops = 0.0 if counted is None else float(counted(*args, **kwargs, out_val=result))
        biased, elements = _bias_of(self.last, args), self._per_image(made[:1])
        self._add(
            kind,
            sources,
            made,
            parameters=read - biased,
            flops=flops / self._batch_size,
            elements=elements,
            kernel=_kernel(kind, args),
        )
        if biased:
            source = len(self.nodes) - 1
            self._add("bias", [source], made, parameters=biased, elements=elements)
        return result

    def _add(
        self,
        kind: str,
        sources: Iterable[int],
        made: Iterable[torch.Tensor],
        *,
        elements: int,
        parameters: int = 0,
        flops: float = 0.0,
        kernel: int = 0,
    ) -> None:
        place = len(self.nodes)
        self.nodes.append(
            {
                "type": kind,
                "parameters": parameters,
                "flops": flops,
                "output_elements": elements,
                "kernel": kernel,
            }
        )
        self.edges += [(source, place) for source in sources]
        self._made_by.update((id(one), place) for one in made)

    def _per_image(self, tensors: Iterable[torch.Tensor]) -> int:
        return sum(one.numel() for one in tensors) // self._batch_size


def _kind(name: str, args: tuple[Any, ...], sources: int, parameters: int) -> str | None:
    """Return the primitive of an operator; None: it is a part of the edge between others."""
    if name == "convolution":
        return _convolution(args)
    if "batch_norm" in name:
        return "batch_norm"
    if "scaled_dot_product" in name:
        return "attention"
    if name in ("addmm", "mm", "linear") and not parameters:
        return "matmul"
    if name in _OF_ANY_KIND:
        return _OF_ANY_KIND[name]
    if name == "mean" and isinstance(args[0], torch.Tensor) and args[0].ndim == 4:
        return "global_pool"
    arithmetic = _ARITHMETIC.get(name.rstrip("_"))
    if arithmetic is not None and parameters:
        return _WITH_PARAMETER[arithmetic]
    if sources < 2:
        return "other" if parameters else None
    return arithmetic or "other"


def _convolution(args: tuple[Any, ...]) -> str:
    weight, dilation, groups = args[1], args[5], args[8]
    if groups > 1:
        return "depthwise_conv" if weight.shape[1] == 1 else "group_conv"
    return "dilated_conv" if any(one > 1 for one in dilation) else "conv"


def _bias_of(name: str, args: tuple[Any, ...]) -> int:
    """Return how many parameters an operator adds to its result: of nodes of their own."""
    place = {"aten::convolution": 2, "aten::addmm": 0, "aten::linear": 2}.get(name)
    bias = args[place] if place is not None and len(args) > place else None
    # The first argument of addmm may be no parameter, but a matrix.
    return bias.numel() if isinstance(bias, torch.Tensor) and bias.ndim == 1 else 0


def _kernel(kind: str, args: tuple[Any, ...]) -> int:
    if kind.endswith("conv"):
        return prod(args[1].shape[2:])
    if kind in ("max_pool", "avg_pool"):
        return prod(args[1])
    return 0


def _tensors(values: Iterable[object]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _first_line(error: Exception) -> str:
    told = str(error).strip().splitlines()
    return f"{type(error).__name__}: {told[0]:.200}" if told else type(error).__name__
