"""Slices of a thread never overlap, whatever ran at once, and everything has a name."""

import json
from collections import defaultdict
from itertools import pairwise
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from models.async_sgd.timeline import (
    INTERVALS,
    STEPS,
    Timeline,
    assign_lanes,
    chrome_trace,
    timeline_of_trace,
)
from tests.models.async_sgd.graphs import job, random_ops, run


def timeline(*rows: tuple[int, str, int | None, int, int]) -> Timeline:
    """Return a timeline of (worker, resource, server, start, end), one step per worker."""
    made = [
        (worker, 7, i, f"{resource}{i}", resource, server, start, end, 5.0)
        for i, (worker, resource, server, start, end) in enumerate(rows)
    ]
    intervals = pl.DataFrame(made, schema=INTERVALS, orient="row")
    steps = [(worker, 7, 0, 100) for worker in sorted({row[0] for row in rows})]
    return Timeline(pl.DataFrame(steps, schema=STEPS, orient="row"), intervals)


def events(shown: Timeline) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(chrome_trace(shown, {}))["traceEvents"]
    return found


def threads(shown: Timeline) -> dict[tuple[int, int], str]:
    return {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events(shown)
        if event["name"] == "thread_name"
    }


def test_what_overlaps_goes_to_another_thread() -> None:
    shown = timeline(
        (0, "worker", None, 0, 10),
        (0, "worker", None, 5, 15),
        (0, "worker", None, 10, 20),
        (0, "worker", None, 15, 16),
        (0, "downlink", 0, 0, 4),
    )
    names = threads(shown)
    assert list(names.values()) == ["steps", "downlink", "compute", "compute (2)"]
    slices = {event["name"]: event for event in events(shown) if event["ph"] == "X"}
    of = {name: names[one["pid"], one["tid"]] for name, one in slices.items()}
    assert of == {
        "step 7": "steps",
        "downlink4": "downlink",
        "worker0": "compute",
        "worker1": "compute (2)",
        "worker2": "compute",
        "worker3": "compute (2)",
    }
    assert slices["worker1"] == {
        "ph": "X", "name": "worker1", "cat": "compute", "pid": 0, "tid": 3, "ts": 5, "dur": 10,
        "args": {"step": 7, "operation": 1},
    }  # fmt: skip
    assert slices["downlink4"]["args"]["size_bytes"] == 5.0


def test_every_worker_is_a_process_and_every_server_has_lanes() -> None:
    shown = timeline((0, "uplink", 0, 0, 1), (1, "uplink", 1, 0, 1), (1, "ps", 1, 1, 2))
    processes = [
        event["args"]["name"] for event in events(shown) if event["name"] == "process_name"
    ]
    assert processes == ["worker 0", "worker 1"]
    lanes_of = ["steps", "uplink 0", "uplink 1", "server 1"]
    assert list(threads(shown).values()) == lanes_of * 2


def test_the_trace_says_what_it_is_of() -> None:
    whole = json.loads(chrome_trace(timeline((0, "ps", 0, 0, 1)), {"scenario": "a, W=1"}))
    assert whole["otherData"] == {"scenario": "a, W=1"}
    assert whole["displayTimeUnit"] == "ms"


def test_there_are_no_more_lanes_than_run_at_once() -> None:
    shown = timeline(*((0, "worker", None, i, i + 3) for i in range(30)))
    assert assign_lanes(shown.intervals)["lane"].max() == 2


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), threads=st.sampled_from([1, 4]))
def test_slices_of_a_thread_are_apart_and_all_there(seed: int, threads: int) -> None:
    ops = random_ops(seed, 25)
    trace = run(*ops, workers=3, steps=9, inter_op_threads=threads, record=True, window_bytes=300)
    shown = timeline_of_trace([job(*ops)[0]] * 3, trace, skip=1, count=2)
    by_thread = defaultdict(list)
    for event in events(shown):
        if event["ph"] == "X":
            assert isinstance(event["ts"], int) and isinstance(event["dur"], int)
            by_thread[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert sum(map(len, by_thread.values())) == shown.intervals.height + shown.steps.height
    for slices in by_thread.values():
        slices.sort()
        assert all(end <= start for (_, end), (start, _) in pairwise(slices))
