"""Checkpoints that are there whole or not at all."""

import json
import subprocess
import sys
from collections import Counter
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.runtime import checkpoints
from pipelines.runtime.checkpoints import draw_samples, is_log, share
from pipelines.runtime.rank import ModelReplica, SyntheticImages, TrainingRankConfig, load
from profilers.clusters.base import SOURCE


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
    expected, actual = load(whole.content()), load(second.content())
    assert all(torch.equal(actual["model"][key], value) for key, value in expected["model"].items())


@given(st.integers(1, 30), st.integers(0, 5), st.integers(1, 40), st.integers(1, 12))
def test_every_epoch_has_every_sample_once(samples: int, seed: int, batch: int, steps: int) -> None:
    stream = list(
        chain.from_iterable(draw_samples(samples, seed, i * batch, batch) for i in range(steps))
    )
    assert len(stream) == batch * steps
    for start in range(0, len(stream) - samples + 1, samples):
        assert Counter(stream[start : start + samples]) == Counter(range(samples))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 50))
def test_shares_divide_the_batch_however_it_is_divided(batches: list[int], start: int) -> None:
    parts = [share(batches, rank) for rank in range(len(batches))]
    together = [
        sample for place, count in parts for sample in draw_samples(17, 3, start + place, count)
    ]
    assert together == draw_samples(17, 3, start, sum(batches))


@pytest.mark.parametrize(
    "name",
    [
        "samples-1-/../../x.jsonl",
        "samples-../a-b.jsonl",
        "samples-000001-000000.jsonl\n",
        "x.jsonl",
    ],
)
def test_only_logs_of_ranks_are_fetched_from_nodes(name: str) -> None:
    """Nodes say what their files are called."""
    assert is_log("samples-000001-000000.jsonl")
    assert not is_log(name)


def config(folder: Path) -> TrainingRankConfig:
    """Return what a rank of a small job must know."""
    return TrainingRankConfig(
        interface="lo",
        device=0,
        threads=1,
        inter_op_threads=1,
        dnn="small_cnn",
        image_size=16,
        samples=20,
        seed=0,
        folder=str(folder),
        keep=2,
        every=50,
        beat_s=60.0,
        notices=str(folder / "notice.json"),
    )


def heard(stream: IO[str], event: str) -> dict[str, object]:
    """Return the next message of a kind."""
    for line in stream:
        message: dict[str, object] = json.loads(line)
        if message["event"] == event:
            return message
    raise AssertionError(f"it ended without saying {event}")


def test_a_rank_whose_peers_are_gone_does_not_overwrite_the_checkpoint_it_waits_for(
    tmp_path: Path,
) -> None:
    checkpoint = checkpoints.write(tmp_path, 7, b"of iteration 7", keep=2)
    argv = [sys.executable, "-m", "pipelines.runtime.rank", json.dumps(asdict(config(tmp_path)))]
    train = {
        "do": "train",
        "rank": 1,
        "batches": [4, 4],
        "iterations": 20,
        "incarnation": 2,
        "address": "127.0.0.1",
        "port": 9,
        "checkpoint": str(checkpoint),
    }
    with subprocess.Popen(
        argv, cwd=SOURCE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as rank:
        assert rank.stdin is not None and rank.stdout is not None
        try:
            heard(rank.stdout, "ready")
            for command in (train, {"do": "save", "from_step": 7}):
                print(json.dumps(command), file=rank.stdin, flush=True)
            saved = heard(rank.stdout, "saved")
        finally:
            rank.kill()
    assert (saved["step"], saved["asked"], saved["written"]) == (7, True, False)
    assert [path.name for path in tmp_path.glob("*.pt")] == [checkpoint.name]
    assert checkpoint.read_bytes() == b"of iteration 7"
