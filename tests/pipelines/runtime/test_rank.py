"""The program of a rank, by itself: what it says and writes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import IO

from pipelines.runtime import checkpoints
from pipelines.runtime.rank import TrainingRankConfig
from profilers.clusters.base import SOURCE


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
    argv = [sys.executable, "-m", "pipelines.runtime.rank", config(tmp_path).to_json()]
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
    assert [one.name for one in tmp_path.glob("*.pt")] == [checkpoint.name]
    assert checkpoint.read_bytes() == b"of iteration 7"
