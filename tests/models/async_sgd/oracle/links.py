"""What the workers of a configuration share, station by station, and what each connection gets."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from models.async_sgd.graph import Resource
from models.async_sgd.link_sharing import Flow, NewcomerWeights, SharedResource
from models.async_sgd.workers import SimulationOptions, Workers, own_links_Bps, stations_of


class Connection(NamedTuple):
    """A worker and a server between which something is being sent in one direction."""

    worker: int
    server: int


def max_min(
    connections: Sequence[Connection],
    weights: Sequence[float],
    servers_Bps: dict[int, float],
    workers_Bps: dict[int, float],
) -> list[float]:
    """Return the weighted max-min fair rate of each connection, in bytes/s.

    Progressive filling: the rates of all, in proportion to their weights, rise until a link is
    full. What uses that link keeps its rate; the others go on.

    Source: Bertsekas and Gallager, "Data Networks", 2nd edition, section 6.5.2.
    """
    left_Bps = {(0, s): speed for s, speed in servers_Bps.items()}
    left_Bps |= {(1, w): speed for w, speed in workers_Bps.items()}
    links = [((0, connection.server), (1, connection.worker)) for connection in connections]
    rates = [0.0] * len(connections)
    rising = list(range(len(connections)))
    while rising:
        weight = dict.fromkeys(left_Bps, 0.0)
        for i in rising:
            for link in links[i]:
                weight[link] += weights[i]
        levels = {link: left_Bps[link] / total for link, total in weight.items() if total > 0}
        full = min(levels, key=levels.__getitem__)
        for i in rising:
            if full in links[i]:
                rates[i] = weights[i] * levels[full]
                for link in links[i]:
                    left_Bps[link] -= rates[i]
        rising = [i for i in rising if full not in links[i]]
    return rates


def two_servers(
    connections: Sequence[Connection], weights: Sequence[float], speed_Bps: float
) -> list[float]:
    """Return what each connection gets under the paper's rule for two servers.

    Those of one server share its link by weight: equal ones get 1/n. A worker that alone uses one
    server, and is one of n that use the other, gets its share of the other, 1/n, and the rest of
    its own link, 1 - 1/n, of the first. For n = 1 the rule would leave nothing to the first; the
    two then share the worker's link, equal ones by halves. Unequal shares that together exceed the
    worker's link, which equal ones never do, shrink until it carries them.

    Source: Li et al., ICPE 2020, section 5; weights are ours.
    """
    weight_of = dict(zip(connections, weights, strict=True))
    n = [sum(connection.server == server for connection in connections) for server in (0, 1)]
    total = [
        sum(w for connection, w in weight_of.items() if connection.server == server)
        for server in (0, 1)
    ]
    rates = []
    for (worker, server), weight in weight_of.items():
        other = 1 - server
        other_weight = weight_of.get(Connection(worker, other), 0.0)
        if n[server] > 1 or not other_weight:
            rates.append(speed_Bps * (weight / total[server]))
        elif n[other] > 1:
            rates.append(speed_Bps * (1 - other_weight / total[other]))
        else:
            rates.append(speed_Bps * (weight / (total[0] + total[1])))
    sums = dict.fromkeys((connection.worker for connection in connections), 0.0)
    for connection, rate in zip(connections, rates, strict=True):
        sums[connection.worker] += rate
    return [
        rate * min(1.0, speed_Bps / sums[connection.worker])
        for connection, rate in zip(connections, rates, strict=True)
    ]


@dataclass
class _Sending:
    flow: Flow
    server: int
    left_bytes: float
    weight: float
    since_s: float
    rate_Bps: float = 0.0
    ended: bool = False


class SharedLinks:
    """The links of all servers and workers in one direction, shared as `rates` says.

    `rates` gets the active connections, the longest without a pause first, their weights, and the
    connections in the `opposite` direction where that makes a difference. One that goes on at once
    with another chunk keeps its place.
    """

    def __init__(
        self,
        server_of: Sequence[int],
        rates: Callable[[Sequence[Connection], Sequence[float], Sequence[Connection]], list[float]],
        standing: NewcomerWeights | None = None,
    ) -> None:
        self.opposite: SharedLinks | None = None
        self._server_of, self._rates = server_of, rates
        self._standing = standing or NewcomerWeights()
        self._sending: list[_Sending] = []
        self._as_of_s = 0.0
        self._changed = False
        self.changes = 0

    def start(self, now_s: float, flow: Flow, size: float, weight: float = 1.0) -> None:
        """Let a flow of `size` bytes begin; its weight is multiplied by its worker's standing.

        That depends on the flows it finds at its server.
        """
        self._advance(now_s)
        server = self._server_of[flow.station]
        flow_count = sum(entry.server == server and not entry.ended for entry in self._sending)
        factor, since_s = self._standing.of(now_s, flow, flow_count)
        weight *= factor
        for entry in self._sending:
            if entry.ended and entry.flow[:2] == flow[:2]:
                self._changed |= weight != entry.weight
                entry.flow, entry.left_bytes, entry.weight, entry.ended = flow, size, weight, False
                return
        self._sending.append(_Sending(flow, server, size, weight, since_s))
        self._sending.sort(key=lambda entry: (entry.since_s, entry.flow.worker))
        self._changed = True

    def finish(self, now_s: float) -> None:
        """End the flow that `next_finish` named, at the time it named."""
        upcoming = self.next_finish()
        self._advance(now_s)
        for entry in self._sending:
            entry.ended = upcoming is not None and entry.flow == upcoming[1]
            if entry.ended:
                self._standing.ended(now_s, entry.flow)

    def next_finish(self) -> tuple[float, Flow] | None:
        """Return when which flow ends first if nothing changes."""
        if self._changed or any(entry.ended for entry in self._sending):
            self._sending = [entry for entry in self._sending if not entry.ended]
            weights = [entry.weight for entry in self._sending]
            against = self.opposite.connections() if self.opposite else ()
            rates_Bps = self._rates(self.connections(), weights, against)
            for entry, rate_Bps in zip(self._sending, rates_Bps, strict=True):
                entry.rate_Bps = rate_Bps
            self._changed = False
        return min(
            (
                (self._as_of_s + entry.left_bytes / entry.rate_Bps, entry.flow)
                for entry in self._sending
            ),
            default=None,
        )

    def connections(self) -> list[Connection]:
        """Return who sends between which worker and server."""
        return [
            Connection(entry.flow.worker, entry.server)
            for entry in self._sending
            if not entry.ended
        ]

    def disturbed(self, now_s: float) -> None:
        """Note that something has started or ended in the opposite direction."""
        self._advance(now_s)
        self._changed = True

    def _advance(self, now_s: float) -> None:
        self.changes += 1
        for entry in self._sending:
            entry.left_bytes = max(0.0, entry.left_bytes - (now_s - self._as_of_s) * entry.rate_Bps)
        self._as_of_s = now_s


Shared = SharedResource | SharedLinks


def shared_links(groups: Sequence[Workers]) -> list[Shared | None]:
    """Return what all workers share at each of their stations, None where nothing is."""
    stations, options = stations_of(groups), groups[0].options
    server_of = [server for _, server in stations]
    jointly = {
        resource: SharedLinks(
            server_of,
            partial(_rates, options, resource, own_links_Bps(groups, resource)),
            _standing(options),
        )
        for resource in Resource
        if resource.is_link
    }
    if any(options.measured(resource) for resource in jointly):
        down, up = jointly.values()
        down.opposite, up.opposite = up, down
    shared: list[Shared | None] = []
    for resource, _ in stations:
        if resource.is_link and options.sharing != "equal":
            shared.append(jointly[resource])
        elif resource.is_link:
            cap_Bps, speed_Bps = options.worker_Bps(resource), options.server_Bps(resource)
            shared.append(SharedResource(speed_Bps, cap_Bps, _standing(options)))
        else:
            shared.append(None)
    return shared


def _standing(options: SimulationOptions) -> NewcomerWeights:
    return NewcomerWeights(options.newcomer_weight, options.newcomer_pause_s)


def _rates(
    options: SimulationOptions,
    resource: Resource,
    own_Bps: Sequence[float],
    connections: Sequence[Connection],
    weights: Sequence[float],
    against: Sequence[Connection],
) -> list[float]:
    if options.sharing == "two_servers":
        return two_servers(connections, weights, options.server_Bps(resource))
    n = Counter(connection.server for connection in connections)
    servers_Bps = dict.fromkeys(sorted(n), options.server_Bps(resource))
    workers = sorted({connection.worker for connection in connections})
    workers_Bps = {worker: own_Bps[worker] for worker in workers}
    measured = options.measured(resource)
    if measured is not None:
        servers_Bps = {s: speed * measured.of(n[s]) for s, speed in servers_Bps.items()}
        weights = [
            weight / n[connection.server]
            for connection, weight in zip(connections, weights, strict=True)
        ]
        m = Counter(connection.server for connection in against)
        for connection in connections:
            most_Bps = own_Bps[connection.worker] * measured.against(m[connection.server])
            workers_Bps[connection.worker] = min(workers_Bps[connection.worker], most_Bps)
    return max_min(connections, weights, servers_Bps, workers_Bps)
