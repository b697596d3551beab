"""Kineto traces: steps, what launched what, shapes, statistics."""

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from profilers.readers.contract import ImportedRun
from tests.profilers.readers.hostile import read, refused
from tests.profilers.readers.imports import only
from warehouse import limits

BASE_NS = 1_700_000_000_000_000_000


def event(category: str, name: str, ts: float, dur: float, **args: object) -> dict[str, Any]:
    """Return an event of the main thread, or of stream 7 of the GPU."""
    pid, tid = (0, 7) if category in ("kernel", "gpu_memcpy") else (100, 100)
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": args,
    }


def step(number: int, start: float, kernel_us: float) -> list[dict[str, Any]]:
    """Return a step: linear calls addmm, which launches a kernel that ends after the step."""
    dims = {"Input Dims": [[4, 8], [], [[2], [3]]], "Input type": ["float", "Scalar", ""]}
    correlation = 10 * number
    return [
        event("user_annotation", f"ProfilerStep#{number}", start, 90.0),
        event("cpu_op", "aten::linear", start + 10, 50.0),
        # The innermost one comes first in the file and starts at the same time as its caller.
        event("cpu_op", "aten::addmm", start + 10, 30.0, **dims),
        event("cuda_runtime", "cudaLaunchKernel", start + 20, 5.0, correlation=correlation),
        event("kernel", "sgemm", start + 85, kernel_us, correlation=correlation),
        event(
            "cpu_op",
            "aten::relu",
            start + 70,
            10.5,
            **{"Input Dims": [[4]], "Input type": ["float"]},
        ),
        event(
            "cpu_op",
            "aten::relu",
            start + 82,
            1.5,
            **{"Input Dims": [[4]], "Input type": ["float"]},
        ),
    ]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rank1.pt.trace.json.gz"


def write(file: Path, events: list[dict[str, Any]], **about: object) -> None:
    file.write_bytes(gzip.compress(json.dumps({**about, "traceEvents": events}).encode()))


@pytest.fixture
def run(file: Path) -> ImportedRun:
    outside = event("cpu_op", "aten::zeros", 5.0, 3.0)
    between = event("cpu_op", "aten::zeros", 191.0, 3.0)
    write(
        file,
        [
            {"ph": "M", "name": "process_name"},
            outside,
            *step(7, 100, 20),
            between,
            *step(8, 200, 30),
        ],
        distributedInfo={"rank": 1, "world_size": 2},
        deviceProperties=[{"name": "NVIDIA H100"}],
        baseTimeNanoseconds=BASE_NS,
    )
    return only("kineto", file)


def test_operations_are_executions_of_a_step(run: ImportedRun) -> None:
    operation = run.tables["operation"].sort("operation")
    assert operation.select("name", "type", "device").rows() == [
        ("aten::linear", "aten::linear", "host"),
        ("aten::addmm", "aten::addmm", "host"),
        ("aten::relu", "aten::relu", "host"),
        ("aten::relu", "aten::relu", "host"),
        ("sgemm", "aten::addmm", "gpu"),
    ]
    assert run.config["events_outside_steps"] == 2
    assert run.left_out == {"operations outside of the steps": 2}
    assert run.notes == ()
    assert (run.config["rank"], run.config["world_size"]) == (1, 2)
    assert run.host == {"gpu": "NVIDIA H100"}


def test_a_kernel_has_the_shapes_of_its_operator(run: ImportedRun) -> None:
    shapes = run.tables["operation_shape"].join(run.tables["operation"], on="operation")
    (kernel,) = shapes.filter(device="gpu").to_dicts()
    assert json.loads(kernel["inputs"]) == [[4, 8], [], [[2], [3]]]
    assert json.loads(kernel["attributes"]) == {"types": ["float", "Scalar", ""]}
    # The type of a list's elements is not recorded.
    assert kernel["input_bytes"] is None
    assert set(shapes.filter(name="aten::relu")["input_bytes"]) == {16}


def test_times_are_of_the_step_that_launched(run: ImportedRun) -> None:
    timing = run.tables["timing"].filter(operation=4).sort("step")
    assert timing.rows() == [(7, 4, 85, 20), (8, 4, 85, 30)]
    (time,) = run.tables["operation_time"].filter(operation=4).to_dicts()
    assert (time["steps"], time["mean_us"], time["min_us"]) == (2, 25.0, 20.0)
    assert time["sd_us"] == pytest.approx(50**0.5)


def test_steps_are_in_utc(run: ImportedRun) -> None:
    rows = run.tables["step"].select("worker", "step", "start_us", "end_us").rows()
    base_us = BASE_NS // 1000
    assert rows == [(1, 7, base_us + 100, base_us + 190), (1, 8, base_us + 200, base_us + 290)]


def test_a_trace_without_annotations_is_one_step(file: Path) -> None:
    write(file, [event for event in step(7, 100, 20) if event["cat"] != "user_annotation"])
    run = only("kineto", file)
    assert "step" not in run.tables
    assert run.notes == ("no ProfilerStep in it: taken as one step",)
    assert run.tables["timing"].height == run.tables["operation"].height == 5
    assert set(run.tables["timing"]["step"]) == {0}
    assert run.tables["timing"]["start_us"].min() == 0


