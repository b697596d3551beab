"""Builds what a user's function returns, a PyTorch module and an example batch.

Also a program, `python -P own_program.py JSON`, that writes the module's graph. Users have packages
of the names of ours, so it imports none.
"""

import importlib
import importlib.machinery
import importlib.util
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode


class CannotBuild(ValueError):
    """A function does not make what it should; the message says what to do."""


Made = tuple[torch.nn.Module, tuple[torch.Tensor, ...], dict[str, torch.Tensor]]
"""A module, the tensors it is called with in order, and those it is given by name."""


def built(target: str, batch_size: int, folders: Sequence[str], hidden: Sequence[str]) -> Made:
    """Return what `module:function` makes.

    Args:
        target: the function; it is told the batch if it takes an argument `batch_size`.
        batch_size: of the example.
        folders: where its packages are looked for first.
        hidden: names of packages that are found in these folders, and nowhere else.

    Raises:
        CannotBuild: there is no such function, or it makes something else.
    """
    sys.path[:0] = folders
    sys.meta_path.insert(0, _OnlyUsers(hidden, folders))
    return _made(_called(_function(target), target, batch_size), target)


def _made(made: object, target: str) -> Made:
    """Return a module and its batch: tensors in order, and tensors by name."""
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], torch.nn.Module)):
        found = f"({', '.join(map(_kind_of, made))})" if isinstance(made, tuple) else _kind_of(made)
        raise CannotBuild(
            f"{target}: expected a torch.nn.Module and an example batch, found {found}; "
            "return both: `return model, torch.zeros(8, 3, 64, 64)`"
        )
    module, example = made
    by_name = dict(example) if isinstance(example, Mapping) else {}
    several = example if isinstance(example, list | tuple) else (example,)
    batch = () if by_name else tuple(several)
    tensors = (*batch, *by_name.values())
    wrong = [one for one in tensors if not (isinstance(one, torch.Tensor) and one.numel())]
    if wrong or not tensors or not tensors[0].ndim:
        found = _kind_of((wrong or tensors or (example,))[0])
        raise CannotBuild(
            f"{target}: expected as an example batch a tensor, a tuple of tensors, or a dict of "
            f"tensors by argument, found {found}; its first dimension is the batch: "
            "`torch.zeros(8, 3, 64, 64)`"
        )
    return module, batch, by_name


def _kind_of(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {list(value.shape)}"
    return type(value).__name__


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
        raise CannotBuild(f"{target}: importing {name} failed: {_first_line(error)}") from error
    build = getattr(module, function, None)
    if not callable(build):
        there = [one for one, value in vars(module).items() if callable(value) and one[0] != "_"]
        near = get_close_matches(function, there, n=1)
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
        told = _first_line(error)
        hint = "; leave the model on the processor" if "CUDA" in told else ""
        raise CannotBuild(f"{target}: it failed: {told}{hint}") from error


def _first_line(error: BaseException) -> str:
    told = str(error).strip().splitlines()
    return f"{type(error).__name__}: {told[0]:.200}" if told else type(error).__name__


class _OnlyUsers:
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
        found = importlib.machinery.PathFinder.find_spec(name, self._folders)
        if found is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return found


def _graph(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the graph of what a target makes.

    Raises:
        ValueError: it makes nothing that has one.
    """
    traced = _traced()
    module, batch, by_name = built(
        asked["target"], asked["batch_size"], asked["folders"], asked["hidden"]
    )
    shape = (*batch, *by_name.values())[0].shape
    side = int(shape[-1]) if len(shape) == 4 else 0
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fakes = tuple(mode.from_tensor(one) for one in batch)
        named = {name: mode.from_tensor(one) for name, one in by_name.items()}
        fields: dict[str, Any] = traced.fields_of(
            module.train(), fakes, asked["target"], side, int(shape[0]), named
        )
        return fields


def _traced() -> ModuleType:
    """Load the tracer beside this file, under a name that no user has."""
    spec = importlib.util.spec_from_file_location(
        "_stepcast_traced", Path(__file__).with_name("traced.py")
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Write the graph, or why there is none, as a line of JSON; what users print goes to stderr."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        told: dict[str, Any] = {"graph": _graph(json.loads(sys.argv[1]))}
    except ValueError as error:
        told = {"error": str(error)}
    out.write(json.dumps(told) + "\n")
    out.flush()


if __name__ == "__main__":
    main()
