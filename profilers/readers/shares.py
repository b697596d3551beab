"""Packets captured at a server → what each of its simultaneous transfers got of its link."""

import socket
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from profilers.readers.tcp import packets

SLICE_US = 5_000
"""Time is cut into slices of this length."""
MIN_BYTES = 2_000
"""A worker that carries less in a slice sends requests, not tensors."""
MIN_SLICES = 4
"""Stretches of fewer slices say nothing of how far shares differ from one to the next."""
DIRECTIONS = ("downlink", "uplink")
_SCHEMA = {
    "direction": pl.String,
    "flows": pl.Int16,
    "place": pl.Int16,
    "seconds": pl.Float64,
    "bytes": pl.Int64,
    "log_share_sd": pl.Float64,
}


def shares(files: Sequence[Path], server: str, workers: Sequence[str]) -> pl.DataFrame:
    """Return who got how much, by direction, number of simultaneous transfers and seniority.

    While the same workers carry data they share the link for one stretch of time. Its first and
    last slice do not count: a transfer starts or ends in them.

    Args:
        files: pcap files taken at the server.
        server: its IPv4 address.
        workers: those of the workers.

    Returns:
        direction, flows, place (0: at it for the longest time without a pause), seconds, bytes and
        log_share_sd: the standard deviation, over stretches weighted by their length, of the
        logarithm of the share of that place, NULL below two stretches; one row per place.

    Raises:
        BadInput: a file is no packet capture.
    """
    found: defaultdict[tuple[str, int, int], list[_Part]] = defaultdict(list)
    for file in files:
        for direction, carried in zip(DIRECTIONS, _carried(file, server, workers), strict=True):
            for stretch in _stretches(carried):
                for place, part in enumerate(stretch):
                    found[direction, len(stretch), place].append(part)
    rows = [(*key, *_totals(parts)) for key, parts in sorted(found.items())]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


class _Part(NamedTuple):
    """What one place got of one stretch."""

    slices: int
    carried: int
    share: float


def _totals(parts: Sequence[_Part]) -> tuple[float, int, float | None]:
    seconds = sum(part.slices for part in parts) * SLICE_US / 1e6
    carried = sum(part.carried for part in parts)
    long = [part for part in parts if part.slices >= MIN_SLICES]
    if len(long) < 2:
        return seconds, carried, None
    logs = np.log([part.share for part in long])
    weights = [part.slices for part in long]
    variance = np.average((logs - np.average(logs, weights=weights)) ** 2, weights=weights)
    return seconds, carried, float(np.sqrt(variance))


def _carried(file: Path, server: str, workers: Sequence[str]) -> list[NDArray[np.int64]]:
    """Return, for downlink and uplink, bytes by worker and slice."""
    index = {socket.inet_aton(address): i for i, address in enumerate(workers)}
    here = socket.inet_aton(server)
    found: list[tuple[int, int, int, int]] = []
    for packet in packets(file):
        (sender, _), (receiver, _) = packet.flow
        if packet.length and sender == here and receiver in index:
            found.append((0, index[receiver], packet.time_us, packet.length))
        elif packet.length and receiver == here and sender in index:
            found.append((1, index[sender], packet.time_us, packet.length))
    if not found:
        return [np.zeros((len(workers), 0), np.int64) for _ in DIRECTIONS]
    direction, worker, time_us, length = np.array(found).T
    slices = (time_us - time_us.min()) // SLICE_US
    carried = np.zeros((len(DIRECTIONS), len(workers), slices.max() + 1), np.int64)
    np.add.at(carried, (direction, worker, slices), length)
    return list(carried)


def _stretches(carried: NDArray[np.int64]) -> Iterator[list[_Part]]:
    """Yield what each place got, stretch by stretch."""
    since = _active_since(carried >= MIN_BYTES)
    changes = np.flatnonzero(np.any(since[:, 1:] != since[:, :-1], axis=0)) + 1
    for start, end in pairwise([0, *changes, since.shape[1]]):
        if end - start <= 2:
            continue
        (workers,) = np.nonzero(since[:, start] >= 0)
        if len(workers):
            ordered = sorted(workers, key=lambda worker: (since[worker, start], worker))
            got = carried[ordered, start + 1 : end - 1].sum(axis=1)
            yield [_Part(end - start - 2, int(one), one / got.sum()) for one in got]


def _active_since(active: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return, for each worker and slice, the first slice of the activity that holds it, or −1."""
    starts = np.where(active & ~np.roll(active, 1, axis=1), np.arange(active.shape[1]), 0)
    starts[:, :1] = 0
    return np.where(active, np.maximum.accumulate(starts, axis=1), -1)
