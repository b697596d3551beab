"""The folder of a job: its state, and the log of what happened to it, for whoever goes on."""

import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

import polars as pl
from pydantic import AwareDatetime, JsonValue

from pipelines.runtime import messages
from pipelines.runtime.job_file import TrainingJob
from pipelines.runtime.state import JobState
from profilers import clock
from warehouse.durable_files import Appender, read_whole_records, sweep, write_bytes
from warehouse.fields import checked_name
from warehouse.records import BadInput, Record, Run, StepcastError

_BEGIN = re.compile(r'\{"at_s":')
_SCHEMA = {
    "at_s": pl.Float64,
    "event": pl.String,
    "node": pl.String,
    "node_type": pl.String,
    "step": pl.Int64,
    "detail": pl.String,
}


class EventLogEntry(Record):
    """One row: when, since the job began, what happened, to which node, at which iteration."""

    at_s: float
    event: str
    node: str | None = None
    node_type: str | None = None
    step: int | None = None
    detail: Mapping[str, JsonValue] = {}


def log_entries(
    before: JobState, event: messages.Event, decisions: Sequence[messages.Decision], after: JobState
) -> Iterator[EventLogEntry]:
    """Yield what an event and the decisions that it led to add to the story."""

    def entry(
        kind: str,
        detail: Mapping[str, JsonValue] = {},
        *,
        name: str | None = None,
        step: int | None = None,
    ) -> EventLogEntry:
        node = None if name is None else before.node(name) or after.node(name)
        return EventLogEntry(
            at_s=after.at_s,
            event=kind,
            node=name,
            node_type=node and node.node_type,
            step=step,
            detail=detail,
        )

    limits: dict[str, JsonValue] = {
        "iterations": after.iterations,
        "deadline_s": after.deadline_s,
        "budget_usd": after.budget_usd,
    }
    match event:
        case messages.JobStarted():
            yield entry("began", limits)
        case messages.JobResumed(step):
            yield entry("resumed", step=step)
        case messages.NodeReady(name) if (node := before.node(name)) and node.up_s is None:
            yield entry("launched", name=name)
        case messages.TrainingFailed(name, error) if (
            before.broken is None and after.broken is not None
        ):
            yield entry("broken", {"error": error}, name=name)
        case messages.CheckpointSaved(step, asked):
            yield entry("saved", {"asked": asked}, step=step)
        case messages.UserChoice(way):
            yield entry("answered", {"answer": way.text if way else "abort", **limits})
    for decision in decisions:
        match decision:
            case messages.CarryOutPlan(plan):
                expected: dict[str, JsonValue] = {
                    "configuration": plan.forecast.configuration.label,
                    "train_s": plan.forecast.time_s,
                    **plan.model_dump(exclude={"forecast"}),
                }
                yield entry("planned", expected, step=after.iterations - plan.iterations)
            case messages.LaunchNode(name, kind):
                yield entry("launch", {"market": kind.market}, name=name)
            case messages.ReleaseNode(name, None):
                yield entry("released", name=name)
            case messages.ReleaseNode(name, reason):
                yield entry("lost", {"reason": reason}, name=name)
            case messages.SaveCheckpoint(saver):
                yield entry("saving", name=saver)
            case messages.StartTraining(nodes, batches, step, incarnation):
                ranks: dict[str, JsonValue] = {"nodes": list(nodes), "batches": list(batches)}
                yield entry("training", {**ranks, "incarnation": incarnation}, step=step)
            case messages.AskUser(infeasible):
                ways: list[JsonValue] = [way.text for way in infeasible.ways]
                yield entry("asked", {"reason": infeasible.reason, "ways": ways})
            case messages.EndJob(None):
                yield entry("finished", {"cost_usd": after.spent_usd}, step=after.step)
            case messages.EndJob(why):
                ended: dict[str, JsonValue] = {"error": why, "cost_usd": after.spent_usd}
                yield entry("aborted", ended, step=after.step)


def progress_entry(state: JobState, step: int) -> EventLogEntry:
    """Return how far training has come."""
    return EventLogEntry(at_s=state.at_s, event="progress", step=step)


def frame(story: Iterable[EventLogEntry]) -> pl.DataFrame:
    """Return entries as table runtime_event."""
    rows = [{**event.model_dump(), "detail": json.dumps(dict(event.detail))} for event in story]
    return pl.DataFrame(rows, schema=_SCHEMA)


def read(file: Path) -> list[EventLogEntry]:
    """Return the entries of a file, JSON objects, that are whole; none if there is no file."""
    return list(read_whole_records(file, _BEGIN, EventLogEntry.model_validate))


PROBE = "train"
_STATE, _STORY = "state.json", "story.jsonl"


