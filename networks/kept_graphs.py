"""Graphs that were extracted once: at hand, or kept in a folder; child processes extract others.

Nothing here loads a framework. A kept graph is of the code of this package and the releases of
frameworks that made it: what another code or release made is not read, and goes when the first
graph of the present one is kept.
"""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from hashlib import sha256
from importlib import metadata
from math import ceil
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import IO, Any, Generic, TypeVar

from warehouse.child_process import bound, most_memory_bytes
from warehouse.durable_files import write_bytes
from warehouse.extras import explain_missing

_LIBRARIES = ("torch", "pytorchcv", "tensorflow", "tf_keras")
_MOST_BYTES = 256 << 20
"""Of a graph, unpacked."""
_MOST_GRAPHS = 4096
"""In a folder: who asks a service may choose sides of images by the thousand."""
_TIMEOUT_S = 900.0
_SAID_BYTES = 4096
_FEWEST_AT_ONCE = 4
"""Graphs for which another child process is worth loading its framework."""


class _Place:
    """The folder that graphs are kept in; None: in none."""

    folder: Path | None = None


def keep_in(folder: Path | None) -> None:
    """Keep graphs that this process extracts in a folder from now on, and read those there.

    None: nowhere, as where no folder was ever given.
    """
    _Place.folder = folder


def keep_beside(home: Path) -> None:
    """Keep them in the home of a history from now on."""
    keep_in(home / "graphs")


def kept(name: str) -> Any:
    """Return the fields of a graph as they were kept, None if they were not or are damaged."""
    if _Place.folder is None:
        return None
    try:
        with gzip.open(_file(_Place.folder, name)) as file:
            text = file.read(_MOST_BYTES + 1)
        return json.loads(text) if len(text) <= _MOST_BYTES else None
    except (OSError, EOFError, ValueError, zlib.error):
        return None


def keep(name: str, text: str) -> None:
    """Keep a graph, given as JSON; where nothing can be written, it is not kept."""
    if _Place.folder is None:
        return
    file = _file(_Place.folder, name)
    with suppress(OSError):
        if not file.parent.exists():
            for other in _Place.folder.glob("*"):
                shutil.rmtree(other, ignore_errors=True)
            file.parent.mkdir(parents=True, exist_ok=True)
        if len(os.listdir(file.parent)) < _MOST_GRAPHS:
            write_bytes(file, gzip.compress(text.encode(), 1))


def kept_names(beginning: str) -> list[str]:
    """Return the names that begin so of what is kept, by this code and these frameworks."""
    if _Place.folder is None:
        return []
    files = (_Place.folder / digest()).glob(f"{beginning}*.json.gz")
    return sorted(file.name.removesuffix(".json.gz") for file in files)


@cache
def digest() -> str:
    """Return what names the modules of this package and the releases of the frameworks."""
    content = sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        content.update(f"{path.name}\n".encode() + path.read_bytes())
    for name in _LIBRARIES:
        with suppress(metadata.PackageNotFoundError):
            content.update(f"{name} {metadata.version(name)}\n".encode())
    return content.hexdigest()[:16]


def _file(folder: Path, name: str) -> Path:
    return folder / digest() / f"{name}.json.gz"


Key = TypeVar("Key", bound=tuple[Any, ...])
Graph = TypeVar("Graph")


