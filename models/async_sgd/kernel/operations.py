"""What groups of workers do, as the kernel's arrays: operations, their work, what starts first."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from models.async_sgd.graph import Graph, Resource
from models.async_sgd.kernel.state import (
    OPERATION_BITS,
    STATION_OFFSET,
    Floats,
    Operation,
    Shorts,
    Timing,
)
from models.async_sgd.options import Options
from models.async_sgd.workers import Station, Workers, station_numbers, stations_of


class Laid(NamedTuple):
    """The operations of one group, by position, `at` being the first one's.

    `operations` lack where their successors and stations are, which are `successors` and `touched`.
    """

    at: int
    operations: Any
    successors: list[list[int]]
    touched: list[list[int]]
    timings: Any
    roots: Shorts
    release_s: Floats
    rank_of_served: int


def laid_out(groups: Sequence[Workers]) -> list[Laid]:
    """Return the operations of each group, one group after the other."""
    stations, found, at = stations_of(groups), list[Laid](), 0
    for group in groups:
        found.append(_laid(group, stations, at))
        at += len(group.graph.names)
    return found


def joined(parts: Sequence[Laid]) -> tuple[Any, Shorts, Shorts]:
    """Return the operations of all groups, their successors and the stations they touch."""
    successors = [targets for part in parts for targets in part.successors]
    touched = [used for part in parts for used in part.touched]
    operations: Any = Operation.zeros(len(successors) + 1)
    operations[:-1] = np.concatenate([part.operations for part in parts])
    operations["successors_at"] = np.cumsum([0, *map(len, successors)])
    operations["touched_at"] = np.cumsum([0, *map(len, touched)])
    return operations, _flat(successors), _flat(touched)


def is_limited(resource: Resource, options: Options) -> bool:
    """Return whether a worker uses a station for one operation at a time."""
    return resource.is_link or (resource is Resource.WORKER and options.inter_op_threads == 1)


def _laid(group: Workers, stations: Sequence[Station], at: int) -> Laid:
    graph, steps, options = group
    station_of = station_numbers(graph, stations)
    order = np.argsort(np.array([step.ranks for step in steps]).sum(axis=0), kind="stable")
    place = np.argsort(order) + at
    operations: Any = Operation.zeros(len(order))
    operations["station"] = np.array(station_of)[order]
    operations["predecessors"] = np.array(graph.predecessors)[order]
    numbers = ((operations["station"].astype(np.int64) + STATION_OFFSET) << OPERATION_BITS) | order
    operations["code"] = (numbers << OPERATION_BITS) | (np.arange(len(order)) + at)
    enforced = np.unique(options.ranks or (0,) * len(order), return_inverse=True)[1]
    roots = [i for i, count in enumerate(graph.predecessors) if count == 0]
    released = [sorted(roots, key=lambda i: (step.release_s[i], i)) for step in steps]
    return Laid(
        at=at,
        operations=operations,
        successors=[[int(place[target]) for target in graph.successors[i]] for i in order],
        touched=[_touched(graph, station_of, options, i) for i in order],
        timings=_timings(group, enforced, order),
        roots=place[np.array(released)].astype(np.int32).reshape(-1),
        release_s=np.array(
            [step.release_s[i] for step, row in zip(steps, released, strict=True) for i in row]
        ),
        rank_of_served=0 if options.ranks is None else int(enforced.max()) + 1,
    )


def _touched(
    graph: Graph, station_of: Sequence[int], options: Options, operation: int
) -> list[int]:
    """Return the stations where the end of an operation may let something start."""
    used = {station_of[i] for i in graph.successors[operation]}
    if is_limited(graph.resources[operation], options):
        used.add(station_of[operation])
    return sorted(used)


def _timings(group: Workers, enforced: Any, order: Any) -> Any:
    """Return all steps' timings, transfers with their bytes and enforced ranks, by position."""
    graph, steps, _ = group
    is_transfer = np.array([resource.is_link for resource in graph.resources])
    size_bytes = np.array(graph.sizes_bytes, np.float64)
    timings = Timing.zeros(len(steps) * len(order))
    for row, step in zip(timings.reshape(len(steps), -1), steps, strict=True):
        row["work"] = np.where(is_transfer, size_bytes, step.seconds)[order]
        row["rank"] = np.where(is_transfer, enforced, step.ranks)[order]
    return timings


def _flat(lists: Sequence[Sequence[int]]) -> Shorts:
    return np.array(list(chain.from_iterable(lists)), np.int32)
