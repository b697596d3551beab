"""A timeline as JSON that Perfetto (ui.perfetto.dev) and chrome://tracing show."""

import json
from collections.abc import Iterator, Mapping

import polars as pl

from models.async_sgd.timeline import Timeline

_LANES = {"downlink": "downlink", "worker": "compute", "uplink": "uplink", "ps": "server"}
"""What each resource's lane is called, in the order of lanes."""
_STEPS = "steps"


def lanes(intervals: pl.DataFrame) -> pl.DataFrame:
    """Add the column `lane`: no two intervals of a worker, resource, server and lane overlap.

    Each goes to the first lane that is free when it starts, so the lanes are as few as can be.
    """
    free_us: dict[tuple[object, ...], list[int]] = {}
    found = []
    ordered = intervals.sort("start_us", "end_us", "worker", "resource", "server", "operation")
    columns = ["worker", "resource", "server", "start_us", "end_us"]
    for worker, resource, server, start_us, end_us in ordered.select(columns).iter_rows():
        ends_us = free_us.setdefault((worker, resource, server), [])
        lane = next((i for i, end in enumerate(ends_us) if end <= start_us), len(ends_us))
        ends_us[lane : lane + 1] = [end_us]
        found.append(lane)
    return ordered.with_columns(lane=pl.Series(found, dtype=pl.Int32))


def chrome_trace(timeline: Timeline, about: Mapping[str, str | int | float]) -> str:
    """Return a timeline as Chrome trace events (the "JSON Object Format").

    A worker is a process; its steps, and each resource and server, are threads. What overlaps on
    one resource goes to further threads, so that slices of a thread never do. Times are whole
    microseconds. `about` is kept with the trace.
    """
    placed = lanes(timeline.intervals)
    threads = _threads(placed)
    events = [
        *_names(timeline.workers, threads),
        *_steps(timeline.steps),
        *_slices(placed, threads),
    ]
    whole = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": dict(about)}
    return json.dumps(whole, separators=(",", ":"))


Lane = tuple[str, int | None, int]
"""Resource, server, and number among the lanes of both."""


def _threads(placed: pl.DataFrame) -> dict[Lane, tuple[int, str]]:
    """Return the number and name of the thread of each lane; steps are thread 0."""
    order = {resource: place for place, resource in enumerate(_LANES)}
    found = sorted(
        placed.select("resource", "server", "lane").unique().iter_rows(),
        key=lambda lane: (order[lane[0]], lane[1] or 0, lane[2]),
    )
    servers = len({server for _, server, _ in found if server is not None})
    return {lane: (number, _name(lane, servers > 1)) for number, lane in enumerate(found, start=1)}


def _name(lane: Lane, several: bool) -> str:
    resource, server, number = lane
    whose = f" {server}" if several and server is not None else ""
    return f"{_LANES[resource]}{whose}" + (f" ({number + 1})" if number else "")


def _names(
    workers: list[int], threads: Mapping[Lane, tuple[int, str]]
) -> Iterator[dict[str, object]]:
    for worker in workers:
        yield _meta("process_name", worker, 0, {"name": f"worker {worker}"})
        yield _meta("process_sort_index", worker, 0, {"sort_index": worker})
        for number, name in ((0, _STEPS), *threads.values()):
            yield _meta("thread_name", worker, number, {"name": name})
            yield _meta("thread_sort_index", worker, number, {"sort_index": number})


def _meta(name: str, worker: int, thread: int, args: Mapping[str, object]) -> dict[str, object]:
    return {"ph": "M", "name": name, "pid": worker, "tid": thread, "args": dict(args)}


def _steps(steps: pl.DataFrame) -> Iterator[dict[str, object]]:
    columns = ["worker", "step", "start_us", "end_us"]
    for worker, step, start_us, end_us in steps.select(columns).iter_rows():
        yield _slice(f"step {step}", _STEPS, (worker, 0), (start_us, end_us), {"step": step})


def _slices(
    placed: pl.DataFrame, threads: Mapping[Lane, tuple[int, str]]
) -> Iterator[dict[str, object]]:
    for row in placed.iter_rows(named=True):
        thread, _ = threads[row["resource"], row["server"], row["lane"]]
        args = {"step": row["step"], "operation": row["operation"]}
        if row["resource"] in ("downlink", "uplink"):
            args["size_bytes"] = row["size_bytes"]
        place, times_us = (row["worker"], thread), (row["start_us"], row["end_us"])
        yield _slice(row["name"], _LANES[row["resource"]], place, times_us, args)


def _slice(
    name: str,
    category: str,
    place: tuple[int, int],
    times_us: tuple[int, int],
    args: Mapping[str, object],
) -> dict[str, object]:
    start_us, end_us = times_us
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": place[0],
        "tid": place[1],
        "ts": start_us,
        "dur": end_us - start_us,
        "args": dict(args),
    }
