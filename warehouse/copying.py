"""Landed runs, from one landing folder to another."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from warehouse.durable import remove, temporary
from warehouse.landing import ARTEFACTS


def copy_runs(
    source: Path, landing: Path, run_ids: Iterable[str], *, artefacts: bool = True
) -> int:
    """Copy those runs that `landing` lacks, each whole or not at all, and return how many.

    Their raw artefacts are copied too unless `artefacts` is false.
    """
    new = [run_id for run_id in run_ids if not (landing / run_id).exists()]
    landing.mkdir(parents=True, exist_ok=True)
    for run_id in new:
        fresh = temporary(landing)
        try:
            left_out = None if artefacts else shutil.ignore_patterns(ARTEFACTS)
            shutil.copytree(source / run_id, fresh, ignore=left_out)
            os.rename(fresh, landing / run_id)
        finally:
            remove(fresh)
    return len(new)
