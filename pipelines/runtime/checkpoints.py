"""Checkpoints, whole or not at all, and samples that were taken: each one once in every epoch."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

import numpy as np

from warehouse.durable_files import Appender, remove, write_bytes

_NAME = re.compile(r"checkpoint-\d{10}\.pt")


def write(folder: Path, step: int, content: bytes, keep: int) -> Path:
    """Write the checkpoint of an iteration, and remove all but the last `keep`.

    Those of later iterations go too: their rank was ahead of the one that writes now, and is gone.
    So the checkpoint of the last iteration is the one written last, whatever the clock says.

    Raises:
        OSError: it could not be written, for example to a full disk; older ones are still there.
    """
    written = path(folder, step)
    write_bytes(written, content, durable=True)
    files = _found(folder)
    ahead = [file for file in files if file > written]
    for other in (*ahead, *[file for file in files if file <= written][:-keep]):
        remove(other)
    return written


def path(folder: Path, step: int) -> Path:
    """Return where the checkpoint of an iteration is written."""
    return folder / f"checkpoint-{step:010}.pt"


def newest(folder: Path) -> tuple[int, Path | None]:
    """Return the iteration of the checkpoint that was written last, and its file; 0 and None."""
    for file in _found(folder)[-1:]:
        return _step(file), file
    return 0, None


def of_step(folder: Path, step: int) -> Path | None:
    """Return the checkpoint of an iteration, None if there is none."""
    return next((file for file in _found(folder) if _step(file) == step), None)


def _found(folder: Path) -> list[Path]:
    """Return all checkpoints in the order of their iterations."""
    return sorted(file for file in folder.iterdir() if _NAME.fullmatch(file.name))


def _step(checkpoint: Path) -> int:
    return int(checkpoint.stem.removeprefix("checkpoint-"))


SampleWriter = Callable[[int, Sequence[int]], None]
"""Writes down the indices that were taken for an iteration (counted from 0)."""
_LOG_NAME = re.compile(r"samples-\d{6,9}-\d{6,9}\.jsonl")


def draw_samples(samples: int, seed: int, start: int, count: int) -> list[int]:
    """Return indices `start` to `start + count` of all that training ever takes, epoch by epoch.

    Each epoch is a permutation of its own of all samples; an iteration at its end takes the rest
    from the next one, so that none is dropped.

    Args:
        samples: how many the dataset has.
        seed: of all permutations.
        start: how many were taken before.
        count: how many to take.
    """
    indices: list[int] = []
    while len(indices) < count:
        epoch, begin = divmod(start + len(indices), samples)
        indices += _permutation(samples, seed, epoch)[begin : begin + count - len(indices)]
    return indices


def share(batches: Sequence[int], rank: int) -> tuple[int, int]:
    """Return where in the global batch the share of a rank begins, and how large it is."""
    return [0, *accumulate(batches)][rank], batches[rank]


@contextmanager
def open_sample_log(folder: Path, incarnation: int, rank: int) -> Iterator[SampleWriter]:
    """Yield what writes into the log of a rank; a line is there before its samples are used."""
    with Appender(_file(folder, incarnation, rank)) as file:
        yield lambda step, indices: file.append([json.dumps([step, list(indices)])])


def is_log(name: str) -> bool:
    """Return whether a file of this name, which a node may have told, is the log of a rank."""
    return _LOG_NAME.fullmatch(name) is not None


@lru_cache(maxsize=2)
def _permutation(samples: int, seed: int, epoch: int) -> list[int]:
    order: list[int] = np.random.default_rng((seed, epoch)).permutation(samples).tolist()
    return order


def _file(folder: Path, incarnation: int, rank: int) -> Path:
    return folder / f"samples-{incarnation:06}-{rank:06}.jsonl"
