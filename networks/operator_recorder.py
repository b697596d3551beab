"""What runs while it is entered: PyTorch's operators, one by one; of this project it needs nothing.

`networks/own_program.py` loads this file where no package of ours may be imported.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd  # noqa: SLF001


class OperatorRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hands operators that are called while it is entered to `note`; some as those they consist of.

    Attributes:
        device: whose kernels tell what consists of others; None: nothing is taken apart.
        notes: what is shortened again where parts cannot be followed; empty: that is an error.
    """

    device: str | None = None

    def __init__(self, most: int | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.notes: tuple[list[Any], ...] = ()
        self._most, self._count = most, 0

    def note(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return what an operator makes."""
        raise NotImplementedError

    def parts(
        self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Callable[..., Any] | None:
        """Return what runs an operator as others; None: it is noted itself."""
        return None if self.device is None else kernel_in_parts(func, self.device)

    def count(self) -> None:
        """Count an operator.

        Raises:
            ValueError: there are more than `most`.
        """
        self._count += 1
        if self._most is not None and self._count > self._most:
            raise ValueError(
                f"its training step has more than {self._most:,} operators; a loop over a sequence "
                "makes some at each step: use torch.nn's LSTM, GRU or RNN, or a shorter sequence"
            )

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if (kernel := self.parts(func, args, kwargs)) is not None:
            lengths = [len(noted) for noted in self.notes]
            try:
                with self:
                    return kernel(*args, **kwargs)
            except Exception:
                if not lengths:
                    raise
                # It knows no tensors without values, as those that call other compilers' kernels.
                for noted, length in zip(self.notes, lengths, strict=True):
                    del noted[length:]
        return self.note(func, args, kwargs)


def kernel_in_parts(func: Any, device: str = "cuda") -> Callable[..., Any] | None:
    """Return what runs an operator as others; None: a kernel of its own does.

    So are operators that somebody wrote in Python (`torch.library.custom_op`), and in them those
    that PyTorch composes of others wherever they run.
    """
    custom = torch._library.custom_ops._maybe_get_opdef(func)  # noqa: SLF001
    if custom is not None:
        kernels = custom._backend_fns  # noqa: SLF001
        kernel: Callable[..., Any] | None = kernels.get(device, kernels.get(None))
        return kernel
    if is_work(func) and _is_composite(func):
        return partial(func._op_dk, _COMPOSITE)  # noqa: SLF001
    return None


@cache
def _is_composite(func: Any) -> bool:
    """Tell whether an operator has no kernel of its own: a processor's stand for a GPU's, too."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key  # noqa: SLF001
    return has_kernel(func.name(), _COMPOSITE) and not has_kernel(func.name(), "CPU")


def is_work(func: Any) -> bool:
    """Tell whether an operator may have work; `prim::device` and the like cost nothing."""
    return not str(func.name()).startswith(("prim::", "prims::"))


def tensors(values: Iterable[object]) -> Iterator[torch.Tensor]:
    """Yield all tensors of arguments, also those in lists."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors(value)


RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
"""Functions of `torch._VF` that `torch.nn.RNNBase` calls."""
_MISSING = object()


@contextmanager
def replaced(functions: Sequence[tuple[dict[str, Any], str, Any]]) -> Iterator[None]:
    """Have names mean other functions inside: of each the names of its module, its own, and it."""
    before = [names.get(name, _MISSING) for names, name, _ in functions]
    for names, name, function in functions:
        names[name] = function
    try:
        yield
    finally:
        for (names, name, _), function in zip(functions, before, strict=True):
            if function is _MISSING:
                del names[name]
            else:
                names[name] = function
