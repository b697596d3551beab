"""The graph of a user's own model, extracted in a child process that imports nothing of ours."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import IO

from networks.catalogue import OWN
from networks.primitives import PrimitiveGraph

_PROGRAM = Path(__file__).with_name("own_program.py")
_TIMEOUT_S = 300.0
_MOST_BYTES = 64 << 20
_SAID_BYTES = 4096


class NoGraph(ValueError):
    """A model of a user has no graph; the message says why and what to do."""


def own_graph(
    target: str, batch_size: int, folder: Path, timeout_s: float = _TIMEOUT_S
) -> PrimitiveGraph:
    """Return the graph of what a user's function makes; equal graphs have equal names.

    Args:
        target: `package.module:function`. The function returns a torch.nn.Module and an example
            batch; it is given `batch_size`, if it takes such an argument.
        batch_size: images of a step on each device.
        folder: from which its package is imported.
        timeout_s: after which the child process is ended.

    Raises:
        NoGraph: there is none; the message says why.
    """
    told = _told(target, batch_size, folder, timeout_s)
    if "error" in told:
        raise NoGraph(told["error"])
    try:
        graph = PrimitiveGraph.of(told["graph"])
    except ValueError as error:
        raise NoGraph(f"{target}: its graph is none that systems read: {error}") from None
    return replace(graph, dnn=_name(graph))


def _name(graph: PrimitiveGraph) -> str:
    fields = asdict(replace(graph, dnn=""))
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return OWN + sha256(text.encode()).hexdigest()[:8]


def _told(
    target: str, batch_size: int, folder: Path, timeout_s: float
) -> dict[str, dict[str, str]]:
    """Return what the child process wrote.

    Raises:
        NoGraph: it wrote nothing, or not in time.
    """
    asked = {
        "target": target,
        "batch_size": batch_size,
        "folders": [str(folder)],
        "hidden": hidden(),
    }
    command = [sys.executable, "-P", str(_PROGRAM), json.dumps(asked)]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        code = _ended(command, folder, out, errors, timeout_s)
        if code is None:
            raise NoGraph(
                f"{target}: nothing came of it in {timeout_s:g} s; let it build the model and "
                "return, without loading data or training"
            )
        lines = _end_of(out, _MOST_BYTES).splitlines()
        said = _end_of(errors, _SAID_BYTES).decode(errors="replace").split("\n")
    try:
        told = json.loads(lines[-1])
        if isinstance(told, dict) and told.keys() & {"graph", "error"}:
            return told
    except (IndexError, ValueError):
        pass
    last = next((line.strip() for line in reversed(said) if line.strip()), "it said nothing")
    raise NoGraph(
        f"{target}: its process ended with exit code {code} before it returned: {last:.300}"
    )


def _ended(
    command: list[str], folder: Path, out: IO[bytes], errors: IO[bytes], timeout_s: float
) -> int | None:
    """Return the exit code of a program, None if it took too long; nothing of it goes on."""
    child = subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=errors,
        start_new_session=True,
    )
    try:
        return child.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()


def _end_of(file: IO[bytes], most: int) -> bytes:
    length = file.seek(0, os.SEEK_END)
    file.seek(max(length - most, 0))
    return file.read()


def hidden() -> list[str]:
    """Return the names of this project's packages: users have some of the same names."""
    root = Path(__file__).parents[1]
    return sorted({path.parent.name for path in root.glob("*/__init__.py")} | {"tests"})
