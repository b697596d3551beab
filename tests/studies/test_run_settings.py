"""What probes are asked for, and how a run tells it."""

import json
from pathlib import Path

import pytest

from forecasting.inputs import inputs_of_study
from profilers.probe import PlannedRun
from profilers.probes import PROBES
from studies.rounds import Round, changed_settings, open_round
from studies.run_settings import KEY, differences, is_outdated, with_settings
from studies.study import read_study
from tests.synthetic import CAPTURING, DDP, HOST, STUDY, SYNCHRONOUS, landed, needs, write_study
from warehouse.requirements import Subject

ASYNCHRONOUS = CAPTURING.replace(
    "probes:", "probes:\n  contention: {flows: [1, 2], seconds: 3, trials: 2}"
)
PASSES = DDP.replace(
    "[1, 8], trials: 5, watched_trials: 2}",
    "[1, 8], held_out: [4], interval: 0.04, most_s: 100, trials: 5, watched_trials: 2}\n"
    "  slowdown: {trials: 6}\n"
    "  torch_memory: {most: 9}",
)
TORCH = SYNCHRONOUS.replace("strategy:", "framework: pytorch, strategy:")
TORCH = TORCH.replace("tf_sync: {windows: 2, window_s: 1}", "torch_throughput: {iterations: 20}")
TORCH = TORCH.replace("tf_operations: {traced_", "torch_operations: {timed_")
TORCH = TORCH.replace("untraced_steps", "untimed_steps")
ESSENTIAL = {
    ("links", "flows"),
    ("contention", "flows"),
    ("allreduce", "sizes_bytes"),
    ("allreduce", "concurrent"),
    ("tf_trace", "capture"),
    ("torch_memory", "most"),
    ("torch_compute", "batch_sizes"),
}
"""Probes, and the settings that say what they measure."""


def asked(text: str, probe: str, folder: Path) -> list[PlannedRun]:
    study = read_study(write_study(folder, text))
    return [need for need in needs(study) if need.probe == probe]


@pytest.mark.parametrize(
    ("text", "probe", "expected"),
    [
        (ASYNCHRONOUS, "links", {"flows": (1, 2), "seconds": 1, "trials": 2}),
        (
            ASYNCHRONOUS,
            "tf_throughput",
            {"windows": 2, "window_s": 1, "interval": None, "most_windows": None},
        ),
        (PASSES, "allreduce", {"sizes_bytes": (4, 1048576), "concurrent": (1,), "trials": 3}),
        (PASSES, "slowdown", {"trials": 6}),
        (SYNCHRONOUS, "tf_operations", {"traced_steps": 4, "untraced_steps": 4}),
    ],
)
def test_each_probe_is_asked_for_its_own(
    text: str, probe: str, expected: dict[str, object], tmp_path: Path
) -> None:
    planned_runs = asked(text, probe, tmp_path)
    assert planned_runs
    assert all(need.settings == expected for need in planned_runs)


def test_without_settings_probes_are_asked_for_what_the_scenarios_suggest(tmp_path: Path) -> None:
    text = DDP[: DDP.index("probes:")] + DDP[DDP.index("test:") :]
    (links,) = asked(text, "links", tmp_path)
    assert links.settings["flows"] == (1, 3)
    assert {need.subject.config["world_size"] for need in asked(text, "allreduce", tmp_path)} == {2}
    passes = {
        need.scenario.nodes[0].node_type: need.settings["batch_sizes"]
        for need in asked(text, "torch_compute", tmp_path)
    }
    assert passes == {"emu.native.c25": (2, 4, 8), "emu.avx2.c25": (2, 4, 8)}


def links(folder: Path) -> PlannedRun:
    return needs(read_study(write_study(folder)))[0]


def test_a_run_tells_what_it_was_asked_for(tmp_path: Path) -> None:
    need = links(tmp_path)
    run = with_settings(landed(need), need.settings)
    assert json.loads(str(run.config[KEY])) == {"flows": [1, 2], "seconds": 1.0, "trials": 2}
    assert differences(run, need.settings) == {}
    assert differences(run, {"flows": (2, 1), "seconds": 1, "trials": 5}) == {
        "trials": "trials 2, not 5"
    }
    assert differences(landed(need), need.settings) is None


@pytest.mark.parametrize(("probe", "name"), sorted(ESSENTIAL))
def test_what_is_measured_is_told_from_how_often(probe: str, name: str) -> None:
    asked_now = {name: 2, "trials": 3}
    need = PlannedRun(Subject(probe, None, 200), "profile", probe, (), asked_now, expected_s=1)
    assert not is_outdated(need, with_settings(landed(need), {name: 2, "trials": 9}))
    assert is_outdated(need, with_settings(landed(need), {name: 1, "trials": 3}))
    assert not is_outdated(need, landed(need)), "one that does not tell"
    elsewhere = with_settings(landed(need, purpose="measurement"), {name: 1})
    assert not is_outdated(need, elsewhere), "it is another need's"


def test_these_settings_say_what_is_measured() -> None:
    essential = {(probe.name, name) for probe in PROBES.values() for name in probe.essential}
    assert essential == ESSENTIAL
    assert all(name in PROBES[probe].settings.model_fields for probe, name in essential)


def opened(folder: Path, right: str, wrong: str, done: int) -> Round:
    """Return the round of a study of which `done` needs landed before its file was changed."""
    before = needs(read_study(write_study(folder)))
    runs = [with_settings(landed(need), need.settings) for need in before[:done]]
    changed = read_study(write_study(folder, STUDY.replace(right, wrong)))
    return open_round(changed, inputs_of_study(changed), "emulated", HOST, runs)


def test_what_is_measured_again_is_told(tmp_path: Path) -> None:
    round_ = opened(tmp_path, "flows: [1, 2], seconds: 1", "flows: [1, 2, 3], seconds: 2", 3)
    assert list(changed_settings(round_)) == [
        "probe links, 200 Mb/s: landed with flows [1, 2], not [1, 2, 3]; measured again, since "
        "the study asks for something else"
    ]
