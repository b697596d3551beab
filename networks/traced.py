"""The graph of primitive operations of a PyTorch module; needs PyTorch and `operator_work`.

The forward pass runs once with tensors that have shapes and no values (PyTorch's fake tensors), so
any Python in it is followed as it runs. Each operator below automatic differentiation is a node, or
part of the edge between others: activations and changes of shape. Where a module asks for values of
its tensors there is no graph, and the operator that asked is named. A recurrent layer is one node,
whether PyTorch has an operator for it or runs its steps one by one.

`networks/own_program.py` loads this file where no package of ours may be imported.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

from networks.operator_recorder import RECURRENT, OperatorRecorder, replaced, tensors
from networks.operator_work import WorkCounter, most_work, numbers, recurrent_flops, short_name
from networks.own_function import first_line

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


class TracedForward(NamedTuple):
    """What a forward pass told.

    Attributes:
        graph: fields of `networks.primitives.PrimitiveGraph`.
        unknown_flops: by operator, what those without known work have to do at most, of one image.
        unmeasured: operators that are nodes for their work alone, counted by formulas: recurrent
            layers, Fourier transforms. No network of ours has such.
    """

    graph: Fields
    unknown_flops: dict[str, float]
    unmeasured: list[str]


class CannotTrace(ValueError):
    """A module has no graph; the message names the operator where it ended."""


def fields_of(
    module: torch.nn.Module,
    example: Sequence[torch.Tensor],
    dnn: str,
    image_size: int,
    batch_size: int,
    by_name: Mapping[str, torch.Tensor] | None = None,
) -> TracedForward:
    """Return the graph of a module.

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
    recorder = _PrimitiveRecorder(module, (*example, *by_name.values()), batch_size)
    # A processor has an operator for LSTMs alone, a GPU for all; others are unrolled.
    recurrent = [(vars(torch._VF), name, _recorded(recorder, name)) for name in RECURRENT]  # noqa: SLF001
    try:
        with torch.no_grad(), recorder, replaced(recurrent):
            module(*example, **by_name)
    except Exception as error:
        raise CannotTrace(f"{dnn}: {_ended(error, recorder.last)}") from error
    graph = {
        "dnn": dnn,
        "image_size": image_size,
        "nodes": recorder.nodes,
        "edges": sorted(set(recorder.edges)),
        "parameter_count": sum(numbers(each) for each in module.parameters() if each.requires_grad),
    }
    unknown = {name: flops / batch_size for name, flops in recorder.unknown_flops.items()}
    return TracedForward(graph, unknown, list(dict.fromkeys(recorder.unmeasured)))


def _ended(error: Exception, operator: str) -> str:
    """Say why a forward pass ended, and what to do about it."""
    message = first_line(error)
    if isinstance(error, _OF_VALUES):
        return (
            f"no graph, its forward pass asks for values of its tensors ({operator}: {message}); "
            "let it decide by shapes only"
        )
    shown = f"{operator} {message}"
    hint = next((hint for words, hint in _HINTS.items() if words in shown), _HINT)
    return f"its forward pass failed after {operator} ({message}); {hint}"


_HINT = "call the module with the example batch yourself until that works"
_HINTS = {
    "_grouped_mm": "experts that take rows by values have no graph; give each a fixed number of "
    "rows, in a function of your own",
    "nested": "nested tensors have no graph; pad sequences to one length",
    "shape_env": "nested tensors have no graph; pad sequences to one length",
    "same device": "leave the model, and what its forward pass makes, on the processor of its "
    "batch, as by device=x.device",
    "CUDA": "leave the model, and what its forward pass makes, on the processor",
}
"""What to do, by words of an operator or of an error; they are not the user's mistakes alone."""
_OF_VALUES = (DataDependentOutputException, DynamicOutputShapeException)


