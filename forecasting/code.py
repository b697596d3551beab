"""What names the code that fits systems: a digest of it, of its data and of its libraries."""

from functools import cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path

from networks import kept_graphs

_ROOT = Path(__file__).parents[1]
_ROOMS = ("models", "warehouse")
"""What systems may import of this project, beside networks, which `kept_graphs.digest` names."""
_ROWS = (
    "forecasting/fits.py",
    "profilers/clusters/node_types.py",
    "profilers/clusters/node_types.yaml",
)
"""What says which rows a fit sees, beside views, and which nodes they are of."""
_LIBRARIES = ("numpy", "numba", "polars", "scikit-learn", "scipy", "statsmodels", "xgboost")


@cache
def code_digest() -> str:
    """Return what names the code that fits systems and makes their forecasts.

    It is of all files of models, networks and the warehouse, of what says which rows a fit sees,
    and of the releases of frameworks and numeric libraries: what else a commit changes, it does
    not tell.
    """
    content = sha256(kept_graphs.digest().encode())
    within = (path for room in _ROOMS for path in (_ROOT / room).rglob("*"))
    for path in sorted([*within, *(_ROOT / file for file in _ROWS)]):
        if path.is_file() and "__pycache__" not in path.parts:
            content.update(f"{path.relative_to(_ROOT)}\n".encode() + path.read_bytes())
    for name in _LIBRARIES:
        content.update(f"{name} {metadata.version(name)}\n".encode())
    return f"code:{content.hexdigest()[:16]}"