class StoredAttempt(Record):
    """What is known of an attempt.

    `began_counted_s` is when it began by `profilers.clock.counted_ns` of the machine that started
    as `boot_id`. `run_id` is what its run is called, and `run` what lands, once it is over.
    Attempts without a `run_id` are of earlier versions: what is over of them has landed, or cannot
    any more.
    """

    training_id: str
    began_at: AwareDatetime
    state: JobState
    boot_id: str = ""
    began_counted_s: float = 0.0
    run_id: str = ""
    run: Run | None = None
    landed: bool = False

    def here(self) -> "StoredAttempt":
        """Return this with the name of its run, and with when it began by this machine's count.

        Only where the machine has restarted since, or is another, the wall clock tells how long
        ago that was: at least as long as what is known took.
        """
        run_id = self.run_id or f"{self.began_at:%Y%m%dT%H%M%S}-{PROBE}-{uuid.uuid4().hex[:8]}"
        changes: dict[str, object] = {"run_id": run_id}
        if self.boot_id != clock.boot_id():
            ago_s = max((clock.now() - self.began_at).total_seconds(), self.state.at_s)
            changes |= {"boot_id": clock.boot_id(), "began_counted_s": _counted_s() - ago_s}
        return self.model_copy(update=changes)


class JobStore:
    """Keeps one attempt at a job in `folder`; a context manager that closes its file."""

    def __init__(self, folder: Path, attempt: StoredAttempt) -> None:
        self.folder, self.attempt = folder, attempt.here()
        self._story = Appender(folder / _STORY)

    @classmethod
    def open(cls, home: Path, job: TrainingJob) -> "JobStore":
        """Return the attempt at a job that has not ended and landed, else a new one.

        Raises:
            BadInput: that attempt trains something else, or the job's name cannot name a folder.
        """
        attempts = home / "training" / checked_name(job.name, "job")
        attempts.mkdir(parents=True, exist_ok=True)
        for file in sorted(attempts.glob(f"*/{_STATE}")):
            attempt = StoredAttempt.model_validate_json(file.read_text())
            if attempt.landed or (attempt.state.over and not attempt.run_id):
                continue
            if attempt.training_id != job.training_id:
                raise BadInput(
                    f"job {job.name} has an unfinished attempt in {file.parent} that trains "
                    "something else; give this one another name, or remove that folder"
                )
            sweep(file.parent)
            return cls(file.parent, attempt)
        now = clock.now()
        folder = attempts / f"{now:%Y%m%dT%H%M%S.%f}"
        folder.mkdir()
        attempt = StoredAttempt(training_id=job.training_id, began_at=now, state=job.state())
        return cls(folder, attempt)

    @property
    def state(self) -> JobState:
        """Where the job stands."""
        return self.attempt.state

    @property
    def story(self) -> list[EventLogEntry]:
        """What has happened so far, in all controllers' lives."""
        return read(self.folder / _STORY)

    def now_s(self) -> float:
        """Return how long ago the job began, also if that was another controller's doing.

        Nobody who sets the wall clock changes it.
        """
        return _counted_s() - self.attempt.began_counted_s

    def keep(self, state: JobState, story: Sequence[EventLogEntry]) -> None:
        """Remember a state; on disk, both or neither, where there is something to tell.

        Raises:
            StepcastError: they could not be written, for example to a full disk.
        """
        attempt = self.attempt.model_copy(update={"state": state})
        if not story:
            self.attempt = attempt
            return
        before = self._story.size
        try:
            self._story.append([entry.model_dump_json() for entry in story])
            self._story.sync()
            self._write(attempt)
        except StepcastError:
            self._story.cut(before)
            raise
        except OSError as error:
            raise self._unwritten(error) from error

    def end(self, run: Run) -> None:
        """Remember what is to land.

        Raises:
            StepcastError: it could not be written, for example to a full disk.
        """
        self._write(self.attempt.model_copy(update={"run": run}))

    def landed(self) -> None:
        """Remember that it has landed: who comes next begins anew.

        Raises:
            StepcastError: it could not be written, for example to a full disk.
        """
        self._write(self.attempt.model_copy(update={"landed": True}))

    def _write(self, attempt: StoredAttempt) -> None:
        content = attempt.model_dump_json().encode()
        try:
            write_bytes(self.folder / _STATE, content, durable=True)
        except OSError as error:
            raise self._unwritten(error) from error
        self.attempt = attempt

    def _unwritten(self, error: OSError) -> StepcastError:
        return StepcastError(
            f"what happened could not be written to {self.folder}: {error.strerror}; free some "
            "space, and the same command goes on"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._story.__exit__()


def _counted_s() -> float:
    return clock.counted_ns() / 1e9