class _PrimitiveRecorder(OperatorRecorder):  # type: ignore[no-untyped-call]
    """Notes primitives and which results each reads, while it is entered.

    Tensors are told apart by identity; all are kept, so that none takes the place of another.
    """

    device = "cpu"

    def __init__(
        self, module: torch.nn.Module, example: Sequence[torch.Tensor], batch_size: int
    ) -> None:
        super().__init__()
        self.nodes: list[Fields] = []
        self.edges: list[tuple[int, int]] = []
        self.notes = (self.nodes, self.edges)
        self.last = "its start"
        self.unknown_flops: defaultdict[str, float] = defaultdict(float)
        self.unmeasured: list[str] = []
        self._batch_size = batch_size
        self._counter = WorkCounter()
        self._parameters = {id(parameter): numbers(parameter) for parameter in module.parameters()}
        self._made_by: dict[int, int] = {}
        self._kept: list[object] = []
        self._add("input", (), example, elements=self._per_image(example))

    def note(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return what an operator makes; note its primitive, if it is one."""
        self.last = func.name().partition(".")[0]
        result = func(*args, **kwargs)
        given, made = list(tensors((*args, *kwargs.values()))), list(tensors((result,)))
        self._kept.append((given, made))
        sources, read = self._sources(given), self._read(given)
        flops = self._counter.work(func, args, kwargs, result) if made else 0.0
        if flops is None:
            self.unknown_flops[self.last] += most_work((*args, *kwargs.values()), result)
        if not sources:
            # Views of parameters are parameters; anything else is a constant.
            self._parameters.update((id(tensor), read) for tensor in made)
            if flops:
                # A step does it once, whatever its batch: figures of one image do not say that.
                self.unknown_flops[f"{self.last} of parameters alone"] += flops
            return result
        kind = _kind(short_name(func), args, len(sources), read)
        if flops and kind in (None, "other"):
            kind = "linear" if read else "matmul"
            self.unmeasured.append(self.last)
        if kind is None:
            self._made_by.update((id(tensor), sources[0]) for tensor in made)
            return result
        biased, elements = _bias_of(self.last, args), self._per_image(made[:1])
        self._add(
            kind,
            sources,
            made,
            parameters=read - biased,
            flops=(flops or 0.0) / self._batch_size,
            elements=elements,
            kernel=_kernel(kind, args),
        )
        if biased:
            source = len(self.nodes) - 1
            self._add("bias", [source], made, parameters=biased, elements=elements)
        return result

    def add_recurrent(
        self,
        name: str,
        given: Sequence[torch.Tensor],
        weights: Sequence[torch.Tensor],
        made: Sequence[torch.Tensor],
    ) -> None:
        """Add recurrent layers as one node.

        Args:
            name: of the operator.
            given: the sequences, and the states that they begin with.
            weights: matrices and biases of all layers and directions.
            made: the sequences of results, and states.
        """
        self._kept.append((given, weights, made))
        self.unmeasured.append(f"aten::{name}")
        self._add(
            "linear",
            self._sources(given),
            made,
            parameters=self._read((*given, *weights)),
            flops=recurrent_flops(given[0], weights) / self._batch_size,
            elements=self._per_image(made[:1]),
        )

    def _sources(self, given: Iterable[torch.Tensor]) -> list[int]:
        known = (self._made_by.get(id(tensor)) for tensor in given)
        return list(dict.fromkeys(source for source in known if source is not None))

    def _read(self, given: Iterable[torch.Tensor]) -> int:
        return sum({id(tensor): self._parameters.get(id(tensor), 0) for tensor in given}.values())

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
        self._made_by.update((id(tensor), place) for tensor in made)

    def _per_image(self, made: Iterable[torch.Tensor]) -> int:
        return sum(map(numbers, made)) // self._batch_size


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
    return "dilated_conv" if any(factor > 1 for factor in dilation) else "conv"


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


def _recorded(recorder: _PrimitiveRecorder, name: str) -> Callable[..., Any]:
    """Return what stands for a recurrent function: one node, and results without values."""

    def recurrent(given: torch.Tensor, *args: Any) -> Any:
        packed = isinstance(args[2], list | tuple)
        states, weights, rest = (args[1], args[2], args[3:]) if packed else (*args[:2], args[2:])
        started = list(tensors((states,)))
        directions = 2 if rest[4] else 1
        shape = (*given.shape[:-1], directions * started[0].shape[-1])
        made = [torch.empty(shape, dtype=given.dtype, device=given.device)]
        made += [torch.empty_like(state) for state in started]
        recorder.add_recurrent(name, (given, *started), list(weights), made)
        return tuple(made)

    return recurrent
