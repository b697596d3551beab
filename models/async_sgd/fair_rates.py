"""What connections get when servers' and workers' links are shared at the same time."""

from collections.abc import Sequence
from typing import NamedTuple


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
    links = [((0, one.server), (1, one.worker)) for one in connections]
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
    n = [sum(one.server == server for one in connections) for server in (0, 1)]
    total = [sum(w for one, w in weight_of.items() if one.server == server) for server in (0, 1)]
    rates = []
    for (worker, server), weight in weight_of.items():
        other = 1 - server
        there = weight_of.get(Connection(worker, other), 0.0)
        if n[server] > 1 or not there:
            rates.append(speed_Bps * (weight / total[server]))
        elif n[other] > 1:
            rates.append(speed_Bps * (1 - there / total[other]))
        else:
            rates.append(speed_Bps * (weight / (total[0] + total[1])))
    sums = dict.fromkeys((one.worker for one in connections), 0.0)
    for one, rate in zip(connections, rates, strict=True):
        sums[one.worker] += rate
    return [
        rate * min(1.0, speed_Bps / sums[one.worker])
        for one, rate in zip(connections, rates, strict=True)
    ]
