"""What names code: a digest of the modules that it uses, of their data and of their libraries."""

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from hashlib import sha256
from importlib import metadata
from pathlib import Path

from models.system import System
from networks import kept_graphs

_ROOT = Path(__file__).parents[1]
_ROOMS = ("models", "networks", "warehouse")
"""What systems may import of this project."""
_ROWS = ("forecasting/fits.py", "warehouse/views/01_visible.sql")
"""What says which rows a fit sees."""
_LIBRARIES = ("numpy", "numba", "polars", "scikit-learn", "scipy", "statsmodels", "xgboost")
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+([\w.]+))", re.M
)


def code_digest(system: System) -> str:
    """Return what names the code that fits a system and makes its forecasts.

    It is `digest` of the modules of the system's functions, and of what says which rows a fit sees.
    What else a commit changes, it does not tell, nor of functions that are not in these rooms: all
    systems have theirs in `models`.
    """
    functions = (system.fit, system.load, system.inputs, system.prepare)
    modules = tuple(sorted({_module_of(function) for function in functions}))
    return f"code:{digest(modules, _ROOMS, tuple(_ROOT / file for file in _ROWS))}"


@cache
def digest(modules: tuple[str, ...], rooms: tuple[str, ...], more: tuple[Path, ...] = ()) -> str:
    """Return what names the code of some modules.

    It is of every module of these rooms that they import, directly or not, anywhere in a module, of
    the files beside those of models that are no code, of all that extracts graphs, as programs of
    it are run, and of the releases of numeric libraries.

    Args:
        modules: by their dotted names.
        rooms: the packages of this project that they may use.
        more: other files that count.
    """
    files = {*_used(modules, rooms), *more}
    folders = {path.parent for path in files if path.is_relative_to(_ROOT / "models")}
    files |= {path for folder in folders - {_ROOT / "models"} for path in _data(folder)}
    content = sha256()
    for path in sorted(files):
        content.update(f"{path.relative_to(_ROOT)}\n".encode() + path.read_bytes())
    if any(path.is_relative_to(_ROOT / "networks") for path in files):
        content.update(kept_graphs.digest().encode())
    content.update(_releases().encode())
    return content.hexdigest()[:16]


@cache
def _releases() -> str:
    return "\n".join(f"{name} {metadata.version(name)}" for name in _LIBRARIES)


def _module_of(function: Callable[..., object]) -> str:
    while isinstance(function, partial):
        function = function.func
    return function.__module__


def _used(modules: tuple[str, ...], rooms: tuple[str, ...]) -> set[Path]:
    """Return the files of modules and of all that they import of some rooms."""
    files: set[Path] = set()
    left = [path for name in modules if (path := _file(name, rooms)) is not None]
    while left:
        path = left.pop()
        if path not in files:
            files.add(path)
            left += _imports(path, rooms)
    return files


@cache
def _imports(path: Path, rooms: tuple[str, ...]) -> tuple[Path, ...]:
    names = _names(path.read_text())
    return tuple(file for name in names if (file := _file(name, rooms)) is not None)


def _names(text: str) -> Iterator[str]:
    """Yield the modules that a module may import: what is imported from one may be one, too."""
    for source, imported, whole in _IMPORT.findall(text):
        yield source or whole
        for name in re.findall(r"\w+", imported):
            yield f"{source}.{name}"


@cache
def _file(module: str, rooms: tuple[str, ...]) -> Path | None:
    if module.partition(".")[0] not in rooms:
        return None
    place = _ROOT.joinpath(*module.split("."))
    files = (place.with_suffix(".py"), place / "__init__.py")
    return next((file for file in files if file.is_file()), None)


def _data(folder: Path) -> Iterator[Path]:
    """Yield the files of a package that are no code, in folders of it too."""
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts:
            yield path
