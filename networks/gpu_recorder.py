"""Records operators while they are called, and which storages are alive when.

Each has the work that `operator_work` counts; where none is known, the most that it may be.

Memory is that of storages alive at once: parameters, gradients and activations that backward keeps.
What shards divide is told apart: parameters, their gradients, and copies of both in half precision.

`networks/own_program.py` loads this file where no package of ours may be imported.
"""

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from itertools import chain, groupby
from typing import Any

import torch

from networks.batch_scaling import most_alive
from networks.known_values import value_of
from networks.operator_recorder import OperatorRecorder, is_work, tensors
from networks.operator_work import WorkCounter, most_work, short_name

_Tensor = tuple[tuple[int, ...], str]
_Call = tuple[str, tuple[_Tensor, ...], tuple[_Tensor, ...], bool, float | None, bool]
"""Name, tensors in and out (shape and type), whether the result is a view, floating-point
operations (None: shapes tell), and whether these are the most that it may have."""


class Recorder(OperatorRecorder):  # type: ignore[no-untyped-call]
    """Notes operators, each kind of call once, their order, and which storages are alive when."""

    device = "cuda"

    def __init__(self, most: int | None) -> None:
        super().__init__(most)
        self.operators: dict[_Call, tuple[int, str]] = {}
        """Calls of one kind: their number, and their text in the digest."""
        self.calls: list[tuple[int, tuple[int, ...]]] = []
        """Each call: its number in `operators`, and storages of its tensors, in and out."""
        self.notes = (self.calls,)
        self.digest = sha256()
        self._sizes: list[int] = []
        self._changes: list[int] = []
        self._alive: dict[int, int] = {}
        self.parameters: set[int] = set()
        self.gradients: set[int] = set()
        self._copies: list[tuple[int, int]] = []
        self._is_aside = False
        self._counter = WorkCounter()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Note no operators inside."""
        self._is_aside = True
        try:
            yield
        finally:
            self._is_aside = False

    def add(
        self, name: str, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
    ) -> None:
        """Note an operator that was not asked for."""
        for tensor in outputs:
            self.hold(tensor)
        described = tuple(_described(inputs)), tuple(_described(outputs))
        self._note((name, *described, False, None, False), (), (*inputs, *outputs))

    def hold(self, tensor: torch.Tensor) -> int:
        """Count a tensor's storage until nothing refers to it; return its number.

        Raises:
            ValueError: it is sparse, as gradients of embeddings may be.
        """
        if tensor.layout != torch.strided:
            raise ValueError(
                "its training step makes sparse gradients, whose size depends on values; build its "
                "embeddings with sparse=False"
            )
        storage = tensor.untyped_storage()
        key = storage._cdata  # noqa: SLF001
        if key not in self._alive:
            number = self._alive[key] = len(self._sizes)
            self._sizes.append(storage.nbytes())
            self._changes.append(number + 1)
            weakref.finalize(storage, self._free, key)
        return self._alive[key]

    def _free(self, key: int) -> None:
        self._changes.append(-self._alive.pop(key) - 1)

    def note_gradient(self, parameter: torch.Tensor) -> None:
        """Note the storage of a parameter's gradient, which is there now."""
        if parameter.grad is not None and not parameter.grad.is_sparse:
            self.gradients.add(self.hold(parameter.grad))

    def divided(self) -> set[int]:
        """Return storages of parameters and gradients, and those that they were copied to or of."""
        cast = {copy for source, copy in self._copies if source in self.parameters}
        of_cast = {source for source, copy in self._copies if copy in self.gradients}
        return self.parameters | self.gradients | cast | of_cast

    def flow(self, forward: int) -> dict[str, Any]:
        """Return which storages calls touch, `forward` of them before backward begins."""
        return {
            "storages": list(chain.from_iterable(storages for _, storages in self.calls)),
            "forward": forward,
            "gradients": sorted(self.gradients),
            "divided": sorted(self.divided()),
        }

    def memory(self) -> dict[str, Any]:
        """Return bytes of storages, when they were alive, and the most at once, as steps have it.

        What ends at once, as a graph does, is in the order of numbers.
        """
        runs = groupby(self._changes, lambda change: change > 0)
        changes = list(chain.from_iterable(run if begin else sorted(run) for begin, run in runs))
        return {
            "sizes": self._sizes,
            "changes": changes,
            "peak_bytes": most_alive(self._sizes, changes, ()),
            "without_gradients_bytes": most_alive(self._sizes, changes, self.gradients),
            "activation_bytes": most_alive(self._sizes, changes, self.divided()),
        }

    def _note(self, call: _Call, settings: Sequence[object], touched: Sequence[object]) -> None:
        """Note a call with the tensors it touches, and in the digest what else it is told."""
        self.count()
        known = self.operators.get(call)
        if known is None:
            known = self.operators[call] = len(self.operators), str(call)
        number, text = known
        self.digest.update(f"{text} {list(_settings(settings))}".encode())
        storages = tuple(
            self._alive.get(tensor.untyped_storage()._cdata, -1)  # noqa: SLF001
            if tensor.layout == torch.strided
            else -1  # nobody counts it
            for tensor in tensors(touched)
        )
        self.calls.append((number, storages))

    def _note_unrolled(self, func: Any, *args: Any) -> None:
        """Note the products of bilinear layers: PyTorch loops over one dimension of all tensors."""
        unrolled = args[7] if len(args) > 7 else 1
        first, many = [], 1
        for tensor, spread in zip(args[:3], args[3:6], strict=True):
            place = unrolled - sum(at < unrolled for at in spread)
            if unrolled not in spread:
                many = max(many, tensor.shape[place])
                tensor = tensor.narrow(place, 0, 1)
            first.append(tensor)
        before = len(self.calls)
        composed = torch._C.DispatchKey.CompositeExplicitAutogradNonFunctional  # noqa: SLF001
        with self:
            func._op_dk(composed, *first, *args[3:])  # noqa: SLF001
        self.calls += self.calls[before:] * (many - 1)

    def parts(
        self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Callable[..., Any] | None:
        """Return what runs an operator as others; the digest has those that are not noted."""
        kernel = None if self._is_aside else super().parts(func, args, kwargs)
        if self._is_aside or kernel is not None or not is_work(func):
            inputs = tuple(_described((*args, *kwargs.values())))
            self.digest.update(f"{short_name(func)} {inputs}".encode())
        return kernel

    def note(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return what an operator makes, and note it."""
        if self._is_aside or not is_work(func):
            return func(*args, **kwargs)
        inputs, name = tuple(_described((*args, *kwargs.values()))), short_name(func)
        if name == "_local_scalar_dense":
            self._note((name, inputs, (), False, None, False), (), args)
            return value_of(args[0])
        if name == "_trilinear":
            self._note_unrolled(func, *args)
        result = func(*args, **kwargs)
        written = result if isinstance(result, tuple | list) else (result,)
        if name == "_scaled_dot_product_fused_attention_overrideable_backward":
            # Without a GPU, that of a mask is made though nobody wants it.
            written = tuple(
                each if wanted else None for each, wanted in zip(written, args[5], strict=True)
            )
        for value in written:
            if isinstance(value, torch.Tensor):
                self.hold(value)
        if name == "_to_copy":
            self._copies.append((self.hold(args[0]), self.hold(result)))
        if name == "_trilinear":
            return result
        is_view = func.is_view or torch.Tag.inplace_view in func.tags
        flops = 0.0 if is_view else self._counter.work(func, args, kwargs, result)
        is_unknown = flops is None
        if flops is None:
            flops = most_work((*args, *kwargs.values()), result)
        outputs = tuple(_described(written))
        # Views cost nothing, wherever in a tensor they begin.
        settings = () if is_view else (*args, *kwargs.values())
        touched = (*args, *kwargs.values(), *written)
        self._note((name, inputs, outputs, is_view, flops, is_unknown), settings, touched)
        return result


@cache
def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _described(values: Sequence[Any]) -> Iterator[_Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield tuple(value.shape), _dtype_name(value.dtype)
        elif isinstance(value, tuple | list):
            yield from _described(value)


def _settings(values: Sequence[object]) -> Iterator[str]:
    """Yield what tells calls on the same tensors apart: strides, flags, types; of a factor if any.

    Factors change no time, and some models draw them at random.
    """
    for value in values:
        if isinstance(value, tuple | list):
            yield f"[{' '.join(_settings(value))}]"
        elif isinstance(value, float):
            yield str(value != 0)
        elif isinstance(value, bool | int | str | torch.dtype | None):
            yield str(value)
