"""What happened to a job, in rows of table runtime_event: for people, SQL and the timeline."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl
from pydantic import JsonValue

from pipelines.runtime.plan import Plan
from pipelines.runtime.state import (
    AskUser,
    CarryOutPlan,
    CheckpointSaved,
    Decision,
    EndJob,
    Event,
    JobResumed,
    JobStarted,
    JobState,
    LaunchNode,
    NodeReady,
    ReleaseNode,
    SaveCheckpoint,
    StartTraining,
    TrainingFailed,
    UserChoice,
)
from warehouse.durable_files import read_whole_records
from warehouse.records import Record

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
    before: JobState, event: Event, decisions: Sequence[Decision], after: JobState
) -> Iterator[EventLogEntry]:
    """Yield what an event and the decisions that it led to add to the story."""
    if (told := _told(before, event, after)) is not None:
        yield told
    for decision in decisions:
        if (decided := _decided(before, decision, after)) is not None:
            yield decided


def _told(before: JobState, event: Event, after: JobState) -> EventLogEntry | None:
    match event:
        case JobStarted():
            return _entry(after, "began", detail=_limits(after))
        case JobResumed(step):
            return _entry(after, "resumed", step=step)
        case NodeReady(name) if (node := before.node(name)) and node.up_s is None:
            return _entry(after, "launched", name, node.node_type)
        case TrainingFailed(name, error) if before.broken is None and after.broken is not None:
            return _entry(after, "broken", name, _type(before, name), detail={"error": error})
        case CheckpointSaved(step, asked):
            return _entry(after, "saved", step=step, detail={"asked": asked})
        case UserChoice(way):
            detail = {"answer": way.text if way else "abort", **_limits(after)}
            return _entry(after, "answered", detail=detail)
    return None


def _decided(before: JobState, decision: Decision, after: JobState) -> EventLogEntry | None:
    match decision:
        case CarryOutPlan(plan):
            return _entry(
                after, "planned", step=after.iterations - plan.iterations, detail=_of(plan)
            )
        case LaunchNode(name, kind):
            return _entry(after, "launch", name, kind.node_type, detail={"market": kind.market})
        case ReleaseNode(name, None):
            return _entry(after, "released", name, _type(before, name))
        case ReleaseNode(name, reason):
            why: dict[str, JsonValue] = {"reason": reason}
            return _entry(after, "lost", name, _type(before, name), detail=why)
        case SaveCheckpoint(name):
            return _entry(after, "saving", name)
        case StartTraining(nodes, batches, step, incarnation):
            detail: dict[str, JsonValue] = {
                "nodes": list(nodes),
                "batches": list(batches),
                "incarnation": incarnation,
            }
            return _entry(after, "training", step=step, detail=detail)
        case AskUser(infeasible):
            ways: list[JsonValue] = [way.text for way in infeasible.ways]
            return _entry(after, "asked", detail={"reason": infeasible.reason, "ways": ways})
        case EndJob(error):
            spent: dict[str, JsonValue] = {"cost_usd": after.spent_usd}
            if error is None:
                return _entry(after, "finished", step=after.step, detail=spent)
            return _entry(after, "aborted", step=after.step, detail={"error": error, **spent})
    return None


def progress_entry(state: JobState, step: int) -> EventLogEntry:
    """Return how far training has come."""
    return _entry(state, "progress", step=step)


def stop_entry(state: JobState) -> EventLogEntry:
    """Return that the controller was told to leave."""
    return _entry(state, "stopped", detail={"cost_usd": state.spent_usd})


def frame(story: Iterable[EventLogEntry]) -> pl.DataFrame:
    """Return entries as table runtime_event."""
    rows = [{**event.model_dump(), "detail": json.dumps(dict(event.detail))} for event in story]
    return pl.DataFrame(rows, schema=_SCHEMA)


def read(file: Path) -> list[EventLogEntry]:
    """Return the entries of a file, JSON objects, that are whole; none if there is no file."""
    return list(read_whole_records(file, _BEGIN, EventLogEntry.model_validate))


def _entry(
    state: JobState,
    event: str,
    node: str | None = None,
    node_type: str | None = None,
    step: int | None = None,
    detail: Mapping[str, JsonValue] | None = None,
) -> EventLogEntry:
    return EventLogEntry(
        at_s=state.at_s,
        event=event,
        node=node,
        node_type=node_type,
        step=step,
        detail=detail or {},
    )


def _of(plan: Plan) -> dict[str, JsonValue]:
    return {
        "configuration": plan.forecast.configuration.label,
        "iterations": plan.iterations,
        "wait_s": plan.wait_s,
        "train_s": plan.forecast.time_s,
        "finish_s": plan.finish_s,
        "cost_usd": plan.cost_usd,
    }


def _limits(state: JobState) -> dict[str, JsonValue]:
    return {
        "iterations": state.iterations,
        "deadline_s": state.deadline_s,
        "budget_usd": state.budget_usd,
    }


def _type(state: JobState, name: str) -> str | None:
    node = state.node(name)
    return node.node_type if node else None