def test_what_no_table_has_is_counted(file: Path) -> None:
    others = [
        *[event("mtia_ccp_events", "pe_exe", 1, 9)] * 3,
        event("user_annotation", "mine", 1, 9),
        {**event("cpu_op", "aten::mm", 1, 9), "ph": "B"},
        *[{"ph": phase, "cat": "ac2g", "name": "ac2g"} for phase in "Msf"],
    ]
    write(file, [*others, event("cpu_op", "aten::relu", 1, 2)])
    assert only("kineto", file).left_out == {
        "events of category 'mtia_ccp_events'": 3,
        "events of category 'user_annotation'": 1,
        "events of phase 'B'": 1,
    }


def test_kinds_of_what_is_left_out_are_bounded(file: Path) -> None:
    others = [event(f"kind {i}" + "x" * 99, "a", 1, 9) for i in range(100)]
    write(file, [*others, event("cpu_op", "aten::relu", 1, 2)])
    left_out = only("kineto", file).left_out
    assert (len(left_out), sum(left_out.values()), left_out["others"]) == (33, 100, 68)


def test_a_trace_of_steps_without_operations_is_refused(file: Path) -> None:
    events = [event("user_annotation", "ProfilerStep#1", 0, 9), event("cpu_op", "a", 10, 2)]
    refused("kineto", file, {"traceEvents": events}, "none of its 1 operations began in one of")


def test_copies_have_bytes_and_unlaunched_work_its_own_name(file: Path) -> None:
    write(file, [event("gpu_memcpy", "Memcpy HtoD", 10, 4, correlation=99, bytes=4096)])
    (row,) = only("kineto", file).tables["operation"].to_dicts()
    assert (row["type"], row["input_bytes"], row["device"]) == ("Memcpy HtoD", 4096, "gpu")


def test_a_launch_after_its_operator_has_none(file: Path) -> None:
    write(
        file,
        [
            event("cpu_op", "aten::relu", 0, 10),
            event("cuda_runtime", "cudaLaunchKernel", 11, 2, correlation=1),
            event("kernel", "mine", 20, 5, correlation=1),
        ],
    )
    kernel = only("kineto", file).tables["operation"].filter(pl.col("device") == "gpu")
    assert kernel["type"].to_list() == ["mine"]


OPERATOR = event("cpu_op", "aten::relu", 1, 2)


def with_args(**args: object) -> dict[str, Any]:
    return event("cpu_op", "aten::relu", 1, 2, **args)


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ([], "neither cpu_op nor kernel"),
        ([{key: OPERATOR[key] for key in OPERATOR if key != "ts"}], "required field `ts`"),
        ([{**OPERATOR, "dur": 5e9}], "longer than 2,147 s"),
        ([with_args(**{"Input Dims": [[2**40, 2**40]], "Input type": ["float"]})], "beyond 2^63"),
        (
            [event("user_annotation", "ProfilerStep#" + "9" * 5_000, 0, 9), OPERATOR],
            "ProfilerStep#999",
        ),
    ],
)
def test_what_is_refused(file: Path, events: list[Any], says: str) -> None:
    refused("kineto", file, {"schemaVersion": 1, "traceEvents": events}, says)


@pytest.mark.parametrize("pid", [200, "[TP01] 200"])
@pytest.mark.parametrize("kept", ["user_annotation", "cpu_op"])
def test_ranks_merged_in_one_file_are_refused(file: Path, pid: int | str, kept: str) -> None:
    """Their launches have the same correlations, so kernels would be of any of them."""
    other = [{**event, "pid": pid} for event in step(7, 103, 21) if event["cat"] == kept]
    refused("kineto", file, {"traceEvents": [*step(7, 100, 20), *other]}, "of 2 processes ('100', ")


def test_a_refusal_names_the_line(file: Path) -> None:
    bad = json.dumps({**OPERATOR, "args": []})
    refused("kineto", file, b'{"traceEvents": [\n{},\n' + bad.encode() + b"]}", f"{file} line 3: ")


def test_half_a_character_is_replaced(file: Path) -> None:
    values = {"Input Dims": [[4]], "Concrete Inputs": ["\udfff"]}
    file.write_text(json.dumps({"traceEvents": [event("cpu_op", "a\ud800", 1, 2, **values)]}))
    tables = only("kineto", file).tables
    assert tables["operation"]["name"].to_list() == ["a\ufffd"]
    assert json.loads(tables["operation_shape"]["attributes"][0]) == {"values": ["\ufffd"]}


def test_what_is_kept_is_bounded(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EVENTS", 1)
    refused("kineto", file, {"traceEvents": [OPERATOR] * 2}, "more than 1 events")
    monkeypatch.setattr(limits, "KEPT_CHARACTERS", 20)
    refused("kineto", file, {"traceEvents": [with_args(**{"Input Dims": [[4]] * 9})]}, "than 20")


def test_a_file_may_be_the_array_itself(file: Path) -> None:
    file.write_text(
        '[{"ph": "X", "cat": "memcpy", "name": "m", "pid": "GPU", "tid": "stream 7",'
        ' "ts": 1, "dur": 2.5, "args": {"bytes": 4096}}, {}]'
    )
    (run,) = read("kineto", file)
    assert run.tables["operation"]["input_bytes"].to_list() == [4096]
