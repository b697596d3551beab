"""What is shared, as the kernel's rows: who has which, how many flows it can hold, its speed."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from models.async_sgd.graph import Graph, Resource
from models.async_sgd.kernel.state import UNSHARED, Connection, Floats, Row
from models.async_sgd.options import Options

_DIRECTIONS = (Resource.DOWNLINK, Resource.UPLINK)


@dataclass
class Rows:
    """Rows, the first of which stands for all workers' cores, while others are being added.

    Lists of the most flows, capacity, and what a flow of weight 1 gets at most. `of_station` is the
    row of each station, None for the workers' own. `joint` has the direction of rows whose flows
    share links of servers and workers at the same time.
    """

    workers: int
    most: list[int] = field(default_factory=list)
    capacity: list[float] = field(default_factory=list)
    cap: list[float] = field(default_factory=list)
    of_station: list[int | None] = field(default_factory=list)
    joint: dict[int, Resource] = field(default_factory=dict)

    def add(self, most: int, capacity: float, cap: float) -> int:
        """Append a row and return its number."""
        self.most.append(most)
        self.capacity.append(capacity)
        self.cap.append(cap)
        return self.workers + len(self.most) - 2


def rows_of(graph: Graph, options: Options) -> Rows:
    """Return what the workers share at each station."""
    workers = options.workers
    rows = Rows(workers)
    rows.add(graph.resources.count(Resource.WORKER), options.cores, 1.0)
    directions: dict[Resource, int] = {}
    for station, (resource, server) in enumerate(graph.stations):
        if resource is Resource.WORKER:
            rows.of_station.append(None)
        elif resource.is_link and options.sharing != "equal":
            if resource not in directions:
                directions[resource] = rows.add(workers * servers_of(graph), 1.0, 1.0)
                rows.joint[directions[resource]] = resource
            rows.of_station.append(directions[resource])
        elif resource.is_link:
            cap_Bps = options.worker_Bps(resource, 0)
            speed_Bps = options.server_Bps(resource, server)
            rows.of_station.append(rows.add(workers, speed_Bps, cap_Bps))
        elif options.server_cores is not None:
            most = workers * graph.station_of.count(station)
            rows.of_station.append(rows.add(most, options.server_cores, 1.0))
        else:
            rows.of_station.append(UNSHARED)
    return rows


def servers_of(graph: Graph) -> int:
    """Return the number of servers, those that only have a number included."""
    return 1 + max(server for _, server in graph.stations)


def row_records(rows: Rows) -> tuple[Any, int, Any]:
    """Return all rows, the size of the heaps of their flows, and room for connections."""
    records: Any = Row.zeros(rows.workers + len(rows.most) - 1)
    heap = connections = 0
    for index, row in enumerate(records):
        kind = max(index - rows.workers + 1, 0)
        row["capacity"], row["cap"] = rows.capacity[kind], rows.cap[kind]
        room = max(rows.most[kind], 1)
        if index in rows.joint:
            row["joint"] = 1
            row["is_uplink"] = rows.joint[index] is Resource.UPLINK
            row["flows_at"] = row["first"] = connections
            connections += room
        else:
            row["flows_at"] = heap
            heap += room
    return records, heap, Connection.zeros(max(connections, 1))


def speeds_of(graph: Graph, options: Options) -> Floats:
    """Return the speeds of all servers' and then all workers' links, down and up."""
    return np.array(
        [
            [
                *(options.server_Bps(resource, server) for server in range(servers_of(graph))),
                *(options.worker_Bps(resource, worker) for worker in range(options.workers)),
            ]
            for resource in _DIRECTIONS
        ]
    )


def shares_of(options: Options) -> Floats:
    """Return the tables of both directions: for n = 1, 2 …, efficiency and n shares.

    Shares are in order of arrival: largest first where the oldest flow gets the largest.
    """
    if options.sharing != "max_min":
        return np.ones((2, 1))
    tables = []
    for resource in _DIRECTIONS:
        measured = options.measured(resource)
        table: list[float] = []
        for n in range(1, options.workers + 1):
            efficiency, shares = (1.0, (1.0,) * n) if measured is None else measured.of(n)
            turned = measured is not None and measured.largest_to == "newest"
            table += [efficiency, *(reversed(shares) if turned else shares)]
        tables.append(table)
    return np.array(tables)
