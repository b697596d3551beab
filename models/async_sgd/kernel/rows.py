"""What is shared, as the kernel's rows: who has which, how many flows it can hold, its speed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from models.async_sgd.graph import Resource
from models.async_sgd.kernel.state import UNSHARED, ConnectionFields, Floats, RowFields
from models.async_sgd.workers import SimulationOptions, Station, Workers, own_links_Bps, stations_of

_DIRECTIONS = (Resource.DOWNLINK, Resource.UPLINK)


@dataclass
class SharedRows:
    """Rows, while they are being added: first the cores of each worker.

    Lists of the most flows, capacity, and what a flow of weight 1 gets at most. `of_station` is the
    row of each station, None for the workers' own. `joint` has the direction of rows whose flows
    share links of servers and workers at the same time; `opposed`: whether they slow each other.
    """

    most: list[int] = field(default_factory=list)
    capacity: list[float] = field(default_factory=list)
    cap: list[float] = field(default_factory=list)
    of_station: list[int | None] = field(default_factory=list)
    joint: dict[int, Resource] = field(default_factory=dict)
    opposed: bool = False

    def add(self, most: int, capacity: float, cap: float) -> int:
        """Append a row and return its number."""
        self.most.append(most)
        self.capacity.append(capacity)
        self.cap.append(cap)
        return len(self.most) - 1


def rows_of(groups: Sequence[Workers]) -> SharedRows:
    """Return what the workers share at each station."""
    rows, options, stations = SharedRows(), groups[0].options, stations_of(groups)
    rows.opposed = any(options.measured(resource) for resource in _DIRECTIONS)
    for group in groups:
        computed = group.graph.resources.count(Resource.WORKER)
        for _ in range(group.options.workers):
            rows.add(computed, group.options.cores, 1.0)
    workers = len(rows.most)
    directions: dict[Resource, int] = {}
    for resource, _ in stations:
        if resource is Resource.WORKER:
            rows.of_station.append(None)
        elif resource.is_link and options.sharing != "equal":
            if resource not in directions:
                directions[resource] = rows.add(workers * servers_of(stations), 1.0, 1.0)
                rows.joint[directions[resource]] = resource
            rows.of_station.append(directions[resource])
        elif resource.is_link:
            cap_Bps, speed_Bps = options.worker_Bps(resource), options.server_Bps(resource)
            rows.of_station.append(rows.add(workers, speed_Bps, cap_Bps))
        else:
            rows.of_station.append(UNSHARED)
    return rows


def servers_of(stations: Sequence[Station]) -> int:
    """Return the number of servers, those that only have a number included."""
    return 1 + max(server for _, server in stations)


def row_records(rows: SharedRows) -> tuple[Any, int, Any]:
    """Return all rows, the size of the heaps of their flows, and room for connections."""
    records: Any = RowFields.zeros(len(rows.most))
    records["capacity"], records["cap"] = rows.capacity, rows.cap
    records["opposite"] = UNSHARED
    heap = connections = 0
    for index, (row, most) in enumerate(zip(records, rows.most, strict=True)):
        room = max(most, 1)
        if index in rows.joint:
            row["joint"] = 1
            row["is_uplink"] = rows.joint[index] is Resource.UPLINK
            if rows.opposed:
                row["opposite"] = next((other for other in rows.joint if other != index), UNSHARED)
            row["flows_at"] = row["first"] = connections
            connections += room
        else:
            row["flows_at"] = heap
            heap += room
    return records, heap, ConnectionFields.zeros(max(connections, 1))


def speeds_of(groups: Sequence[Workers]) -> Floats:
    """Return the speeds of all servers' and then all workers' links, down and up."""
    servers, options = servers_of(stations_of(groups)), groups[0].options
    return np.array(
        [
            [options.server_Bps(resource)] * servers + own_links_Bps(groups, resource)
            for resource in _DIRECTIONS
        ]
    )


def shares_of(options: SimulationOptions, workers: int) -> Floats:
    """Return of both directions, of n = 1, 2 … workers: efficiency and the share of each."""
    if options.sharing != "max_min":
        return np.ones((2, 1))
    counts = range(1, workers + 1)
    by_direction = [options.measured(resource) for resource in _DIRECTIONS]
    return np.array(
        [
            [
                figure
                for n in counts
                for figure in ((1.0, 1.0) if measured is None else (measured.of(n), 1 / n))
            ]
            for measured in by_direction
        ]
    )


def opposed_of(options: SimulationOptions, workers: int) -> Floats:
    """Return what 0, 1 … flows the other way leave of its link to a flow down and up."""
    by_direction = [options.measured(resource) for resource in _DIRECTIONS]
    return np.array(
        [
            [1.0 if measured is None else measured.against(m) for m in range(workers + 1)]
            for measured in by_direction
        ]
    )
