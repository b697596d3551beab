"""Packets captured at a server → what each of its simultaneous transfers got of its link."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from profilers.readers.tcp import packets

SLICE_US = 5_000
"""Time is cut into slices of this length."""
MIN_BYTES = 2_000
"""A worker that carries less in a slice sends requests, not tensors."""
DIRECTIONS = ("downlink", "uplink")
_SCHEMA = {
    "direction": pl.String,
    "flows": pl.Int16,
    "place": pl.Int16,
    "seconds": pl.Float64,
    "bytes": pl.Int64,
}


def shares(files: Sequence[Path], server: str, workers: Sequence[str]) -> pl.DataFrame:
    """Return who got how much, by direction, number of simultaneous transfers and seniority.

    A slice of time counts if every worker that carries data in it also does so in the slices
    before and after it, so that no transfer starts or ends in it.

    Args:
        files: pcap files taken at the server.
        server: its IPv4 address.
        workers: those of the workers.

    Returns:
        direction, flows, place (0: at it for the longest time without a pause), seconds and bytes;
        one row per place.

    Raises:
        BadInput: a file is no packet capture.
    """
    totals: dict[tuple[str, int, int], _Total] = {}
    for file in files:
        for direction, carried in zip(DIRECTIONS, _carried(file, server, workers), strict=True):
            _add(totals, direction, carried)
    rows = [
        (*key, total.slices * SLICE_US / 1e6, total.carried)
        for key, total in sorted(totals.items())
    ]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


@dataclass
class _Total:
    slices: int = 0
    carried: int = 0


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


def _add(
    totals: dict[tuple[str, int, int], _Total], direction: str, carried: NDArray[np.int64]
) -> None:
    active = carried >= MIN_BYTES
    since = _active_since(active)
    for t in range(1, active.shape[1] - 1):
        (now,) = np.nonzero(active[:, t])
        steady = active[now, t - 1].all() and active[now, t + 1].all()
        if not len(now) or not steady or active[:, t - 1 : t + 2].any(axis=1).sum() > len(now):
            continue
        for place, worker in enumerate(sorted(now, key=lambda one: (since[one, t], one))):
            total = totals.setdefault((direction, len(now), place), _Total())
            total.slices += 1
            total.carried += int(carried[worker, t])


def _active_since(active: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return, for each worker and slice, the first slice of the activity that holds it."""
    since = np.zeros(active.shape, np.int64)
    for t in range(active.shape[1]):
        previous = since[:, t - 1] if t else np.zeros(len(active), np.int64)
        goes_on = active[:, t - 1] if t else np.zeros(len(active), bool)
        since[:, t] = np.where(goes_on, previous, t)
    return since
