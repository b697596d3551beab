"""Traces as torch.profiler exports them, of operators that launch one kernel each."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from profilers.readers import kineto
from profilers.readers.contract import ReaderOptions

ISSUE_US, OTHERS_US = 10.0, 500.0
"""From one operator to the next, and what a step takes beside them."""
PRODUCT = ("aten::mm", [[512, 1024], [1024, 256]], ["c10::BFloat16"] * 2, ["", ""], "nvjet")


def events(calls: Sequence[tuple[Any, ...]], steps: int = 2) -> list[dict[str, Any]]:
    """Return events of steps, each of the same calls: name, dims, types, values, kernel, us."""
    made: list[dict[str, Any]] = []
    step_us = ISSUE_US * len(calls) + OTHERS_US

    def add(cat: str, name: str, ts: float, dur: float, **args: Any) -> None:
        ids = {"pid": 0, "tid": 7} if cat == "kernel" else {"pid": 9, "tid": 9}
        made.append(
            {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "args": args, **ids}
        )

    for step in range(steps):
        start = 1000.0 + step * step_us
        add("user_annotation", f"ProfilerStep#{step}", start, step_us)
        for place, (name, dims, types, values, kernel, us) in enumerate(calls):
            at, correlation = start + place * ISSUE_US, 1 + step * len(calls) + place
            given = {"Input Dims": dims, "Input type": types, "Concrete Inputs": values}
            add("cpu_op", name, at, ISSUE_US - 1, **given)
            add("cuda_runtime", "cudaLaunchKernel", at + 2, 3, correlation=correlation)
            add("kernel", kernel, at + 50, us, correlation=correlation)
    return made


def write_trace(path: Path, calls: Sequence[tuple[Any, ...]], gpu: str = "NVIDIA L4") -> Path:
    """Write a trace of two steps on a GPU."""
    about = {"schemaVersion": 1, "record_shapes": 1, "deviceProperties": [{"name": gpu}]}
    path.write_text(json.dumps({**about, "traceEvents": events(calls)}))
    return path


def trace_tables(path: Path, node_type: str) -> Mapping[str, pl.DataFrame]:
    """Return tables of a trace as they land, of run `trace`."""
    (run,) = kineto.read(path, ReaderOptions(worker=node_type))
    config = json.dumps({**run.config, "worker": node_type})
    about = {"run_id": "trace", "probe": "kineto", "status": "ok", "config": config}
    tables = {name: rows.with_columns(run_id=pl.lit("trace")) for name, rows in run.tables.items()}
    source = pl.DataFrame({"run_id": "trace", "source": "your trace step.json"})
    return {**tables, "run": pl.DataFrame(about), "source": source}
