"""The exchange of one iteration: what is all-reduced when, simulated event by event (4.1, 4.3)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warehouse.records import BadInput, Record

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MIB = 1024 * 1024


class Buckets(Record):
    """How PyTorch's DistributedDataParallel gathers gradients into buckets.

    A bucket is closed by the tensor with which it reaches its limit: `first_bytes` for the first
    one, `bytes` for the others (its `bucket_cap_mb`).
    """

    first_bytes: int = MIB
    bytes: int = 25 * MIB


@dataclass(frozen=True)
class Transfers:
    """The all-reduces of one iteration, in the order in which they may start.

    Attributes:
        size_bytes: [transfers], by which bandwidth is looked up.
        expected_bytes: [transfers], times the probability that the layer was executed.
        ready: [transfers], when each may start, in parts of the backward pass, rising.
    """

    size_bytes: Ints
    expected_bytes: Floats
    ready: Floats

    def with_end(self) -> "Transfers":
        """Return the same with a last transfer of nothing when the backward pass ends."""
        return Transfers(
            np.append(self.size_bytes, 1),
            np.append(self.expected_bytes, 0.0),
            np.append(self.ready, 1.0),
        )


def transfers(
    layer_bytes: Sequence[int],
    ready: Sequence[float],
    probability: Sequence[float] | None = None,
    buckets: Buckets | None = None,
) -> Transfers:
    """Return the transfers of a network's layers, one each or in PyTorch's buckets.

    Args:
        layer_bytes: gradients of each layer, in the order in which layers are registered; those
            of 0 bytes are not exchanged.
        ready: when each gradient is there, 0 to 1 of the backward pass.
        probability: with which each layer is executed; None: 1. Buckets hold all of them anyway.
        buckets: None: a layer's gradient is sent once it is there (ideal overlap, section 4.3).

    Raises:
        BadInput: the sequences differ in length.
    """
    chance = [1.0] * len(layer_bytes) if probability is None else list(probability)
    if not len(layer_bytes) == len(ready) == len(chance):
        raise BadInput(
            f"{len(layer_bytes)} layers have {len(ready)} times and {len(chance)} probabilities; "
            "each layer needs one of both"
        )
    # PyTorch fills its buckets, after the first iteration, in the order in which gradients came;
    # those that came at once in reverse order of registration.
    order = sorted(
        (i for i, size in enumerate(layer_bytes) if size > 0), key=lambda i: (ready[i], -i)
    )
    rows = [(layer_bytes[i], layer_bytes[i] * chance[i], float(ready[i])) for i in order]
    if buckets is not None:
        rows = [(size, float(size), at) for size, at in _filled(rows, buckets)]
    sizes, expected, starts = zip(*rows, strict=True) if rows else ((), (), ())
    return Transfers(
        np.array(sizes, dtype=np.int64), np.array(expected, dtype=np.float64), np.array(starts)
    )


def _filled(rows: Sequence[tuple[int, float, float]], buckets: Buckets) -> list[tuple[int, float]]:
    """Return size and time of each bucket: that of its last gradient."""
    filled: list[tuple[int, float]] = []
    size, limit = 0, buckets.first_bytes
    for layer_bytes, _, ready in rows:
        size += layer_bytes
        if size >= limit:
            filled.append((size, ready))
            size, limit = 0, buckets.bytes
    if size:
        filled.append((size, rows[-1][2]))
    return filled


def power_of_two(sizes: Ints) -> Ints:
    """Return the nearest power of two that is not smaller, for each size.

    Bandwidth was probed there only (section 4.3).
    """
    powers = np.left_shift(1, np.arange(63, dtype=np.int64))
    rounded: Ints = powers[np.searchsorted(powers, sizes)]
    return rounded


def wire_factor(world_size: int) -> float:
    """Return what crosses each rank's interface for every byte reduced: 2(n − 1)/n (4.2)."""
    return 2 * (world_size - 1) / world_size


# The parameter exchanges of many configurations at once, event by event (section 4.3).


