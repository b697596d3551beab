"""What probes are asked for, and how a run tells it."""

import json
from pathlib import Path

import pytest
from studies.asked import KEY, SUBJECTS, asked, differences, noted
from studies.parts import Part, Probe, parts

from studies.study import read_study
from tests.synthetic import CAPTURING, DDP, SYNCHRONOUS, landed, write_study

ASYNCHRONOUS = CAPTURING.replace("seconds: 1,", "seconds: 1, contention_s: 3,")
PASSES = DDP.replace(
    "[1, 8], trials: 5, watched_trials: 2",
    "[1, 8], held_out: [4], interval: 0.04, most_s: 100, trials: 5, watched_trials: 2, "
    "slowdown_trials: 6, largest_up_to: 9",
)
TORCH = SYNCHRONOUS.replace("strategy:", "framework: pytorch, by_operations: true, strategy:")
TORCH = TORCH.replace("measure: {windows: 2, window_s: 1}", "iterate: {iterations: 20}")


@pytest.mark.parametrize(
    ("text", "probe", "expected"),
    [
        (ASYNCHRONOUS, "links", {"flows": (1, 2), "seconds": 1, "trials": 2}),
        (ASYNCHRONOUS, "contention", {"flows": (1, 2), "seconds": 3, "trials": 2}),
        (ASYNCHRONOUS, "tf_trace", {"traced_steps": 4, "untraced_steps": 4, "capture": True}),
        (
            ASYNCHRONOUS,
            "tf_throughput",
            {"windows": 2, "window_s": 1, "interval": None, "most_windows": None},
        ),
        (
            PASSES,
            "allreduce",
            {"sizes_bytes": (4, 1048576), "concurrent": (1,), "trials": 3},
        ),
        (PASSES, "torch_memory", {"most": 9}),
        (PASSES, "slowdown", {"trials": 6}),
        (PASSES, "torch_throughput", {"iterations": 20, "interval": None, "most_s": None}),
        (SYNCHRONOUS, "tf_operations", {"traced_steps": 4, "untraced_steps": 4}),
        (TORCH, "torch_operations", {"timed_steps": 4, "untimed_steps": 4}),
    ],
)
def test_each_probe_is_asked_for_its_own(
    text: str, probe: Probe, expected: dict[str, object], tmp_path: Path
) -> None:
    assert asked(probe, read_study(write_study(tmp_path, text))) == expected


def test_held_out_batches_are_asked_for_no_more_time_each(tmp_path: Path) -> None:
    study = read_study(write_study(tmp_path, PASSES))
    profiled, held_out = (asked("torch_compute", study, profiles=one) for one in (True, False))
    assert (profiled["batch_sizes"], profiled["most_s"]) == ((1, 8), 100)
    assert held_out == profiled | {"batch_sizes": (4,), "most_s": 50}


def links(folder: Path) -> Part:
    return parts(read_study(write_study(folder)), "emulated")[0]


def test_a_run_tells_what_it_was_asked_for(tmp_path: Path) -> None:
    part = links(tmp_path)
    run = noted(landed(part), part.settings)
    assert json.loads(str(run.config[KEY])) == {"flows": [1, 2], "seconds": 1.0, "trials": 2}
    assert differences(run, part.settings) == {}
    assert differences(run, {"flows": (2, 1), "seconds": 1, "trials": 5}) == {
        "trials": "trials 2, not 5"
    }
    assert differences(landed(part), part.settings) is None


def test_a_setting_that_is_new_since_counts_where_it_is_given(tmp_path: Path) -> None:
    part = links(tmp_path)
    run = noted(landed(part), part.settings)
    assert differences(run, part.settings | {"reverse": None}) == {}
    assert differences(run, part.settings | {"reverse": True}) == {
        "reverse": "reverse null, not true"
    }


@pytest.mark.parametrize("name", sorted(SUBJECTS))
def test_what_is_measured_is_told_from_how_often(name: str, tmp_path: Path) -> None:
    part = links(tmp_path)
    other = Part("links", part.curve, part.link_mbps, settings={name: 2, "trials": 3})
    assert other.asks_the_same_of(noted(landed(part), {name: 2, "trials": 9}))
    assert not other.asks_the_same_of(noted(landed(part), {name: 1, "trials": 3}))
