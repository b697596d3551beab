"""What the workers of a configuration share, station by station."""

from collections import Counter
from collections.abc import Sequence
from functools import partial

from models.async_sgd.fair_rates import Connection, max_min, two_servers
from models.async_sgd.graph import Resource
from models.async_sgd.measured_sharing import MeasuredSharing
from models.async_sgd.options import Options
from models.async_sgd.sharing import SharedLinks, SharedResource, Standing
from models.async_sgd.workers import Workers, own_links_Bps, stations_of

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
    for resource, server in stations:
        if resource.is_link and options.sharing != "equal":
            shared.append(jointly[resource])
        elif resource.is_link:
            cap_Bps = options.worker_Bps(resource, 0)
            speed_Bps = options.server_Bps(resource, server)
            shared.append(SharedResource(speed_Bps, cap_Bps, _standing(options)))
        elif resource is Resource.PS and options.server_cores is not None:
            shared.append(SharedResource(options.server_cores, 1.0))
        else:
            shared.append(None)
    return shared


def _standing(options: Options) -> Standing:
    return Standing(options.newcomer_weight, options.newcomer_pause_s)


def _rates(
    options: Options,
    resource: Resource,
    own_Bps: Sequence[float],
    connections: Sequence[Connection],
    weights: Sequence[float],
    against: Sequence[Connection],
) -> list[float]:
    if options.sharing == "two_servers":
        return two_servers(connections, weights, options.server_Bps(resource, 0))
    n = Counter(one.server for one in connections)
    servers_Bps = {server: options.server_Bps(resource, server) for server in sorted(n)}
    workers = sorted({one.worker for one in connections})
    workers_Bps = {worker: own_Bps[worker] for worker in workers}
    measured = options.measured(resource)
    if measured is not None:
        servers_Bps = {s: speed * measured.of(n[s])[0] for s, speed in servers_Bps.items()}
        shares = _shares(measured, connections, n)
        weights = [share * weight for share, weight in zip(shares, weights, strict=True)]
        m = Counter(one.server for one in against)
        for one in connections:
            most_Bps = own_Bps[one.worker] * measured.against(m[one.server])
            workers_Bps[one.worker] = min(workers_Bps[one.worker], most_Bps)
    return max_min(connections, weights, servers_Bps, workers_Bps)


def _shares(
    measured: MeasuredSharing, connections: Sequence[Connection], n: Counter[int]
) -> list[float]:
    """Return each connection's measured share among those of its server."""
    older = Counter[int]()
    shares = []
    for one in connections:
        of_server = measured.of(n[one.server])[1]
        place = older[one.server]
        older[one.server] += 1
        shares.append(of_server[place if measured.largest_to == "oldest" else -1 - place])
    return shares