def exchange_s(
    starts_s: Floats,
    wire_bytes: Floats,
    bus_Bps: Floats,
    cap_Bps: Floats,
    most: int | None = None,
    slowdown: float = 0.0,
    hindrance: float = 0.0,
) -> Floats:
    """Return when each exchange ends, seconds after its backward pass began.

    Every turn of the loop processes one event, a start or a finish, of every exchange that still
    goes on. Where pass and transfers disturb each other, the pass ends when the last transfer may
    start; a transfer of nothing makes that the end of the pass.

    Args:
        starts_s: [rows, transfers], after how much of the backward pass each gradient is there, in
            seconds that the pass takes undisturbed, rising; infinite where a row has fewer.
        wire_bytes: [rows, transfers], 2s(n − 1)/n.
        bus_Bps: [rows, transfers], bus bandwidth that is expected of each alone, above 0.
        cap_Bps: [rows], b_cap, may be infinite.
        most: how many transfers of a row go on at a time; None: all, as in the paper.
        slowdown: by which part of its time the backward pass takes longer while any transfer goes
            on; 0 in the paper.
        hindrance: by which part of its time a transfer takes longer as long as the backward pass
            goes on; 0 in the paper.

    Returns:
        [rows]

    Source: section 4.3: event queue, concurrency counter and equation (2).
    """
    rows, transfers = starts_s.shape
    ends_s = np.zeros(rows)
    if not transfers:
        return ends_s
    starts = np.hstack([starts_s, np.full((rows, 1), np.inf)])
    left = wire_bytes.astype(np.float64, copy=True)
    # Only active transfers have a rate; a row's place says which of its transfers starts next.
    active = np.zeros((rows, transfers), dtype=bool)
    limit = transfers if most is None else most
    place, now_s, index = np.zeros(rows, dtype=np.int64), np.zeros(rows), np.arange(rows)
    computed_s = np.zeros(rows)
    bus, cap = bus_Bps, cap_Bps
    # The end of a pass that hinders transfers is an event too: what starts then may have to wait.
    pass_s = np.where(np.isfinite(starts_s), starts_s, 0.0).max(axis=1) * (hindrance > 0)
    while len(index):
        each = np.arange(len(index))
        count = active.sum(axis=1)
        crowded = np.where(active, bus, 0.0).sum(axis=1) >= cap
        share = np.where(crowded, cap / np.maximum(count, 1), np.inf)
        computing = computed_s < pass_s
        rate = np.minimum(bus, share[:, None]) / np.where(computing, 1 + hindrance, 1.0)[:, None]
        finish = np.where(active, left / rate, np.inf)
        first = finish.argmin(axis=1)
        finish_s, pace = now_s + finish[each, first], np.where(count > 0, 1 + slowdown, 1.0)
        start_s = now_s + np.maximum(starts[each, place] - computed_s, 0.0) * pace
        start_s[count >= limit] = np.inf
        end_s = np.where(computing, now_s + (pass_s - computed_s) * pace, np.inf)
        next_s = np.minimum(np.minimum(finish_s, start_s), end_s)
        done = np.isinf(next_s)
        if done.any():
            ends_s[index[done]] = now_s[done]
            keep = ~done
            index, starts, left, active = index[keep], starts[keep], left[keep], active[keep]
            place, now_s, bus, cap = place[keep], now_s[keep], bus[keep], cap[keep]
            pass_s, end_s = pass_s[keep], end_s[keep]
            rate, first, finish_s, pace = rate[keep], first[keep], finish_s[keep], pace[keep]
            start_s, next_s, computed_s = start_s[keep], next_s[keep], computed_s[keep]
            each = np.arange(keep.sum())
        left -= np.where(active, rate * (next_s - now_s)[:, None], 0.0)
        np.maximum(left, 0.0, out=left)
        finishes = (finish_s <= start_s) & (finish_s <= end_s)
        begins = (start_s < finish_s) & (start_s <= end_s)
        active[each[finishes], first[finishes]] = False
        active[each[begins], place[begins]] = True
        place += begins
        computed_s, now_s = computed_s + (next_s - now_s) / pace, next_s
        ends = ~finishes & ~begins
        computed_s[ends] = pass_s[ends]
    return ends_s
