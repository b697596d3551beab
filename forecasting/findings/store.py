"""Findings that take long to compute, kept in the home by the rows and the code they rest on."""

import io
import json
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from importlib import metadata
from pathlib import Path

import polars as pl
from polars.exceptions import PolarsError

from forecasting import code
from models.predictddl.training_set import TrainingSet
from profilers.steady.host import host_id
from warehouse.durable_files import write_bytes
from warehouse.home import CHECKOUT, HISTORY
from warehouse.landing import run_folders

_PART_BYTES = 2**20
_COMPILED = "__pycache__"
"""What Python and Numba write while programs run is no code."""
FOLDER = "findings"
"""In a home: a file for each finding of a round, whose name ends with what it rests on."""
_LIBRARIES = (
    "numpy", "polars", "pytorchcv", "scikit-learn", "scipy", "statsmodels", "torch", "xgboost",
)  # fmt: skip
_PACKAGES = (
    "assets", "fleet", "forecasting", "models", "networks", "pipelines", "profilers", "reports",
    "studies", "warehouse",
)  # fmt: skip
"""What a report is made with."""


class Store:
    """Frames that were computed for one round; what rests on other rows or code is computed anew.

    Args:
        home: where they are kept; None: nowhere.
        of: the round: each finding of it is kept once.
    """

    def __init__(self, home: Path | None = None, of: str = "") -> None:
        self._folder, self._of = home and home / FOLDER, of

    def frame(
        self, name: str, module: str, rests_on: str, compute: Callable[[], pl.DataFrame]
    ) -> pl.DataFrame:
        """Return a frame as it is kept, else compute and keep it.

        Args:
            name: of the finding.
            module: whose code computes it, with all that it imports of Stepcast.
            rests_on: what names the rows: `digest`, `known_digest`, `forecasting.fits.data_hash`.
            compute: makes the frame.
        """
        if self._folder is None:
            return compute()
        key = digest(name, code.digest((module,), _PACKAGES), rests_on)
        file = self._folder / f"{self._of}.{name}.{key}.arrow"
        # One that is damaged is made again.
        with suppress(OSError, PolarsError):
            return pl.read_ipc(io.BytesIO(file.read_bytes()))
        made, buffer = compute(), io.BytesIO()
        made.write_ipc(buffer)
        self._keep(self._folder, name, file, buffer.getvalue())
        return made

    def texts(self, name: str, rests_on: str, compute: Callable[[], list[str]]) -> list[str]:
        """Return texts as they are kept, else compute and keep them; see `frame`."""
        if self._folder is None:
            return compute()
        file = self._folder / f"{self._of}.{name}.{digest(name, rests_on)}.json"
        # One that is damaged is made again.
        with suppress(OSError, ValueError):
            kept = json.loads(file.read_bytes())
            if isinstance(kept, list) and all(isinstance(text, str) for text in kept):
                return kept
        made = compute()
        self._keep(self._folder, name, file, json.dumps(made).encode())
        return made

    def _keep(self, folder: Path, name: str, file: Path, content: bytes) -> None:
        # A home that cannot be written is read all the same.
        with suppress(OSError):
            folder.mkdir(exist_ok=True)
            write_bytes(file, content)
            for other in folder.glob(f"{self._of}.{name}.*{file.suffix}"):
                if other != file:
                    other.unlink(missing_ok=True)


def digest(*parts: str) -> str:
    """Return what names some texts."""
    return sha256("\n".join(f"{len(part)} {part}" for part in parts).encode()).hexdigest()[:16]


def known_digest(known: TrainingSet) -> str:
    """Return what names runs that were measured, what their nodes can do, and the embedder."""
    weights = sha256()
    for name, values in sorted(known.embedder.parameters.items()):
        weights.update(name.encode() + values.tobytes())
    return digest(
        *(f"{run.scenario.canonical_json()} {run.step_s!r}" for run in known.runs),
        repr(sorted((name, sorted(of.items())) for name, of in known.measured.items())),
        weights.hexdigest(),
    )


def home_digest(home: Path, *others: Path) -> str:
    """Return what names a home's history and landed runs, other files, this host, code, libraries.

    A landed run never changes, so its name is enough.
    """
    content = sha256(f"{host_id()}\n".encode())
    for library in (*_LIBRARIES, "duckdb", "matplotlib"):
        content.update(f"{library} {metadata.version(library)}\n".encode())
    for folder in run_folders(home / "landing"):
        content.update(f"{folder.name}\n".encode())
    files = (path for name in _PACKAGES for path in sorted((CHECKOUT / name).glob("**/*")))
    for path in (home / HISTORY, *others, *(path for path in files if _COMPILED not in path.parts)):
        if path.is_file():
            content.update(f"{path.name} {path.stat().st_size}\n".encode())
            with path.open("rb") as file:
                while part := file.read(_PART_BYTES):
                    content.update(part)
    return content.hexdigest()[:16]
