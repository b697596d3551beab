"""SIM of section 4.3: how long one iteration of a configuration takes."""

from dataclasses import dataclass
from math import ceil, inf

import numpy as np

from models.srift.exchange import power_of_two, wire_factor
from models.srift.performance import Configuration, Group, Performance
from models.srift.simulator import Allreduce, Event, exchange
from models.srift.stragglers import expected_maximum
from warehouse.records import BadInput


@dataclass(frozen=True)
class Iteration:
    """The expected iteration of one configuration.

    Attributes:
        forward_s: forward pass of the slowest node.
        backward_s: its backward pass, undisturbed.
        update_s: its update.
        exchange_s: end of the last all-reduce, after the backward pass began; with a slowdown, of
            the backward pass too.
        events: starts and finishes of all-reduces, on the same clock; `transfer` counts in the
            order of `Performance.transfers` of the slowest node type.
    """

    forward_s: float
    backward_s: float
    update_s: float
    exchange_s: float
    events: tuple[Event, ...]

    @property
    def step_time_s(self) -> float:
        """t_iter = t_fw + max(t_bw, t_pe), and the update."""
        return self.forward_s + max(self.backward_s, self.exchange_s) + self.update_s


def simulate(performance: Performance, configuration: Configuration) -> Iteration:
    """Return the expected iteration of a configuration.

    The slowest node type's passes are stretched so that together they take what the slowest of all
    nodes is expected to take.

    Source: section 4.3.

    Raises:
        BadInput: a node type without profile, or a batch that does not fit a device.
    """
    parts = [_parts(performance, group) for group in configuration.groups]
    means = np.array([sum(part) for part in parts])
    scales = [_scale(performance, group) for group in configuration.groups]
    counts = np.array([one.count for one in configuration.groups])
    (compute_s,) = expected_maximum(means[None], (means * np.array(scales))[None], counts[None])
    slowest = int(means.argmax())
    forward_s, backward_s, update_s = (
        part * float(compute_s / means[slowest]) for part in parts[slowest]
    )
    node_type = configuration.groups[slowest].node_type
    events = _exchange(performance, configuration, node_type, backward_s)
    exchange_s = events[-1].time_s if events else 0.0
    return Iteration(forward_s, backward_s, update_s, exchange_s, tuple(events))


def world_size(performance: Performance, configuration: Configuration) -> int:
    """Return how many devices take part."""
    return sum(one.count * performance.node(one.node_type).devices for one in configuration.groups)


def _exchange(
    performance: Performance, configuration: Configuration, slowest: str, backward_s: float
) -> list[Event]:
    ranks = world_size(performance, configuration)
    todo = performance.transfers(slowest)
    if ranks == 1 or not len(todo.size_bytes):
        return []
    bus_Bps = performance.bandwidth.table(
        configuration.node_types, np.array([ranks]), power_of_two(todo.size_bytes)
    )[0]
    # The link of a single node carries nothing.
    cap_Bps = (
        min(performance.node(one).link_Bps for one in configuration.node_types)
        if configuration.nodes > 1
        else inf
    )
    return exchange(
        [
            Allreduce(float(ready) * backward_s, float(size) * wire_factor(ranks), float(bus))
            for ready, size, bus in zip(todo.ready, todo.expected_bytes, bus_Bps, strict=True)
        ],
        cap_Bps,
        performance.streams,
        performance.slowdown,
        performance.hindrance,
    )


def _scale(performance: Performance, group: Group) -> float:
    profile = performance.node(group.node_type)
    return float(profile.latency.scale(ceil(group.batch_size / profile.devices)))


def check_fits(node_type: str, batch_size: int, devices: int, max_batch: int) -> None:
    """Refuse a node's batch whose part for a device is larger than the largest known to fit one.

    Raises:
        BadInput: it is; naming the node type.
    """
    per_device = ceil(batch_size / devices)
    if per_device > max_batch:
        raise BadInput(
            f"{node_type}: a batch of {batch_size} is {per_device} for each of {devices} "
            f"device(s), which hold {max_batch}; use a smaller batch, or profile larger ones"
        )


def _parts(performance: Performance, group: Group) -> tuple[float, float, float]:
    """Return forward, backward and update of a node's fullest device, seconds."""
    profile = performance.node(group.node_type)
    per_device = ceil(group.batch_size / profile.devices)
    check_fits(group.node_type, group.batch_size, profile.devices, profile.max_batch)
    latency = profile.latency
    return float(latency.forward(per_device)), float(latency.backward(per_device)), latency.update_s
