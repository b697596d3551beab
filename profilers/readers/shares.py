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
PAUSE_SLICES = 40
"""Idle for 0.2 s, TCP's shortest retransmission timeout, a connection starts slowly again."""
MET_SLICES = 100
"""A transfer that is alone counts if it has shared the link within half a second: how much a sender
may have on the way is what its last loss left of it, and in training that is never long ago."""
MIN_SLICES = 4
"""Stretches of fewer slices say nothing of how far shares differ from one to the next."""
DIRECTIONS = ("downlink", "uplink")
_NEVER = -(2**31)
_SCHEMA = {
    "direction": pl.String,
    "flows": pl.Int16,
    "place": pl.Int16,
    "seconds": pl.Float64,
    "bytes": pl.Int64,
    "log_share_sd": pl.Float64,
    "opposite": pl.Int16,
}


def shares(files: Sequence[Path], server: str, workers: Sequence[str]) -> pl.DataFrame:
    """Return who got how much, by direction, numbers of simultaneous transfers and seniority.

    While the same workers carry data they share the link for one stretch of time. Its first and
    last slice do not count: a transfer starts or ends in them. Of single transfers only what they
    carried up to half a second after they shared the link does.

    Args:
        files: pcap files taken at the server.
        server: its IPv4 address.
        workers: those of the workers.

    Returns:
        direction, flows, place (0: at it for the longest time without a pause of 0.2 s), seconds,
        bytes, log_share_sd and opposite: how many transfers went the other way meanwhile. One row
        per place and number of those. log_share_sd is that of a place whatever goes the other way:
        the standard deviation, over stretches weighted by their length, of the logarithm of its
        share, NULL below two stretches.

    Raises:
        BadInput: a file is no packet capture.
    """
    parts_of: defaultdict[_Place, list[_Part]] = defaultdict(list)
    totals: defaultdict[tuple[_Place, int], list[int]] = defaultdict(lambda: [0, 0])
    for file in files:
        both = _carried(file, server, workers)
        for direction, carried, other in zip(DIRECTIONS, both, reversed(both), strict=True):
            opposite = (other >= MIN_BYTES).sum(axis=0)
            for inner, ordered in _stretches(carried):
                got = carried[np.array(ordered)[:, None], inner]
                for place, mine in enumerate(got):
                    key = _Place(direction, len(ordered), place)
                    parts_of[key].append(_Part(len(mine), mine.sum() / got.sum()))
                    for count in np.unique(opposite[inner]):
                        then = opposite[inner] == count
                        total = totals[key, int(count)]
                        total[0] += int(then.sum())
                        total[1] += int(mine[then].sum())
    rows = [
        (*key, slices * SLICE_US / 1e6, size_bytes, _log_share_sd(parts_of[key]), count)
        for (key, count), (slices, size_bytes) in sorted(totals.items())
    ]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


class _Place(NamedTuple):
    """One of several transfers in a direction."""

    direction: str
    flows: int
    place: int


class _Part(NamedTuple):
    """What one place got of one stretch."""

    slices: int
    share: float


def _log_share_sd(parts: Sequence[_Part]) -> float | None:
    long = [part for part in parts if part.slices >= MIN_SLICES]
    if len(long) < 2:
        return None
    logs = np.log([part.share for part in long])
    weights = [part.slices for part in long]
    variance = np.average((logs - np.average(logs, weights=weights)) ** 2, weights=weights)
    return float(np.sqrt(variance))


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


def _stretches(carried: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.intp], list[int]]]:
    """Yield the slices of each stretch that count, and who carries data, the longest first."""
    active = carried >= MIN_BYTES
    since, met = _since(active), _last(active & (active.sum(axis=0) > 1))
    changes = np.flatnonzero(np.any(active[:, 1:] != active[:, :-1], axis=0)) + 1
    for start, end in pairwise([0, *changes, active.shape[1]]):
        inner = np.arange(start + 1, end - 1)
        if not inner.size:
            continue
        workers = np.flatnonzero(active[:, start]).tolist()
        if len(workers) == 1:
            inner = inner[inner - met[workers[0], inner] <= MET_SLICES]
        if workers and inner.size:
            yield inner, sorted(workers, key=lambda worker: since[worker, start])


def _since(active: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return, for each worker and slice, since when it has been at it without a pause."""
    slices = np.arange(active.shape[1])
    before = np.roll(_last(active), 1, axis=1)
    before[:, :1] = _NEVER
    begins = active & (slices - before > PAUSE_SLICES)
    return np.maximum.accumulate(np.where(begins, slices, 0), axis=1)


def _last(flags: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return, for each worker and slice, the latest slice with a flag so far."""
    return np.maximum.accumulate(np.where(flags, np.arange(flags.shape[1]), _NEVER), axis=1)
