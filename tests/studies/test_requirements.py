"""Settings with which a probe would end, or nothing could be forecast, are refused beforehand."""

import os
from pathlib import Path

import pytest
from studies.feasibility import check_study

from profilers import captures
from studies.study import read_study
from tests.synthetic import CAPTURING, DDP, STUDY, SYNCHRONOUS, write_study
from warehouse.records import Backend, BadInput, MissingTool

LINKED = STUDY.replace("trials: 2}", "trials: 2, contention_s: 3}")
DEEP = DDP.replace("image_size: 32", "image_size: 33")
ONE_CLUSTER = DEEP[: DEEP.rindex("  - {dnn")]
THREE_TYPES = DEEP.replace(
    "[emu.native.c25, emu.avx2.c25]", "[emu.native.c15, emu.avx2.c15, emu.sse41.c15]"
)


def check(folder: Path, text: str, backend: Backend = "emulated") -> None:
    path = write_study(folder, text)
    check_study(read_study(path), path, backend)


@pytest.mark.parametrize("text", [STUDY, LINKED, CAPTURING, DEEP, SYNCHRONOUS])
def test_what_can_be_measured_and_forecast_passes(text: str, tmp_path: Path) -> None:
    check(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "right", "wrong", "expected"),
    [
        (
            DEEP,
            "[4, 1048576]",
            "[2048, 1048576]",
            r"allreduce: sizes_bytes: expected a size up to the MTU of 1500 bytes, "
            r"found \[2048, 1048576\]; add one",
        ),
        (DEEP, "[4, 1048576]", "[4, 1024]", r"allreduce: sizes_bytes: .* above the MTU of 1500"),
        (DEEP, "[4, 1048576]", "[5, 1048576]", r"allreduce: sizes_bytes: expected multiples of 4"),
        (DEEP, "world_sizes: [2, 3]", "world_sizes: [1, 2]", r"allreduce: world_sizes: .* 2 to 2"),
        (
            ONE_CLUSTER,
            "world_sizes: [2, 3]",
            "world_sizes: [2]",
            r"allreduce: sizes_bytes: expected two sizes up to the MTU .* found \[4\]",
        ),
        (
            DEEP,
            "world_sizes: [2, 3]",
            "world_sizes: [2, 3], concurrent: [2]",
            r"allreduce: concurrent: expected 1, transfers that are alone, .* found \[2\]; add 1",
        ),
        (
            DEEP,
            "world_sizes: [2, 3]",
            "world_sizes: [2, 3], concurrent: [0, 1]",
            r"allreduce\.concurrent\[0\]: input should be greater than",
        ),
        (
            THREE_TYPES,
            "world_sizes: [2, 3]",
            "world_sizes: [2]",
            r"allreduce\.world_sizes: .* each type of emu.native.c15 \+ emu.avx2.c15 \+ "
            r"emu.sse41.c15, found 2 ranks at most; add 3",
        ),
        (DEEP, "[1, 8]", "[8]", r"compute\.batch_sizes: expected at least two batch sizes"),
        (
            DEEP,
            "[1, 8]",
            "[1, 4]",
            r"jobs\[1\]\.batch_size: emu.native.c25: a batch of 8 .* which hold 4; use a smaller",
        ),
        (
            DEEP.replace("watched_trials: 2", "watched_trials: 2, slowdown_trials: 4"),
            "batch_size: 4,\n     worker: emu.native.c25, link_mbps: 800, workers: [2, 3]",
            "batch_size: 4,\n     worker: emu.native.c15, link_mbps: 800, fitted: true, workers: "
            "[1]",
            r"compute\.slowdown_trials: .*: expected two workers or more",
        ),
        (
            DEEP,
            "watched_trials: 2",
            "watched_trials: 2, largest_up_to: 64",
            r"compute\.largest_up_to: node type 'emu.native.c25' on backend emulated: expected a "
            "memory limit",
        ),
        (
            SYNCHRONOUS,
            "workers: [1, 2], fitted",
            "workers: [1], fitted",
            r"jobs\[1\]\.workers: ceer cannot predict small_cnn .*: expected steps of 2 device",
        ),
        (
            SYNCHRONOUS,
            ", fitted: true",
            "",
            r"jobs\[0\]\.workers: ceer cannot predict .* found nothing",
        ),
        (
            SYNCHRONOUS,
            "workers: [2]",
            "devices_per_node: 2, workers: [1]",
            r"jobs\[1\]: small_cnn .* one device per node, found all_reduce with tensorflow and 2",
        ),
    ],
)
def test_what_would_end_late_is_refused_in_one_line(
    text: str, right: str, wrong: str, expected: str, tmp_path: Path
) -> None:
    assert right in text
    with pytest.raises(BadInput, match=rf"paper\.yaml: {expected}") as caught:
        check(tmp_path, text.replace(right, wrong, 1))
    assert "\n" not in str(caught.value)


def test_contention_needs_as_many_workers_of_one_type_as_flows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of each has room on this host of two cores, two of the faster type have not."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    text = LINKED.replace("worker: emu.native.c25", "worker: [emu.avx2.1c, emu.native.c15]", 1)
    with pytest.raises(BadInput, match=r"links\.flows: the nodes' CPU shares add up to"):
        check(tmp_path, text)


def test_the_mtu_is_that_of_the_backend(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="a size above the MTU of 65536 bytes"):
        check(tmp_path, DEEP.replace("[4, 1048576]", "[4, 2048]"), "loopback")


@pytest.mark.parametrize(
    ("text", "field"), [(LINKED, "links.contention_s"), (CAPTURING, "profile.capture")]
)
def test_packets_are_not_captured_without_tcpdump(
    text: str, field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(captures, "missing", lambda *tools: list(tools))
    with pytest.raises(MissingTool, match=rf"{field}: tcpdump is not installed"):
        check(tmp_path, text)
