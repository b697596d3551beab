"""Checkpoints that are there whole or not at all."""

import os
import time
from pathlib import Path

import pytest

from pipelines.runtime import checkpoints
from pipelines.runtime.rank import ModelReplica, SyntheticImages, load


def test_the_newest_is_found_and_old_ones_go(tmp_path: Path) -> None:
    assert checkpoints.newest(tmp_path) == (0, None)
    for step in (5, 10, 15):
        checkpoints.write(tmp_path, step, b"%d" % step, keep=2)
    step, path = checkpoints.newest(tmp_path)
    assert path is not None
    assert (step, path.read_bytes()) == (15, b"15")
    assert checkpoints.of_step(tmp_path, 10) is not None
    assert checkpoints.of_step(tmp_path, 5) is None


def test_the_last_one_counts_even_if_it_is_behind(tmp_path: Path) -> None:
    checkpoints.write(tmp_path, 5, b"before", keep=2)
    checkpoints.write(tmp_path, 10, b"of rank 0, which died", keep=2)
    path = checkpoints.write(tmp_path, 9, b"of its successor", keep=2)
    assert checkpoints.newest(tmp_path) == (9, path)
    assert [checkpoints.of_step(tmp_path, step) is None for step in (5, 9, 10)] == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("days", [-1, 1])
def test_the_last_one_counts_whatever_the_clock_says(tmp_path: Path, days: int) -> None:
    for step in (10, 15, 20):
        path = checkpoints.write(tmp_path, step, b"%d" % step, keep=2)
        written_s = time.time() + 86_400 * days * step
        os.utime(path, (written_s, written_s))
    assert checkpoints.newest(tmp_path) == (20, path)
    assert checkpoints.of_step(tmp_path, 15) is not None
    assert checkpoints.of_step(tmp_path, 10) is None


def test_one_that_cannot_be_written_leaves_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints.write(tmp_path, 5, b"five", keep=1)

    def full(_: Path, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        checkpoints.write(tmp_path, 10, b"ten", keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-0000000005.pt"]


def test_a_model_goes_on_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    import torch

    images, cpu = SyntheticImages(20, 16, 3), torch.device("cpu")

    def train(model: ModelReplica, steps: int) -> None:
        for _ in range(steps):
            batch, labels = images.batch([model.step, model.step + 1])
            torch.nn.functional.cross_entropy(model.network(batch), labels).backward()
            model.optimizer.step()
            model.optimizer.zero_grad()
            model.step += 1
            model.samples += 2

    whole, first = (ModelReplica("small_cnn", 16, 1, cpu) for _ in range(2))
    train(whole, 4)
    train(first, 2)
    second = ModelReplica("small_cnn", 16, 99, cpu)
    second.restore(checkpoints.write(tmp_path, 2, first.content(), keep=1).read_bytes())
    assert (second.step, second.samples) == (2, 4)
    train(second, 2)
    expected, found = load(whole.content()), load(second.content())
    assert all(torch.equal(found["model"][key], one) for key, one in expected["model"].items())


def test_images_are_told_by_their_index_alone() -> None:
    import torch

    one, other = SyntheticImages(20, 16, 3), SyntheticImages(20, 16, 4)
    images, labels = one.batch([7, 13])
    assert labels.tolist() == [7, 3]
    assert torch.equal(images[1], one.batch([13])[0][0])
    assert not torch.equal(images[1], images[0])
    assert not torch.equal(images, other.batch([7, 13])[0])
