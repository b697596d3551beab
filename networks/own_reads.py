"""What a user's code reads while it makes a model, and whether all of that is still the same.

`networks/own_program.py` loads this file where no package of ours may be imported, so it imports
none. What Python reads is seen by an audit hook (PEP 578); what libraries read by themselves is
not: files of weights, mostly, on whose values no graph depends.
"""

import os
import stat
import sys
import sysconfig
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

_OUTSIDE = frozenset(
    (
        *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork"),
        *("socket.connect", "socket.getaddrinfo"),
    )
)
"""Events after which something else than files may have decided."""
_FOLDERS = frozenset(("os.listdir", "os.scandir"))
_OF_SYSTEM = ("/proc/", "/sys/")
_CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""On the path of an editable installation; what is in it beside ours changes nothing."""
_NOT_NOTED = ("_", "OLDPWD", "PWD", "SHLVL", "COLUMNS", "LINES", "TF_CPP_MIN_LOG_LEVEL")
"""Variables that shells and terminals alter from command to command, and one that is ours."""
_MOST_READS = 20_000
_MOST_HASHED_BYTES = 1 << 20
Stamps = dict[str, Any]
"""What each file and folder was when it was read first, and each variable of the environment, as
`$NAME`, when the process began; `None` for one that was not there."""


class Reads:
    """Notes what this process reads from now on."""

    def __init__(self) -> None:
        self._stamps: Stamps = {}
        self._installed = _installed()
        self._is_whole, self._is_noting = True, False
        sys.addaudithook(self._note)
        self._note_variables()

    @property
    def stamps(self) -> Stamps | None:
        """What was read; None if something else may have decided, or it is too much to keep."""
        return self._stamps if self._is_whole and len(self._stamps) <= _MOST_READS else None

    def _note(self, event: str, args: tuple[Any, ...]) -> None:
        if self._is_noting:
            return  # what follows from noting
        if event in _OUTSIDE:
            self._is_whole = False
        elif event in _FOLDERS or (event == "open" and _is_read(args[2])):
            self._is_noting = True
            try:
                self._add(args[0])
            finally:
                self._is_noting = False

    def _note_variables(self) -> None:
        began, kind = dict(os.environ), type(os.environ)
        read = kind.__getitem__

        def noted(environ: Any, name: Any) -> Any:
            if isinstance(name, str) and name not in _NOT_NOTED:
                self._stamps.setdefault(f"${name}", _stamp_of_variable(began.get(name)))
            return read(environ, name)

        kind.__getitem__ = noted  # type: ignore[method-assign]

    def _add(self, path: object) -> None:
        if path is None:
            path = "."
        if not isinstance(path, str | bytes | os.PathLike):
            return  # a number: it was opened before
        name = os.path.abspath(os.fsdecode(path))
        if name.startswith((*_OF_SYSTEM, *self._installed)) or name == _CHECKOUT:
            return
        if len(self._stamps) > _MOST_READS:
            return
        folder, _, compiled = name.rpartition(f"{os.sep}__pycache__{os.sep}")
        if folder:  # Python keeps there what it compiled; the source tells whether it is the same
            name = os.path.join(folder, f"{compiled.partition('.')[0]}.py")
        self._stamps.setdefault(name, _stamp(name))


def are_unchanged(stamps: Mapping[str, Any]) -> bool:
    """Tell whether all that was read is as it was: files by their contents, folders by names."""
    return all(
        stamp == (_stamp_of_variable(os.environ.get(name[1:])) if name[0] == "$" else _stamp(name))
        for name, stamp in stamps.items()
    )


def surroundings() -> str:
    """Return a digest of the interpreter, and of what is installed."""
    lines = [sys.executable, sys.version]
    lines += [f"{name} {os.stat(name).st_mtime_ns}" for name in _installed() if os.path.isdir(name)]
    return _digest("\n".join(lines).encode(errors="surrogateescape"))


def _is_read(flags: int) -> bool:
    is_made = flags & os.O_CREAT and flags & os.O_EXCL
    return not is_made and flags & os.O_ACCMODE != os.O_WRONLY


def _stamp_of_variable(value: str | None) -> str | None:
    return None if value is None else _digest(value.encode(errors="surrogateescape"))


def _stamp(name: str) -> Any:
    """Return what tells a file or folder from another; of a large file, size and time alone."""
    try:
        if os.path.isdir(name):
            names = sorted(set(os.listdir(name)) - {"__pycache__"})
            return _digest("\n".join(names).encode(errors="surrogateescape"))
        status = os.stat(name)
        if not stat.S_ISREG(status.st_mode):
            return status.st_mode
        if status.st_size > _MOST_HASHED_BYTES:
            return [status.st_size, status.st_mtime_ns]
        with open(name, "rb") as file:
            return _digest(file.read())
    except OSError:
        return None


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:32]


def _installed() -> tuple[str, ...]:
    """Return the folders of installed packages, which change as a whole."""
    paths, kinds = sysconfig.get_paths(), ("stdlib", "platstdlib", "purelib", "platlib")
    names = {os.path.abspath(paths[kind]) for kind in kinds}
    return tuple(sorted(f"{name}{os.sep}" for name in names))