class GraphCache(Generic[Key, Graph]):
    """Graphs of one kind, by what they are of: at hand, kept, or extracted by a child process."""

    def __init__(
        self, kind: str, parse: Callable[[Any], Graph], *, at_hand: int, at_once: int
    ) -> None:
        """Begin with none.

        Args:
            kind: first word of what `python -m networks.extraction` is asked, and of kept names.
            parse: makes a graph of its fields.
            at_hand: how many are, those that were asked for last.
            at_once: how many one child process extracts: it loads its framework once for them.
        """
        self._kind, self._parse = kind, parse
        self._at_hand, self._at_once = at_hand, at_once
        self._latest: OrderedDict[Key, Graph] = OrderedDict()
        self._lock = Lock()

    def get(self, wanted: Iterable[Key]) -> dict[Key, Graph]:
        """Return graphs; child processes extract those that are neither at hand nor kept.

        That takes two seconds for each process, one a core, and some tenths for each graph of
        PyTorch.

        Raises:
            RuntimeError: a child process failed; the message has the end of what it wrote.
        """
        keys = list(dict.fromkeys(wanted))
        with self._lock:
            graphs = {key: self._latest[key] for key in keys if key in self._latest}
        for key in keys:
            if key not in graphs and (graph := self._kept(key)) is not None:
                graphs[key] = graph
        if missing := [key for key in keys if key not in graphs]:
            graphs |= self._extracted(missing)
        with self._lock:
            for key, graph in graphs.items():
                self._latest[key] = graph
                self._latest.move_to_end(key)
            while len(self._latest) > self._at_hand:
                self._latest.popitem(last=False)
        return {key: graphs[key] for key in keys}

    def _extracted(self, missing: Sequence[Key]) -> dict[Key, Graph]:
        """Return graphs that child processes extract, and keep them."""
        graphs, cores = dict[Key, Graph](), len(os.sched_getaffinity(0))
        at_once = min(self._at_once, max(ceil(len(missing) / cores), _FEWEST_AT_ONCE))
        batches = [missing[at : at + at_once] for at in range(0, len(missing), at_once)]
        for at in range(0, len(batches), cores):
            together = batches[at : at + cores]
            with ExitStack() as ending:  # all of them end where nobody wants their graphs any more
                started = [
                    ending.enter_context(
                        extracting(
                            f"the graph of {batch[0][0]}",
                            [self._kind, *(":".join(map(str, key)) for key in batch)],
                            sharing=len(together),
                        )
                    )
                    for batch in together
                ]
                for batch, lines in zip(together, started, strict=True):
                    for key, text in zip(batch, lines()[-len(batch) :], strict=True):
                        graphs[key] = self._parse(json.loads(text))
                        keep(self._name(key), text)
        return graphs

    def _name(self, key: Key) -> str:
        return "-".join(map(str, (self._kind, *key)))

    def _kept(self, key: Key) -> Graph | None:
        """Return a graph that was kept, None if it was not, or what is there is none."""
        try:
            fields = kept(self._name(key))
            return None if fields is None else self._parse(fields)
        except (ValueError, TypeError, KeyError, AttributeError):
            return None


@contextmanager
def extracting(
    what: str, arguments: Sequence[str], sharing: int = 1
) -> Iterator[Callable[[], list[str]]]:
    """Yield what waits for the lines that a child process writes; it ends with the block.

    Args:
        what: is extracted, in words.
        arguments: of `networks.extraction`.
        sharing: how many such processes share the memory of this machine.

    Raises:
        RuntimeError: it failed, or took too long.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TF_USE_LEGACY_KERAS": "1",
    }
    command = [sys.executable, "-m", "networks.extraction", *arguments]
    memory_bytes = most_memory_bytes() // sharing
    with child_process(
        command, timeout_s=_TIMEOUT_S, memory_bytes=memory_bytes, environment=environment
    ) as ended:

        def lines() -> list[str]:
            code, written, last = ended()
            if not code and code is not None:
                # TensorFlow may write lines of its own before.
                return [line.decode() for line in written]
            reason = f": {explain_missing(last) or last}"
            if code is None:
                reason = f" within {_TIMEOUT_S:g} s"
            elif code < 0:
                reason = (
                    f": {signal.Signals(-code).name} ended the process, as where memory or "
                    "processor time runs out"
                )
            raise RuntimeError(f"{what} could not be extracted{reason}")

        yield lines


@contextmanager
def child_process(
    command: Sequence[str],
    *,
    timeout_s: float,
    memory_bytes: int,
    environment: Mapping[str, str],
    folder: Path | None = None,
    with_descendants: bool = False,
    most_bytes: int | None = None,
) -> Iterator[Callable[[], tuple[int | None, list[bytes], str]]]:
    """Run a program while the block lasts; yield what waits for its end.

    That returns its exit code, None if it takes longer than `timeout_s` from then on; the lines
    that it wrote, of their end no more than `most_bytes`; and the last one that it said to stderr.
    """
    limited = bound(
        command,
        memory_bytes=memory_bytes,
        cpu_s=(1 + round(timeout_s)) * (os.cpu_count() or 1),
        with_descendants=with_descendants,
    )
    with TemporaryFile() as out, TemporaryFile() as errors:
        child = subprocess.Popen(
            limited,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            start_new_session=True,
        )

        def ended() -> tuple[int | None, list[bytes], str]:
            try:
                code = child.wait(timeout_s)
            except subprocess.TimeoutExpired:
                return None, [], ""
            said = _end_of(errors, _SAID_BYTES).decode(errors="replace").split("\n")
            last = next((line.strip() for line in reversed(said) if line.strip()), "")
            return code, _end_of(out, most_bytes).splitlines(), last or "it said nothing"

        try:
            yield ended
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def _end_of(file: IO[bytes], most: int | None) -> bytes:
    length = file.seek(0, os.SEEK_END)
    file.seek(0 if most is None else max(length - most, 0))
    return file.read()
