"""What cannot run here is refused before anything runs."""

import os
from pathlib import Path

import pytest

from forecasting.inputs import inputs_of_study
from forecasting.study_checks import check_study
from studies.study import read_study
from tests.synthetic import DDP, ONLY_PROFILES, STUDY, SYNCHRONOUS, write_study
from warehouse.records import Backend, BadInput

MANY = ", ".join(str(workers) for workers in range(1, 4 * (os.cpu_count() or 1) + 2))


def check(folder: Path, right: str, wrong: str, backend: Backend) -> None:
    assert right in STUDY
    check_text(folder, STUDY.replace(right, wrong), backend)


def check_text(folder: Path, text: str, backend: Backend) -> None:
    path = write_study(folder, text)
    study = read_study(path)
    check_study(study, path, backend, inputs_of_study(study))


@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        ("dnn: alexnet", "dnn: alexnett", r"test\[1\]\.dnn: unknown DNN 'alexnett': .*alexnet"),
        (
            "worker: emu.native.c25",
            "worker: emu.native.c52",
            r"test\[0\]\.worker: unknown node type 'emu.native.c52'; did you mean emu.native.c25",
        ),
        ("workers: [1, 2]", f"workers: [{MANY}]", r"test\[0\]\.workers: .*CPU shares add up to"),
        (
            "flows: [1, 2]",
            "flows: [1, 4]",
            r"probes\.links: flows: 4 simultaneous flows, .*at most 3",
        ),
        (
            "probes:",
            "probes:\n  tf_sync:",
            r"probes\.tf_sync: nothing of it is needed: no chosen system asks for it",
        ),
    ],
)
def test_the_impossible_is_one_line(right: str, wrong: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=rf"paper\.yaml: {expected}") as caught:
        check(tmp_path, right, wrong, "emulated")
    assert "\n" not in str(caught.value)


def test_all_reduces_need_nodes_too(tmp_path: Path) -> None:
    ranks = 4 * (os.cpu_count() or 1) + 1
    text = DDP.replace("image_size: 32", "image_size: 33")
    text = text.replace("world_sizes: [2, 3]", f"world_sizes: [2, {ranks}]")
    with pytest.raises(BadInput, match=r"probes\.allreduce: .*CPU shares add up to"):
        check_text(tmp_path, text, "emulated")


TRAIN = """
train:
  - {dnn: vgg11, image_size: 32, batch_size: 4, worker: emu.native.c25, server: emu.server,
     link_mbps: 200, workers: [1, 2]}
"""


def test_each_train_scenario_is_of_use_to_a_system(tmp_path: Path) -> None:
    """Ceer learns from the first, nothing from the second."""
    check_text(tmp_path, SYNCHRONOUS, "emulated")
    text = SYNCHRONOUS.replace("test:\n", TRAIN.strip().removeprefix("train:\n") + "\ntest:\n")
    with pytest.raises(BadInput, match=r"train\[1\]: no chosen system learns from it"):
        check_text(tmp_path, text, "emulated")


def test_a_study_that_only_profiles_passes(tmp_path: Path) -> None:
    check_text(tmp_path, ONLY_PROFILES, "loopback")
    check_text(tmp_path, ONLY_PROFILES, "emulated")


@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        (
            "  links:",
            "  torch_compute: {}\n  links:",
            r"probes\.torch_compute: nothing of it is needed: it can tell nothing of what is",
        ),
        (
            "train:\n",
            "train:\n  - {dnn: vgg11, strategy: all_reduce, image_size: 32, batch_size: 4, "
            "worker: emu.native.c25, workers: 2, link_mbps: 200}\n",
            r"train\[0\]: no named probe concerns it; leave it out, or name one that does",
        ),
        (
            "dnn: [small_cnn, alexnet]",
            "dnn: [small_cm]",
            r"train\[0\]\.dnn: unknown DNN 'small_cm'",
        ),
    ],
)
def test_what_a_study_that_only_profiles_has_no_use_for_is_refused(
    right: str, wrong: str, expected: str, tmp_path: Path
) -> None:
    text = ONLY_PROFILES.replace(right, wrong, 1)
    if right == "train:\n":
        text = text.replace(text.partition("probes:\n")[2].partition("  tf_trace")[0], "")
    with pytest.raises(BadInput, match=rf"paper\.yaml: {expected}") as caught:
        check_text(tmp_path, text, "emulated")
    assert "\n" not in str(caught.value)
