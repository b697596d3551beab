"""Embedders of DNNs' graphs: those that are shipped, and training others in a home."""

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from models.predictddl import ghn
from models.predictddl.datasets import dataset
from models.predictddl.ghn import Embedder
from models.predictddl.systems import PREDICTDDL, with_embedder
from models.system import System
from warehouse.durable_files import scratch, write_bytes
from warehouse.fields import checked_name
from warehouse.home import home
from warehouse.records import BadInput

if TYPE_CHECKING:
    from models.predictddl import training

SHIPPED = ghn.SHIPPED
FOLDER = "embedders"
"""Of a home: embedders that were trained there, and what their training needs to go on."""


def available_embedders() -> dict[str, Path]:
    """Return the file of each type of dataset that has an embedder; a home's own come first."""
    files = {path.stem: path for path in sorted(SHIPPED.glob("*.safetensors"))}
    own = (home() / FOLDER).glob("*.safetensors")
    return files | {path.stem: path for path in sorted(own)}


def embedder(name: str) -> Embedder:
    """Return the embedder of a type of dataset.

    Raises:
        BadInput: none was trained for it.
    """
    files = available_embedders()
    if name not in files:
        raise BadInput(
            f"no embedder for datasets of type {name!r}: there are {', '.join(files) or 'none'}; "
            "`stepcast serve --datasets FOLDER` trains one of its TYPE.npz"
        )
    return Embedder.read(files[name])


def system_of(dataset_type: str) -> System:
    """Return predictddl with the embedder of a type of dataset.

    Raises:
        BadInput: none was trained for it.
    """
    path = available_embedders().get(dataset_type)
    if path is not None and path.parent == SHIPPED:
        return PREDICTDDL
    changed_ns = 0 if path is None else path.stat().st_mtime_ns
    return _system_of(dataset_type, changed_ns)


@lru_cache(maxsize=16)
def _system_of(dataset_type: str, changed_ns: int) -> System:
    embedding = embedder(dataset_type)
    return with_embedder(f"{dataset_type}-{changed_ns}", lambda: embedding)


def train(
    name: str,
    *,
    minutes: float,
    source: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> "training.TrainingProgress":
    """Train an embedder in the home, for so long in all calls together; return how far it is.

    Raises:
        BadInput: an unknown type of dataset, one that needs a folder, or minutes of 0 or less.
    """
    if not minutes > 0:
        raise BadInput(f"expected minutes above 0, found {minutes:g}")
    from models.predictddl import training

    given = dataset(checked_name(name, "dataset"), source)
    folder = home() / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / f"{name}.0.training"
    kept = state.read_bytes() if state.exists() else None
    model, progress = training.train(
        given,
        seconds=60 * minutes,
        keep=lambda content: write_bytes(state, content),
        kept=kept,
        say=say,
    )
    path = folder / f"{name}.safetensors"
    with scratch(folder) as fresh:
        model.embedder().write(fresh)
        os.replace(fresh, path)
    return progress
