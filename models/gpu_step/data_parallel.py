"""A step of data-parallel training on several GPUs: passes, and collectives beside them.

`distributed` (DistributedDataParallel): gradients go into buckets in the order in which backward
makes them, which is that of the parameters reversed; each full bucket is reduced on a stream
beside the passes, one after the other, and the optimizer waits for the last (Li et al., PyTorch
Distributed, VLDB 2020, section 3.2). `sharded` (FullyShardedDataParallel, ZeRO-3): each unit of
layers gathers its parameters before its forward and its backward, the next one beside it, and
scatters its gradients after (Zhao et al., PyTorch FSDP, VLDB 2023, section 3).

Where bytes go through memory of hosts, all-reduces beside passes take longer. The slowest of all
GPUs is waited for, so passes take `straggling`, a share, more each time that their number doubles
(Srift, section 4.3). Micro-steps before the last of an accumulation exchange nothing (`no_sync`);
sharded ones gather and scatter in each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from math import log2

import numpy as np

from models.gpu_step.collectives import Collective, Collectives, Topology
from models.gpu_step.columns import Vector

_UNITS = 32
"""Of a sharded network at most: about the blocks of a transformer."""
FIRST_BUCKET_BYTES = 2**20
BUCKET_BYTES = 25 * 2**20
_ALIKE = 1e-12
_HINDERED = 1.3
"""Through memory of hosts, a bucket beside passes took 2.3 times as long as alone: over TCP, of our
own (lab/srift.md)."""
Reductions = Sequence[tuple[float, float]]
"""When each bucket is full, as share of backward, and seconds of its reduction."""
BACKWARD_SHARE = 2 / 3
"""Of both passes: as many products for the inputs' gradients, and for the weights', as forward."""


@dataclass(frozen=True)
class Passes:
    """Seconds of one GPU's forward and backward of a micro-step, and of its optimizer's step."""

    passes_s: float
    optimizer_s: float
    accumulate: int = 1

    @property
    def step_s(self) -> float:
        """Seconds of a step of one GPU alone."""
        return self.passes_s * self.accumulate + self.optimizer_s


@dataclass(frozen=True)
class Exchange:
    """What is exchanged: bytes of each gradient, in order, and how long that takes.

    Attributes:
        frozen_bytes: of parameters without gradients, which shards gather, too.
        scatters: each GPU gets the sums of a part of the gradients alone, steps with these, and
            parameters are gathered after that (ZeRO-1 and 2; Rajbhandari et al., SC 2020).
        scatters_passes: after each pass (ZeRO-2): no GPU keeps all gradients until the last.
        copies: groups of GPUs that each have all shards, and reduce gradients among them (HSDP).
        ranks: that wait for each other in a step; 0: those of the topology.
    """

    sizes_bytes: tuple[float, ...]
    collectives: Collectives
    topology: Topology
    frozen_bytes: tuple[float, ...] = ()
    scatters: bool = False
    scatters_passes: bool = False
    copies: Topology | None = None
    ranks: int = 0

    @cached_property
    def reductions(self) -> list[tuple[float, float]]:
        """When each bucket is full, as share of backward, and seconds of its all-reduce."""
        filled = buckets(self.sizes_bytes)
        sizes = np.array([size_bytes for _, size_bytes in filled])
        reduction: Collective = "reduce_scatter" if self.scatters else "all_reduce"
        seconds = self.collectives.seconds(reduction, sizes, self.topology)
        return [
            (share, float(reduction_s))
            for (share, _), reduction_s in zip(filled, seconds, strict=True)
        ]

    @cached_property
    def gathers_s(self) -> list[float]:
        """Seconds in which the parameters of each unit are gathered."""
        frozen = _units(self.frozen_bytes, self._unit_count)
        return self._moved_s("all_gather", np.array(self._units) + frozen)

    @cached_property
    def scatters_s(self) -> list[float]:
        """Seconds in which the gradients of each unit are scattered: its frozen part has none."""
        scattered_s = self._moved_s("reduce_scatter", np.array(self._units))
        if self.copies is None:
            return scattered_s
        parts = np.array(self._units) / self.topology.ranks
        reduced_s = self.collectives.seconds("all_reduce", parts, self.copies)
        return [one + float(other) for one, other in zip(scattered_s, reduced_s, strict=True)]

    @property
    def _unit_count(self) -> int:
        return min(_UNITS, max(len(self.sizes_bytes), len(self.frozen_bytes)))

    @property
    def _units(self) -> list[float]:
        return _units(self.sizes_bytes, self._unit_count)

    def _moved_s(self, collective: Collective, sizes_bytes: Vector) -> list[float]:
        seconds = self.collectives.seconds(collective, sizes_bytes, self.topology)
        return [float(each_s) for each_s in np.where(sizes_bytes > 0, seconds, 0.0)]


def distributed_s(passes: Passes, exchange: Exchange, straggling: float) -> float:
    """Return seconds of a step of DistributedDataParallel."""
    slower = 1 + straggling_share(exchange, straggling)
    forward_s = passes.passes_s * (1 - BACKWARD_SHARE) * slower
    backward_s = passes.passes_s * BACKWARD_SHARE * slower
    hindered = _HINDERED if exchange.topology.is_through_host else 0.0
    both_s = _reduced_s(forward_s, backward_s, exchange.reductions, hindered)
    pass_s = both_s if exchange.scatters_passes else forward_s + backward_s
    alone_s = (passes.accumulate - 1) * pass_s
    optimizer_s = passes.optimizer_s
    if exchange.scatters:
        optimizer_s = optimizer_s / exchange.topology.ranks + sum(exchange.gathers_s)
    return alone_s + both_s + optimizer_s


def _reduced_s(
    forward_s: float, backward_s: float, reductions: Reductions, hindered: float
) -> float:
    """Return seconds of passes and reductions, which take longer by a share beside the passes.

    A GPU has little to do for what hosts move.
    """
    clock, reduced = forward_s + backward_s, forward_s
    for share, reduction_s in reductions:
        begun = max(reduced, forward_s + share * backward_s)
        beside_s = min(reduction_s, max(clock - begun, 0.0) / (1 + hindered))
        reduced = begun + reduction_s + hindered * beside_s
    return max(clock, reduced)


@lru_cache(maxsize=64)
def buckets(sizes_bytes: tuple[float, ...]) -> list[tuple[float, float]]:
    """Return when each bucket is full, as share of backward, and its bytes.

    Gradients come in the reverse order of parameters, at even intervals: large matrices of dense
    layers have as much work for a byte as others only at equal batch and length.
    """
    full_buckets, filled, limit = list[tuple[float, float]](), 0.0, FIRST_BUCKET_BYTES
    for place, size_bytes in enumerate(reversed(sizes_bytes), start=1):
        filled += size_bytes
        if filled >= limit or place == len(sizes_bytes):
            full_buckets.append((place / len(sizes_bytes), filled))
            filled, limit = 0.0, BUCKET_BYTES
    return full_buckets


def sharded_s(passes: Passes, exchange: Exchange, straggling: float) -> float:
    """Return seconds of a step of FullyShardedDataParallel.

    Gathers and scatters share a stream: while a unit works, the next one is gathered.
    """
    gathers_s, scatters_s = exchange.gathers_s, exchange.scatters_s
    each_s = passes.passes_s * (1 + straggling_share(exchange, straggling)) / len(gathers_s)
    forward = [(each_s * (1 - BACKWARD_SHARE), gather_s, 0.0) for gather_s in gathers_s]
    backward = [
        (each_s * BACKWARD_SHARE, gather_s, scatter_s)
        for gather_s, scatter_s in zip(gathers_s, scatters_s, strict=True)
    ]
    work = forward + backward[::-1]
    gathered = stream = work[0][1]
    clock, left = 0.0, passes.accumulate
    while left:
        before = clock, gathered, stream
        for place, (work_s, _, scattering_s) in enumerate(work, start=1):
            start = max(clock, gathered)
            if left > 1 or place < len(work):
                stream = gathered = max(stream, start) + work[place % len(work)][1]
            clock = start + work_s
            if scattering_s:
                stream = max(stream, clock) + scattering_s
        left -= 1
        longer = [now - then for now, then in zip((clock, gathered, stream), before, strict=True)]
        if left > 1 and max(longer) - min(longer) <= _ALIKE * clock:
            # All passes but the last take as long from here on.
            clock, gathered, stream = (
                each + (left - 1) * longer[0] for each in (clock, gathered, stream)
            )
            left = 1
    return max(stream, clock) + passes.optimizer_s / exchange.topology.ranks


def _units(sizes_bytes: Sequence[float], count: int) -> list[float]:
    """Return bytes of units of consecutive parameters, about equally many in each."""
    bounds = [round(unit * len(sizes_bytes) / count) for unit in range(count + 1)]
    return [sum(sizes_bytes[a:b]) for a, b in pairwise(bounds)]


def straggling_share(exchange: Exchange, straggling: float) -> float:
    """Return by which share of its passes the slowest of all GPUs takes longer."""
    return straggling * log2(exchange.ranks or exchange.topology.ranks)
