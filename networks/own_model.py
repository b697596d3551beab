"""The graph of a user's own model, extracted in a child process that imports nothing of ours."""

import json
import subprocess
import sys
from pathlib import Path

from networks.primitives import PrimitiveGraph

_PROGRAM = Path(__file__).with_name("traced.py")
_TIMEOUT_S = 300.0
_MOST_BYTES = 64 << 20


class NoGraph(ValueError):
    """A model of a user has no graph; the message says why and what to do."""


def own_graph(
    target: str, batch_size: int, folder: Path, timeout_s: float = _TIMEOUT_S
) -> PrimitiveGraph:
    """Return the graph of what a user's function makes.

    Args:
        target: `package.module:function`. The function returns a torch.nn.Module and an example
            batch; it is given `batch_size`, if it takes such an argument.
        batch_size: images of a step on each device.
        folder: from which its package is imported.
        timeout_s: after which the child process is ended.

    Raises:
        NoGraph: there is none; the message says why.
    """
    if ":" not in target:
        raise NoGraph(f"{target}: expected package.module:function")
    asked = {
        "target": target,
        "batch_size": batch_size,
        "folders": [str(folder)],
        "hidden": sorted(_ours()),
    }
    try:
        child = subprocess.run(
            [sys.executable, "-P", str(_PROGRAM), json.dumps(asked)],
            cwd=folder,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NoGraph(f"{target}: nothing came of it in {timeout_s:g} s; make it quicker") from None
    lines = child.stdout[:_MOST_BYTES].splitlines()
    if child.returncode or not lines:
        said = child.stderr.decode(errors="replace").strip().splitlines() or ["it wrote nothing"]
        raise NoGraph(f"{target}: its process ended with {child.returncode}: {said[-1]:.300}")
    told = json.loads(lines[-1])
    if "error" in told:
        raise NoGraph(told["error"])
    return PrimitiveGraph.of(told["graph"])


def _ours() -> set[str]:
    """Return the names of this project's packages: users have some of the same names."""
    root = Path(__file__).parents[1]
    return {path.parent.name for path in root.glob("*/__init__.py")} | {"tests"}
