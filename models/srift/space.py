"""Every way to divide a global batch among the nodes on offer (section 4.4)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.choice.offers import Offer
from models.srift.iteration import Performance, expected_maximum
from warehouse.records import BadInput

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


MOST_CONFIGURATIONS = 20_000_000
"""A space of more is refused: its rows would not fit into memory."""


@dataclass(frozen=True)
class OfferOptions:
    """Everything one offer can contribute: each count of nodes with each power-of-two batch.

    All arrays are [options]; an option is named by its index, and offers follow one another.

    Attributes:
        offers: the offers, in the order given.
        offer: index of the option's offer.
        count: nodes.
        batch_size: samples of one node, a power of two for each of its devices.
        samples: count · batch_size.
        devices: of all its nodes.
        usd_per_s: price of all its nodes.
        forward_s: of one node; likewise backward_s and update_s.
        mean_s: the three together.
        deviation_s: standard deviation of `mean_s` from node to node and step to step.
        slowest_s: expected computation of the slowest of its nodes.
    """

    offers: tuple[Offer, ...]
    offer: Ints
    count: Ints
    batch_size: Ints
    samples: Ints
    devices: Ints
    usd_per_s: Floats
    forward_s: Floats
    backward_s: Floats
    update_s: Floats
    mean_s: Floats
    deviation_s: Floats
    slowest_s: Floats


def list_offer_options(
    performance: Performance, offers: Sequence[Offer], global_batch: int
) -> OfferOptions:
    """Return the options of all offers that do not exceed the global batch.

    Raises:
        BadInput: an offer twice, or a node type without profile.
    """
    keys = [(offer.node_type, offer.market) for offer in offers]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise BadInput(f"{' '.join(twice)} is offered twice; give each node type and market once")
    columns = [_of_offer(performance, offers, i, global_batch) for i in range(len(offers))]
    offer, count, batch_size, devices, usd, forward, backward, update, scale = np.hstack(columns)
    mean_s = forward + backward + update
    whole = count.astype(np.int64)
    deviation_s = mean_s * scale
    return OfferOptions(
        offers=tuple(offers),
        offer=offer.astype(np.int64),
        count=whole,
        batch_size=batch_size.astype(np.int64),
        samples=(count * batch_size).astype(np.int64),
        devices=(count * devices).astype(np.int64),
        usd_per_s=count * usd / 3600,
        forward_s=forward,
        backward_s=backward,
        update_s=update,
        mean_s=mean_s,
        deviation_s=deviation_s,
        slowest_s=mean_s + deviation_s * _deviations(whole),
    )


def _deviations(counts: Ints) -> Floats:
    """Return by how many standard deviations the largest of so many is expected above the mean."""
    each, of_option = np.unique(counts, return_inverse=True)
    zeros = np.zeros((len(each), 1))
    return expected_maximum(zeros, zeros + 1, each[:, None])[of_option]


def _of_offer(
    performance: Performance, offers: Sequence[Offer], index: int, global_batch: int
) -> Floats:
    """Return one column per option."""
    offer = offers[index]
    profile = performance.node(offer.node_type)
    batches = 2 ** np.arange(profile.max_batch.bit_length(), dtype=np.int64)
    counts = np.arange(1, offer.capacity + 1, dtype=np.int64)
    per_device, count = (values.ravel() for values in np.meshgrid(batches, counts))
    fits = per_device * profile.devices * count <= global_batch
    per_device, count = per_device[fits], count[fits]
    latency = profile.latency
    same = np.ones(len(count))
    return np.stack(
        [
            same * index,
            count,
            per_device * profile.devices,
            same * profile.devices,
            same * offer.usd_per_hour,
            latency.forward(per_device),
            latency.backward(per_device),
            same * latency.update_s,
            latency.scale(per_device),
        ]
    )


def exhaustible(space: OfferOptions, global_batch: int, max_types: int | None) -> int:
    """Return how many offers a configuration may combine; None: all.

    Raises:
        BadInput: too many configurations to search them all.
    """
    types = min(max_types or len(space.offers), len(space.offers))
    count = count_splits(space, global_batch, types)
    if count > MOST_CONFIGURATIONS:
        raise BadInput(
            f"{count:,} configurations of up to {types} of {len(space.offers)} offers, where "
            f"{MOST_CONFIGURATIONS:,} can be searched: allow fewer together, or search eagerly"
        )
    return types


def count_splits(space: OfferOptions, global_batch: int, max_types: int) -> int:
    """Return in how many ways at most `max_types` offers can divide the global batch.

    Counts without listing: `ways[k, s]` is the number of choices of k offers for s samples.
    """
    ways = np.zeros((max_types + 1, global_batch + 1))
    ways[0, 0] = 1
    for sizes, choices in _sizes(space):
        before = ways[:-1].copy()
        # The last offer of the most that are allowed has to complete the batch.
        ways[-1, global_batch] += before[-1, global_batch - sizes] @ choices
        for size, choice in zip(sizes, choices, strict=True) if max_types > 1 else ():
            ways[1:-1, size:] += choice * before[:-1, : global_batch + 1 - size]
    return int(ways[:, global_batch].sum())


def _sizes(space: OfferOptions) -> Iterator[tuple[Ints, Ints]]:
    """Yield, for each offer, what it can contribute, and with how many of its options."""
    for offer in range(len(space.offers)):
        samples = space.samples[space.offer == offer]
        if len(samples):
            yield np.unique(samples, return_counts=True)


def splits(
    space: OfferOptions, global_batch: int, types: int, allowed: NDArray[np.bool_]
) -> Iterator[Ints]:
    """Yield the ways of exactly `types` offers to divide the global batch, some at a time.

    Args:
        space: the options.
        global_batch: samples of all nodes.
        types: number of offers in each way.
        allowed: [options], those that may take part.

    Yields:
        [ways, types] of option indices, offers rising; ways that begin with one offer at a time.
    """
    usable = np.flatnonzero(allowed)
    by_samples = usable[np.argsort(space.samples[usable], kind="stable")]
    for offer in range(len(space.offers)):
        ways = usable[space.offer[usable] == offer][:, None]
        for _ in range(types - 2):
            ways = _joined(space, ways, by_samples, global_batch, complete=False)
        if types > 1:
            ways = _joined(space, ways, by_samples, global_batch, complete=True)
        else:
            ways = ways[space.samples[ways[:, 0]] == global_batch]
        yield ways


def _joined(
    space: OfferOptions, ways: Ints, by_samples: Ints, global_batch: int, complete: bool
) -> Ints:
    """Return each way with each option of a later offer that completes, or at least fits."""
    sorted_samples = space.samples[by_samples]
    left = global_batch - space.samples[ways].sum(axis=1)
    end = np.searchsorted(sorted_samples, left, side="right" if complete else "left")
    start = np.searchsorted(sorted_samples, left, side="left") if complete else np.zeros_like(end)
    repeats = end - start
    way = np.repeat(np.arange(len(ways)), repeats)
    offset = np.arange(len(way)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    option = by_samples[start[way] + offset]
    later = space.offer[option] > space.offer[ways[way, -1]]
    joined: Ints = np.hstack([ways[way[later]], option[later][:, None]])
    return joined
