"""The quarantine: what could not be loaded, out of the way of what can, each with its reason."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from warehouse.landing import QUARANTINE

REASON = "reason.txt"


@dataclass(frozen=True)
class Quarantined:
    """A landed run that could not be loaded, why, and where its files are now.

    That is the quarantine, or the landing folder where the machine could not read or move them.
    """

    run_id: str
    reason: str
    folder: Path


def set_aside(folder: Path, run_id: str, reason: str) -> Quarantined:
    """Move a folder beside landed runs to the quarantine, with its reason.

    A run that was set aside before gets a number behind its name. What the machine cannot move
    stays where it is.
    """
    target = folder.parent / QUARANTINE / run_id
    copies = 1
    while target.exists():
        copies += 1
        target = target.with_name(f"{run_id}.{copies}")
    try:
        target.parent.mkdir(exist_ok=True)
        os.rename(folder, target)
    except OSError as failure:
        return Quarantined(run_id, f"{reason}; not moved: {failure}", folder)
    with suppress(OSError):  # the disk may be full; the report has the reason too
        (target / REASON).write_text(reason + "\n")
    return Quarantined(run_id, reason, target)
