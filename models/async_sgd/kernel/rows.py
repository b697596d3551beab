"""What is shared, as the kernel's rows: who has which, how many flows it can hold, its speeds."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from models.async_sgd.graph import Graph, Resource
from models.async_sgd.kernel.state import UNSHARED, Connection, Floats, Row
from models.async_sgd.options import Options
from models.async_sgd.sharing import share


@dataclass
class Rows:
    """Rows beyond those of the workers' cores, while they are being added.

    `of_station` is the row of each station, None for the workers' own.
    """

    options: Options
    most: list[int]
    speeds: list[Floats]
    of_station: list[int | None] = field(default_factory=list)
    joint: dict[int, Resource] = field(default_factory=dict)

    def add(self, most: int, speeds: Floats) -> int:
        """Append a row for at most this many flows and return its number."""
        self.most.append(most)
        self.speeds.append(speeds)
        return self.options.workers + len(self.most) - 2


def rows_of(graph: Graph, options: Options) -> Rows:
    """Return what the workers share at each station."""
    workers = options.workers
    cores = graph.resources.count(Resource.WORKER)
    rows = Rows(options, [cores], [_equal(options.cores, 1.0, cores)])
    directions: dict[Resource, int] = {}
    for station, (resource, server) in enumerate(graph.stations):
        if resource is Resource.WORKER:
            rows.of_station.append(None)
        elif resource.is_link and options.sharing != "equal":
            if resource not in directions:
                most = workers * servers_of(graph)
                directions[resource] = rows.add(most, _links(graph, options, resource))
                rows.joint[directions[resource]] = resource
            rows.of_station.append(directions[resource])
        elif resource.is_link:
            speeds = _equal(options.server_Bps(resource, server), options.worker_Bps(0), workers)
            rows.of_station.append(rows.add(workers, speeds))
        elif options.server_cores is not None:
            most = workers * graph.station_of.count(station)
            rows.of_station.append(rows.add(most, _equal(options.server_cores, 1.0, most)))
        else:
            rows.of_station.append(UNSHARED)
    return rows


def servers_of(graph: Graph) -> int:
    """Return the number of servers, those that only have a number included."""
    return 1 + max(server for _, server in graph.stations)


def row_records(rows: Rows) -> tuple[Any, int, Any]:
    """Return all rows, the size of the heaps of their flows, and room for connections."""
    workers = rows.options.workers
    count = workers + len(rows.most) - 1
    records: Any = Row.zeros(count)
    records["speeds_at"][workers:] = np.cumsum([len(one) for one in rows.speeds])[:-1]
    heap = connections = 0
    for index in range(count):
        row = records[index]
        room = max(rows.most[max(index - workers + 1, 0)], 1)
        if index not in rows.joint:
            row["flows_at"] = heap
            heap += room
            continue
        row["joint"] = 1
        row["flows_at"] = row["first"] = connections
        connections += room
        row["shares_at"] = _TABLES[rows.joint[index]] * shares_size(workers)
        measured = rows.options.measured(rows.joint[index])
        row["turned"] = measured is not None and measured.largest_to == "newest"
    return records, heap, Connection.zeros(max(connections, 1))


def shares_size(workers: int) -> int:
    """Return how long a table of efficiencies and shares of up to `workers` flows is."""
    return workers * (workers + 3) // 2


def shares_of(options: Options) -> Floats:
    """Return the tables of both directions: for n = 1, 2 …, efficiency and n shares."""
    if options.sharing != "max_min":
        return np.ones(2 * shares_size(options.workers) if options.sharing != "equal" else 0)
    tables = []
    for resource in _TABLES:
        measured = options.measured(resource)
        for n in range(1, options.workers + 1):
            row = (1.0, (1.0,) * n) if measured is None else measured.of(n)
            tables.append(np.array([row[0], *row[1]]))
    return np.concatenate(tables)


_TABLES = {Resource.DOWNLINK: 0, Resource.UPLINK: 1}


def _equal(capacity: float, cap: float, most: int) -> Floats:
    """Return what each of n flows gets, by n from 0 to `most`."""
    return np.array([0.0, *(share(capacity, n, cap) for n in range(1, most + 1))])


def _links(graph: Graph, options: Options, resource: Resource) -> Floats:
    """Return the speeds of all servers' and then all workers' links."""
    servers = [options.server_Bps(resource, server) for server in range(servers_of(graph))]
    return np.array(servers + [options.worker_Bps(worker) for worker in range(options.workers)])
