"""The folder of a job: its state and its story, for whoever goes on."""

import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Self, TextIO

from pydantic import AwareDatetime

from pipelines.runtime.job_file import TrainingJob
from pipelines.runtime.state import State
from pipelines.runtime.story import Entry, read
from warehouse.durable import remove, sweep, sync, temporary
from warehouse.records import BadInput, Record

_STATE, _STORY = "state.json", "story.jsonl"


class _Kept(Record):
    training_id: str
    began_at: AwareDatetime
    state: State


class Keeper:
    """Keeps one attempt at a job in `folder`; a context manager that closes its file."""

    def __init__(self, folder: Path, kept: _Kept) -> None:
        self.folder, self._kept = folder, kept
        self._story: TextIO = (folder / _STORY).open("a", buffering=1)

    @classmethod
    def open(cls, home: Path, job: TrainingJob) -> "Keeper":
        """Return the last attempt at a job if it has not ended, else a new one.

        Raises:
            BadInput: the last attempt trains something else.
        """
        attempts = home / "training" / job.name
        attempts.mkdir(parents=True, exist_ok=True)
        files = sorted(attempts.glob(f"*/{_STATE}"))
        if files and not (last := _Kept.model_validate_json(files[-1].read_text())).state.over:
            if last.training_id != job.training_id:
                raise BadInput(
                    f"job {job.name} has an unfinished attempt in {files[-1].parent} that trains "
                    "something else; give this one another name, or remove that folder"
                )
            sweep(files[-1].parent)
            return cls(files[-1].parent, last)
        now = datetime.now(UTC)
        folder = attempts / f"{now:%Y%m%dT%H%M%S.%f}"
        folder.mkdir()
        return cls(folder, _Kept(training_id=job.training_id, began_at=now, state=job.state()))

    @property
    def state(self) -> State:
        """Where the job stands."""
        return self._kept.state

    @property
    def began_at(self) -> datetime:
        """When the job began."""
        return self._kept.began_at

    @property
    def story(self) -> list[Entry]:
        """What has happened so far, in all controllers' lives."""
        return read(self.folder / _STORY)

    def now_s(self) -> float:
        """Return how long ago the job began, also if that was another controller's doing."""
        return time.time() - self._kept.began_at.timestamp()

    def keep(self, state: State, story: Sequence[Entry]) -> None:
        """Remember a state; on disk, atomically, where there is something to tell."""
        self._kept = self._kept.model_copy(update={"state": state})
        if not story:
            return
        for entry in story:
            self._story.write(entry.model_dump_json() + "\n")
        fresh = temporary(self.folder)
        try:
            fresh.write_text(self._kept.model_dump_json())
            sync(fresh)
            os.replace(fresh, self.folder / _STATE)
        finally:
            remove(fresh)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._story.close()
