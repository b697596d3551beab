"""Settings with which a probe would end, or nothing could be forecast, are refused beforehand."""

import os
from pathlib import Path

import pytest

from forecasting.study_checks import check_forecasts, load_study, load_unchecked
from profilers import captures
from profilers.steady import host
from studies.study import read_study
from tests.synthetic import CAPTURING, DDP, LOOPBACK, MIXED, STUDY, SYNCHRONOUS, write_study
from warehouse.records import Backend, BadInput, MissingTool

LINKED = STUDY.replace("probes:", "probes:\n  contention: {flows: [1, 2], seconds: 3}")
DEEP = DDP.replace("image_size: 32", "image_size: 33")
TRAIN = SYNCHRONOUS[SYNCHRONOUS.index("train:") : SYNCHRONOUS.index("test:\n")]
THREE_TYPES = DEEP.replace(
    "emu.native.c25 + emu.avx2.c25", "emu.native.c15 + emu.avx2.c15 + emu.sse41.c15"
)


def check(folder: Path, text: str, backend: Backend = "emulated") -> None:
    path = write_study(folder, text)
    check_forecasts(read_study(path), path, backend)


@pytest.mark.parametrize("text", [STUDY, LINKED, CAPTURING, DEEP, SYNCHRONOUS])
def test_what_can_be_measured_and_forecast_passes(text: str, tmp_path: Path) -> None:
    check(tmp_path, text)


MEMORY = "  torch_memory: {most: 64}\n  torch_throughput"


@pytest.mark.parametrize(
    ("text", "right", "wrong", "expected"),
    [
        (DEEP, "[4, 1048576]", "[2048, 1048576]", "allreduce: sizes_bytes: .* MTU of 1500 bytes"),
        (THREE_TYPES, "world_sizes: [2, 3]", "world_sizes: [2]", "allreduce: .*found 2 .*add 3"),
        (DEEP, "[1, 8]", "[8]", r"torch_compute\.batch_sizes: expected at least two batch sizes"),
        (DEEP, "[1, 8]", "[1, 4]", r"test\[1\]: .* a batch of 8 .* which hold 4; use a smaller"),
        (DEEP, "  torch_throughput", MEMORY, "torch_memory: .*: expected a memory limit"),
        (SYNCHRONOUS, "workers: [1, 2]", "workers: [1]", r"test\[0\]: ceer .* steps of 2 device"),
        (SYNCHRONOUS, TRAIN, "", r"test\[0\]: no system .* no train scenario of tf_operations"),
    ],
)
def test_what_would_end_late_is_refused_in_one_line(
    text: str, right: str, wrong: str, expected: str, tmp_path: Path
) -> None:
    assert right in text
    with pytest.raises(BadInput, match=rf"paper\.yaml: .*{expected}") as caught:
        check(tmp_path, text.replace(right, wrong, 1))
    assert "\n" not in str(caught.value)


def test_contention_needs_as_many_workers_of_one_type_as_flows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of each has room on this host of two cores, two of the faster type have not."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    text = LINKED.replace("worker: emu.native.c25", "worker: emu.avx2.1c + emu.native.c15", 1)
    with pytest.raises(BadInput, match=r"probes\.contention: the nodes' CPU shares add up to"):
        check(tmp_path, text)


def test_the_mtu_is_that_of_the_backend(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="a size above the MTU of 65536 bytes"):
        check(tmp_path, DEEP.replace("[4, 1048576]", "[4, 2048]"), "loopback")


@pytest.mark.parametrize(
    ("text", "field"), [(LINKED, r"probes\.contention"), (CAPTURING, r"probes\.tf_trace")]
)
def test_packets_are_not_captured_without_tcpdump(
    text: str, field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(captures, "missing_tools", lambda *tools: list(tools))
    with pytest.raises(MissingTool, match=rf"{field}: tcpdump is not installed"):
        check(tmp_path, text)


def test_an_unknown_system_lists_those_that_there_are(tmp_path: Path) -> None:
    text = STUDY.replace(LOOPBACK, "systems: [async_sgd, lineal]")
    expected = r"paper\.yaml: systems: no system 'lineal'; there are async_sgd, .*linear, "
    with pytest.raises(BadInput, match=expected):
        check(tmp_path, text)


def test_a_scenario_that_every_chosen_system_refuses_is_told_with_the_best_reason(
    tmp_path: Path,
) -> None:
    """One that is about such training, or would be with train scenarios, is heard first."""
    text = SYNCHRONOUS.replace("name: paper", "name: paper\nsystems: [linear, ceer]")
    with pytest.raises(BadInput, match=r"small_cnn .*: the study has no train scenario of tf_op"):
        check(tmp_path, text.replace(TRAIN, ""))
    text = (MIXED[: MIXED.index("probes:")] + MIXED[MIXED.index("test:") :]).replace(
        LOOPBACK, "systems: [lin, srift]"
    )
    with pytest.raises(BadInput, match=r"test\[0\]: no system forecasts small_cnn .*W=2.*: its w"):
        check(tmp_path, text)


def test_a_forecast_by_one_of_the_chosen_systems_is_enough(tmp_path: Path) -> None:
    text = MIXED[: MIXED.index("probes:")] + MIXED[MIXED.index("test:") :]
    check(tmp_path, text.replace(LOOPBACK, "systems: [lin, linear]"))


ELSEWHERE = """
name: looked_at
backend: emulated
systems: [log_linear]
probes:
  torch_throughput: {}
train:
  - {dnn: [small_cnn, alexnet], framework: pytorch, strategy: all_reduce, image_size: 64,
     batch_size: 4, worker: emu.avx512.s15, link_mbps: 500, workers: 1}
test:
  - {dnn: resnet18, framework: pytorch, strategy: all_reduce, image_size: 64,
     batch_size: 4, worker: emu.avx512.s15, link_mbps: 500, workers: 1}
"""


def test_what_ran_elsewhere_is_shown_on_a_processor_that_could_not_run_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "looked_at.yaml"
    file.write_text(ELSEWHERE)
    monkeypatch.setattr(host, "hardware", lambda: {"instruction_sets": "SSE41"})
    monkeypatch.setattr(
        "forecasting.study_checks.chosen_backend", lambda wanted: (wanted, "asked for")
    )
    with pytest.raises(BadInput, match=r"looked_at.yaml: .* needs AVX512_CORE"):
        load_study(file, None)
    loaded = load_unchecked(file, None)
    assert (loaded.study.name, loaded.backend) == ("looked_at", "emulated")
