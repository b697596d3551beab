"""What one iteration all-reduces, and when each transfer may start (sections 4.1 and 4.3)."""

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
    found: Ints = powers[np.searchsorted(powers, sizes)]
    return found


def wire_factor(world_size: int) -> float:
    """Return what crosses each rank's interface for every byte reduced: 2(n − 1)/n (4.2)."""
    return 2 * (world_size - 1) / world_size
