"""The static policies that Srift is compared with: CAP and TAP (section 5.2)."""

from collections.abc import Sequence
from math import ceil
from typing import Literal

from models.choosing.offers import Offer
from models.srift.performance import Configuration, Group, Performance

Policy = Literal["CAP", "TAP"]


def policy(
    which: Policy, performance: Performance, offers: Sequence[Offer], global_batch: int
) -> Configuration | None:
    """Return what a policy requests, None if all offers together cannot hold the global batch.

    CAP, cost-aware, ranks offers by price per node, TAP, throughput-aware, by how many samples per
    second a node computes. Both load nodes with the largest power-of-two batch that fits and
    request them in that order until all samples are distributed. Whatever does not fill a node
    goes to one more.

    Raises:
        BadInput: an offer without profile.
    """
    ranked = sorted(
        offers,
        key=lambda one: one.usd_per_hour if which == "CAP" else -speed(performance, one.node_type),
    )
    groups: list[Group] = []
    left = global_batch
    for offer in ranked:
        load = full_load(performance, offer.node_type)
        count = min(offer.capacity, left // load)
        if count:
            groups.append(_group(offer, count, load))
            left -= count * load
        if 0 < left < load and count < offer.capacity:
            groups.append(_group(offer, 1, left))
            left = 0
    return Configuration(groups=tuple(groups)) if groups and not left else None


def full_load(performance: Performance, node_type: str) -> int:
    """Return the largest power-of-two batch per device, for all devices of a node."""
    profile = performance.node(node_type)
    return profile.devices << (profile.max_batch.bit_length() - 1)


def speed(performance: Performance, node_type: str) -> float:
    """Return samples per second that a fully loaded node computes."""
    load, latency = full_load(performance, node_type), performance.node(node_type).latency
    per_device = ceil(load / performance.node(node_type).devices)
    return load / float(latency.alone_s(per_device))


def _group(offer: Offer, count: int, batch_size: int) -> Group:
    return Group(node_type=offer.node_type, market=offer.market, count=count, batch_size=batch_size)
