"""Finds and calls the function of a user that makes a model, whatever framework it is of.

`networks/own_program.py` loads this file where no package of ours may be imported, so it imports
none.
"""

import importlib
import importlib.machinery
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

_HINTS = {
    "CUDA": "; leave the model on the processor",
    "allocate memory": "; it asks for values while it is built, so its weights need memory: build "
    "it on the meta device, or without asking",
}
"""What to do, by words of an error."""


class CannotBuild(ValueError):
    """A function does not make what it should; the message says what to do."""


class UserFunction:
    """The function that `module:function` names; called with a batch, it returns what that makes.

    Attributes:
        takes_batch: whether it is told the batch: it has an argument `batch_size`.
    """

    def __init__(self, target: str, folders: Sequence[str], hidden: Sequence[str]) -> None:
        """Import its module.

        Args:
            target: the function.
            folders: where its packages are looked for first.
            hidden: names of packages that are found in these folders, and nowhere else.

        Raises:
            CannotBuild: there is no such function.
        """
        sys.path[:0] = folders
        sys.meta_path.insert(0, _UserPackageFinder(hidden, folders))
        self._target, self._build = target, _function(target)
        try:
            self.takes_batch = "batch_size" in inspect.signature(self._build).parameters
        except (TypeError, ValueError):  # some that are written in C have none
            self.takes_batch = False

    def __call__(self, batch_size: int) -> object:
        """Return what it makes.

        Raises:
            CannotBuild: it failed.
        """
        try:
            return self._build(batch_size=batch_size) if self.takes_batch else self._build()
        except ModuleNotFoundError as error:
            raise _lacking(self._target, error) from error
        except BaseException as error:
            message = first_line(error)
            hint = next((hint for word, hint in _HINTS.items() if word in message), "")
            raise CannotBuild(f"{self._target}: it failed: {message}{hint}") from error


def first_line(error: BaseException) -> str:
    """Return what an error is, and the first line of what it says."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]:.200}" if lines else type(error).__name__


def batch_dimension(
    tensors: Sequence[Any], others: Sequence[Any], batch_size: int, target: str
) -> int:
    """Return which dimension of the first input is the batch.

    Args:
        tensors: inputs as the user's function gave them for a batch.
        others: those for another batch; none if the function is not told the batch.
        batch_size: of the first ones.
        target: the function.

    Raises:
        ValueError: the inputs are of another batch than was asked for.
    """
    first = tensors[0].shape
    if first[0] == batch_size:
        return 0
    pairs = [(tensor.shape, other.shape) for tensor, other in zip(tensors, others, strict=False)]
    if all(shape == other for shape, other in pairs):
        why = (
            "its example batch is the same whatever batch_size it is told"
            if others
            else "it takes no argument batch_size"
        )
        raise ValueError(
            f"{target}: asked for a batch of {batch_size}, it gave a tensor of shape "
            f"{list(first)}: {why}; "
            f"let its example follow batch_size, or give --batch-size {first[0]}"
        )
    sizes = zip(*pairs[0], strict=False)
    return next((place for place, (size, other) in enumerate(sizes) if size != other), 0)


def not_batched(batch: Sequence[Any], by_name: Mapping[str, Any], batch_size: int) -> list[str]:
    """Return which inputs have another first dimension than the batch, with their shapes."""
    named = [*((f"input {place}", tensor) for place, tensor in enumerate(batch, 1))]
    named += by_name.items()
    return [
        f"{name} {list(tensor.shape)}"
        for name, tensor in named
        if tensor.ndim and len(tensor) != batch_size
    ]


def _function(target: str) -> Callable[..., object]:
    """Return the function that a target names.

    Raises:
        CannotBuild: there is none, or its module cannot be imported.
    """
    name, _, function = target.partition(":")
    if not name or not function:
        raise CannotBuild(f"{target}: expected package.module:function, such as models.mine:build")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name
        if missing and (name == missing or name.startswith(f"{missing}.")):
            path = name.removesuffix(".py").replace("/", ".")
            hint = f"{path}:{function}" if path != name else "package.module:function"
            raise CannotBuild(
                f"{target}: no module {missing!r} in {os.getcwd()}; call this from the folder that "
                f"has it, and write {hint}"
            ) from None
        raise _lacking(target, error) from None
    except BaseException as error:
        raise CannotBuild(f"{target}: importing {name} failed: {first_line(error)}") from error
    build = getattr(module, function, None)
    if not callable(build):
        names = [key for key, value in vars(module).items() if callable(value) and key[0] != "_"]
        near = get_close_matches(function, names, n=1)
        hint = f"did you mean {name}:{near[0]}?" if near else "write package.module:function"
        raise CannotBuild(f"{target}: {name} has no function {function!r}; {hint}")
    return build  # type: ignore[no-any-return]


def _lacking(target: str, error: ModuleNotFoundError) -> CannotBuild:
    if not error.name:  # raised by hand: it says itself what lacks
        return CannotBuild(f"{target}: {first_line(error)}; install that beside stepcast")
    return CannotBuild(
        f"{target}: it imports {error.name!r}, which is not there; install that beside stepcast: "
        f"`{sys.executable} -m pip install {error.name.partition('.')[0]}`, or what provides it"
    )


class _UserPackageFinder:
    """Finds packages that have the names of ours in the user's folders, and nowhere else."""

    def __init__(self, names: Iterable[str], folders: Sequence[str]) -> None:
        self._names, self._folders = frozenset(names), list(folders)

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        """Return where the user has such a package.

        Raises:
            ModuleNotFoundError: nowhere.
        """
        if name not in self._names:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, self._folders)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return spec
