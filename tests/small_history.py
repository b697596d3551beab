"""A small history: a round of a PyTorch study and a part of a TensorFlow one, as they are kept."""

from pathlib import Path

import polars as pl

from pipelines.reproduction import reproduce
from studies.progress import Progress
from tests.reference import REFERENCE
from warehouse.copying import copy_runs

PYTORCH, TENSORFLOW = "variance", "reference_async_small_batch"


def build(folder: Path) -> Path:
    """Return a home with the last round of `variance`, and small_cnn of the other study."""
    copy_runs(REFERENCE, folder / "runs", [path.name for path in _chosen()])
    home = folder / "home"
    home.mkdir()
    reproduce(folder / "runs", home, Progress(), [PYTORCH, TENSORFLOW])
    return home


def _chosen() -> list[Path]:
    found = []
    for path in sorted(REFERENCE.iterdir()):
        if not (path / "run.parquet").exists():
            continue
        (run,) = pl.read_parquet(path / "run.parquet").to_dicts()
        if (run["study"], run["repeat"]) == (PYTORCH, 10):
            found.append(path)
        if run["study"] == TENSORFLOW and '"link_mbps": 200.0' in run["config"]:
            found.append(path)
    return found
