"""Training steps as a GPU is asked for them, of networks by name and of users' models.

Child processes trace them (`networks.gpu_trace`); this module loads no framework.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import prod
from typing import Any, Literal, NamedTuple, Self

from networks import catalogue
from networks.catalogue import OWN, check
from networks.kept_graphs import GraphCache

DTYPE_BYTES: Mapping[str, int] = {
    "complex128": 16,
    "complex64": 8,
    "complex32": 4,
    "float64": 8,
    "int64": 8,
    "float32": 4,
    "int32": 4,
    "bfloat16": 2,
    "float16": 2,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}
StepPrecision = Literal["float32", "bfloat16", "float16", "bfloat16-true", "float16-true"]
"""Of autocast, float32: none; `-true` (Lightning's word): all is in that type, nothing is cast."""
_HALF = ("bfloat16", "float16")


def step_precision(precision: str, casts_once: bool) -> StepPrecision:
    """Return at which precision a step is traced: TF32 casts nothing, parts are cast once."""
    if precision not in _HALF:
        return "float32"
    return f"{precision}-true" if casts_once else precision  # type: ignore[return-value]


@dataclass(frozen=True)
class Tensor:
    """Shape (elements in each dimension) and type of a tensor."""

    shape: tuple[int, ...]
    dtype: str

    @cached_property
    def numbers(self) -> int:
        """How many elements it has."""
        return prod(self.shape)

    @cached_property
    def bytes(self) -> int:
        """Bytes of its elements; of unknown types four each."""
        return self.numbers * DTYPE_BYTES.get(self.dtype, 4)


@dataclass(frozen=True)
class Operator:
    """A call: `name` as the dispatcher's without namespace and overload, tensors in and out.

    Lists of tensors are flattened; arguments that are no tensors are left out. `view`: the result
    shares memory with what was given, and nothing is launched. `flops`: floating-point operations
    as `networks.operator_work` counts them, None: shapes tell. `is_unknown`: they are the most that
    it may have.
    """

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    view: bool = False
    flops: float | None = None
    is_unknown: bool = False


@dataclass(frozen=True)
class DataFlow:
    """Which storages the calls of a step touch, by number; -1: one that was not counted.

    Attributes:
        storages: of the tensors that each call is given, then of those that it makes, call by call.
        forward: how many calls there are before backward begins.
        gradients: of parameters.
        divided: of parameters, their gradients, and copies of both in half precision.
    """

    storages: tuple[int, ...]
    forward: int
    gradients: tuple[int, ...]
    divided: tuple[int, ...]


@dataclass(frozen=True)
class GpuStep:
    """Forward and backward of a batch.

    Attributes:
        operators: each call that differs once.
        order: of calls, as numbers of `operators`.
        parameters: each that gets a gradient, flat, in the type that the optimizer sees.
        peak_bytes: most bytes alive: parameters, buffers, batch, gradients and activations, not the
            optimizer's.
        without_gradients_bytes: the most of all but gradients of parameters.
        activation_bytes: the most of all but parameters, their gradients, and copies of both in
            half precision.
        units: elements of the parameters of each unit that shards gather at once; first of those
            that are in no unit.
        frozen: the other parameters, alike.
        kept: the same step with all activations kept; None: they are.
        flow: of its calls; None: nobody noted it, as of traces of others.
    """

    operators: tuple[Operator, ...]
    order: tuple[int, ...]
    parameters: tuple[Tensor, ...]
    peak_bytes: int
    without_gradients_bytes: int
    activation_bytes: int
    units: tuple[int, ...]
    frozen: tuple[Tensor, ...] = ()
    kept: "GpuStep | None" = None
    flow: DataFlow | None = None

    @cached_property
    def trained_counts(self) -> Mapping[Tensor, int]:
        """How many of `parameters` are alike."""
        return Counter(self.parameters)

    @cached_property
    def frozen_counts(self) -> Mapping[Tensor, int]:
        """How many of `frozen` are alike."""
        return Counter(self.frozen)

    @cached_property
    def exchanged_bytes(self) -> Callable[[str | None], tuple[tuple[float, ...], ...]]:
        """Return bytes of each of `parameters`, and of `frozen`, in a type; None: in their own."""

        @cache
        def in_type(dtype: str | None) -> tuple[tuple[float, ...], ...]:
            distinct = (*self.trained_counts, *self.frozen_counts)
            sizes = {
                each: float(replace(each, dtype=dtype or each.dtype).bytes) for each in distinct
            }
            held = self.parameters, self.frozen
            return tuple(tuple(sizes[each] for each in tensors) for tensors in held)

        return in_type

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return the step of fields as `networks.gpu_trace.trace_step` has them, or of JSON.

        Raises:
            ValueError: they are not of a step.
        """
        try:
            flow = fields.get("flow")
            return cls(
                tuple(
                    Operator(name, _tensors(inputs), _tensors(outputs), *work)
                    for name, inputs, outputs, *work in fields["operators"]
                ),
                tuple(fields["order"]),
                _tensors(fields["parameters"]),
                int(fields["peak_bytes"]),
                int(fields["without_gradients_bytes"]),
                int(fields["activation_bytes"]),
                tuple(fields["units"]),
                _tensors(fields["frozen"]),
                None if fields.get("kept") is None else cls.of(fields["kept"]),
                flow and DataFlow(**{name: _numbers(each) for name, each in flow.items()}),
            )
        except (TypeError, KeyError) as error:
            raise ValueError(f"no step of a GPU: {error!r:.80}") from None


def _numbers(given: Any) -> Any:
    return tuple(given) if isinstance(given, list) else given


def _tensors(listed: Iterable[Any]) -> tuple[Tensor, ...]:
    return tuple(Tensor(tuple(shape), str(dtype)) for shape, dtype in listed)


class StepKey(NamedTuple):
    """What a step is of."""

    dnn: str
    batch_size: int
    image_size: int
    precision: StepPrecision


_STEPS = GraphCache[StepKey, GpuStep]("gpu", GpuStep.of, at_hand=64, at_once=256)


def gpu_steps(wanted: Iterable[StepKey]) -> Mapping[StepKey, GpuStep]:
    """Return steps of networks, those of users' models as they were registered.

    Raises:
        UnknownNetwork: no network of PyTorch has such a name.
        ValueError: images are too small, or a user's model has no such step.
        RuntimeError: a child process failed; the message has the end of what it wrote.
    """
    keys = list(wanted)
    for key in keys:
        check(key.dnn, key.image_size, "pytorch")
    own = {key: _own(key) for key in keys if key.dnn.startswith(OWN)}
    return own | _STEPS.get(key for key in keys if key not in own)


def _own(key: StepKey) -> GpuStep:
    unknown = "it was not traced for a GPU: ask `stepcast predict` with its target"
    known = catalogue.OWN_MODELS.get(key.dnn)
    steps = {} if known is None else known.gpu_steps
    step = steps.get(f"{key.batch_size} {key.precision}", unknown)
    if isinstance(step, str):
        raise ValueError(step)
    return step
