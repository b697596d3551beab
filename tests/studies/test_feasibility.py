"""What cannot run here is refused before anything runs."""

import os
from pathlib import Path

import pytest
from studies.feasibility import check_study

from studies.study import read_study
from tests.synthetic import DDP, STUDY, write_study
from warehouse.records import Backend, BadInput

MANY = ", ".join(str(workers) for workers in range(1, 4 * (os.cpu_count() or 1) + 2))


def check(folder: Path, right: str, wrong: str, backend: Backend) -> None:
    assert right in STUDY
    path = write_study(folder, STUDY.replace(right, wrong))
    check_study(read_study(path), path, backend)


def test_what_is_possible_passes(study_file: Path) -> None:
    check_study(read_study(study_file), study_file, "loopback")


@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        ("dnn: alexnet", "dnn: alexnett", r"jobs\[1\]\.dnn: unknown DNN 'alexnett': .*alexnet"),
        ("image_size: 64", "image_size: 32", r"jobs\[1\]\.image_size: .*at least 64 pixels"),
        (
            "worker: emu.native.c25",
            "worker: emu.native.c52",
            r"jobs\[0\]\.worker: unknown node type 'emu.native.c52'; did you mean emu.native.c25",
        ),
        ("server: emu.server", "server: none", r"jobs\[0\]\.server: unknown node type 'none'"),
        ("workers: [1, 2]", f"workers: [{MANY}]", r"jobs\[0\]\.workers: .*CPU shares add up to"),
        ("flows: [1, 2]", "flows: [1, 4]", r"links\.flows: 4 simultaneous flows, .*at most 3"),
    ],
)
def test_the_impossible_is_one_line(right: str, wrong: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=rf"paper\.yaml: {expected}") as caught:
        check(tmp_path, right, wrong, "emulated")
    assert "\n" not in str(caught.value)


def test_loopback_enforces_no_shares(tmp_path: Path) -> None:
    check(tmp_path, "workers: [1, 2]", f"workers: [{MANY}]", "loopback")


def test_all_reduces_need_nodes_too(tmp_path: Path) -> None:
    ranks = 4 * (os.cpu_count() or 1) + 1
    text = DDP.replace("image_size: 32", "image_size: 33")
    text = text.replace("world_sizes: [2, 3]", f"world_sizes: [2, {ranks}]")
    path = write_study(tmp_path, text)
    with pytest.raises(BadInput, match=r"allreduce\.world_sizes: .*CPU shares add up to"):
        check_study(read_study(path), path, "emulated")
