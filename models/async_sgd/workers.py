"""Workers that train together: groups of like ones, and what chance decides for each of them."""

from collections.abc import Sequence
from dataclasses import fields
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from models.async_sgd.graph import Graph, ProfiledStep, Resource
from models.async_sgd.options import Options
from warehouse.records import BadInput

Station = tuple[Resource, int]
T = TypeVar("T", np.int64, np.float64)

_OWN = ("workers", "steps", "ranks", "inter_op_threads", "cores", "client_gap_s")
_OWN_LINKS = ("worker_downlink_Bps", "worker_uplink_Bps")


class Workers(NamedTuple):
    """`options.workers` workers that are alike: what they do in a step, and how.

    Groups that train together may differ in graphs, steps, and the options of a worker: how many
    steps it does, its `ranks`, threads, cores and client gaps and, with `max_min`, its own link.
    The other options are the same for all of them.
    """

    graph: Graph
    steps: Sequence[ProfiledStep]
    options: Options


class Chances(NamedTuple):
    """What chance decides for every step of every worker, shape (workers, most steps).

    `sampled` is the profiled step that is repeated, `gap_s` what the client takes after it, and
    `weights` those of its transfers down and up. What is beyond a worker's steps means nothing.
    """

    sampled: NDArray[np.int64]
    gap_s: NDArray[np.float64]
    weights: tuple[NDArray[np.float64], NDArray[np.float64]]


def check(groups: Sequence[Workers]) -> None:
    """Refuse arguments of a simulation that do not fit each other.

    Raises:
        BadInput: no workers or steps, steps or ranks that do not fit their graph, options that the
            groups need to agree in, or servers that the options do not know.
    """
    if not groups:
        raise BadInput("simulation: expected workers, found none")
    for group in groups:
        _check_group(group)
        _check_agreement(groups[0].options, group.options)
    _check_servers(stations_of(groups), groups[0].options)


def stations_of(groups: Sequence[Workers]) -> tuple[Station, ...]:
    """Return the (resource, server) pairs that any of the workers uses, sorted."""
    return tuple(sorted({station for group in groups for station in group.graph.stations}))


def station_numbers(graph: Graph, stations: Sequence[Station]) -> list[int]:
    """Return the index into `stations` of each operation."""
    place = {station: index for index, station in enumerate(stations)}
    numbers = [place[station] for station in graph.stations]
    return [numbers[own] for own in graph.station_of]


def group_of_each(groups: Sequence[Workers]) -> list[Workers]:
    """Return the group of each worker; workers are numbered group by group."""
    return [group for group in groups for _ in range(group.options.workers)]


def own_links_Bps(groups: Sequence[Workers], resource: Resource) -> list[float]:
    """Return the speed of each worker's own link in the direction of `resource`."""
    return [
        group.options.worker_Bps(resource, number)
        for group in groups
        for number in range(group.options.workers)
    ]


def chances(groups: Sequence[Workers]) -> Chances:
    """Draw what chance decides; equal groups and seeds give equal draws."""
    shared = groups[0].options
    random = np.random.default_rng(shared.seed)
    shapes = [(group.options.workers, group.options.steps) for group in groups]
    sampled = [
        random.integers(len(group.steps), size=shape)
        for group, shape in zip(groups, shapes, strict=True)
    ]
    gap_s = [
        random.choice(np.array(group.options.client_gap_s), size=shape)
        for group, shape in zip(groups, shapes, strict=True)
    ]
    down, up = (
        [random.lognormal(0.0, spread, shape) for shape in shapes]
        for spread in (shared.downlink_spread, shared.uplink_spread)
    )
    return Chances(_stacked(sampled), _stacked(gap_s), (_stacked(down), _stacked(up)))


def _stacked(parts: Sequence[NDArray[T]]) -> NDArray[T]:
    most = max(part.shape[1] for part in parts)
    return np.concatenate([np.pad(part, ((0, 0), (0, most - part.shape[1]))) for part in parts])


def _check_group(group: Workers) -> None:
    count = len(group.graph.names)
    if not group.steps or not count:
        raise BadInput("simulation: expected operations and profiled steps, found none")
    for index, step in enumerate(group.steps):
        if len(step.seconds) != count:
            raise BadInput(
                f"simulation: profiled step {index} times {len(step.seconds)} operations; "
                f"the graph has {count}"
            )
    ranks = group.options.ranks
    if ranks is not None and len(ranks) != count:
        raise BadInput(f"simulation: expected {count} ranks, found {len(ranks)}")


def _check_agreement(first: Options, other: Options) -> None:
    own = (*_OWN, *_OWN_LINKS) if first.sharing == "max_min" else _OWN
    for field in fields(Options):
        expected, found = getattr(first, field.name), getattr(other, field.name)
        if field.name not in own and found != expected:
            raise BadInput(
                f"simulation: workers that train together need one {field.name}, found {expected} "
                f"and {found}"
            )


def _check_servers(stations: Sequence[Station], options: Options) -> None:
    servers = 1 + max(server for _, server in stations)
    for name in ("downlink_Bps", "uplink_Bps"):
        speeds = getattr(options, name)
        if isinstance(speeds, tuple) and len(speeds) < servers:
            raise BadInput(
                f"simulation: expected {servers} of {name}, one per server, found {len(speeds)}"
            )
    if options.sharing == "two_servers" and servers > 2:
        raise BadInput(
            f"simulation: sharing 'two_servers' is for servers 0 and 1, the graph has {servers}; "
            "use 'max_min'"
        )
