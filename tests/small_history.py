"""A small history: a round of a PyTorch study and a part of a TensorFlow one, as they are kept."""

from pathlib import Path

from pipelines.reproduction import reproduce
from studies.messages import Progress
from tests.reference import REFERENCE
from warehouse.sets import copy_kept_runs, kept_runs

PYTORCH, TENSORFLOW = "variance", "reference_async_small_batch"


def build(folder: Path) -> Path:
    """Return a home with the last round of `variance`, and small_cnn of the other study."""
    copy_kept_runs(REFERENCE, folder / "runs", _chosen())
    home = folder / "home"
    home.mkdir()
    reproduce(folder / "runs", home, Progress(), [PYTORCH, TENSORFLOW])
    return home


def _chosen() -> list[str]:
    return [
        run.run_id
        for run in kept_runs(REFERENCE)
        if (run.study, run.repeat) == (PYTORCH, 10)
        or (run.study == TENSORFLOW and run.config.get("link_mbps") == 200.0)
    ]
