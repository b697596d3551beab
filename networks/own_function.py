"""Finds and calls the function of a user that makes a model, whatever framework it is of.

`networks/own_program.py` loads this file where no package of ours may be imported, so it imports
none.
"""

import importlib
import importlib.machinery
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any


class CannotBuild(ValueError):
    """A function does not make what it should; the message says what to do."""


def call_function(
    target: str, batch_size: int, folders: Sequence[str], hidden: Sequence[str]
) -> object:
    """Return what `module:function` returns.

    Args:
        target: the function; it is told the batch if it takes an argument `batch_size`.
        batch_size: of the example.
        folders: where its packages are looked for first.
        hidden: names of packages that are found in these folders, and nowhere else.

    Raises:
        CannotBuild: there is no such function, or it failed.
    """
    sys.path[:0] = folders
    sys.meta_path.insert(0, _UserPackageFinder(hidden, folders))
    return _called(_function(target), target, batch_size)


def first_line(error: BaseException) -> str:
    """Return what an error is, and the first line of what it says."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]:.200}" if lines else type(error).__name__


def _function(target: str) -> Callable[..., object]:
    """Return the function that a target names.

    Raises:
        CannotBuild: there is none, or its module cannot be imported.
    """
    name, _, function = target.partition(":")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(f"{missing}."):
            path = name.removesuffix(".py").replace("/", ".")
            hint = f"{path}:{function}" if path != name else "package.module:function"
            raise CannotBuild(
                f"{target}: no module {missing!r} in {os.getcwd()}; call this from the folder that "
                f"has it, and write {hint}"
            ) from None
        raise _lacking(target, missing) from None
    except BaseException as error:
        raise CannotBuild(f"{target}: importing {name} failed: {first_line(error)}") from error
    build = getattr(module, function, None)
    if not callable(build):
        names = [key for key, value in vars(module).items() if callable(value) and key[0] != "_"]
        near = get_close_matches(function, names, n=1)
        hint = f"did you mean {name}:{near[0]}?" if near else "write package.module:function"
        raise CannotBuild(f"{target}: {name} has no function {function!r}; {hint}")
    return build  # type: ignore[no-any-return]


def _lacking(target: str, package: str) -> CannotBuild:
    return CannotBuild(
        f"{target}: it imports {package!r}, which is not there; install that beside stepcast: "
        f"`{sys.executable} -m pip install {package.partition('.')[0]}`, or what provides it"
    )


def _called(build: Callable[..., object], target: str, batch_size: int) -> object:
    """Return what a function makes, which is told the batch if it asks for it.

    Raises:
        CannotBuild: it failed.
    """
    try:
        takes = "batch_size" in inspect.signature(build).parameters
        return build(batch_size=batch_size) if takes else build()
    except ModuleNotFoundError as error:
        raise _lacking(target, error.name or "") from error
    except BaseException as error:
        message = first_line(error)
        hint = "; leave the model on the processor" if "CUDA" in message else ""
        raise CannotBuild(f"{target}: it failed: {message}{hint}") from error


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
