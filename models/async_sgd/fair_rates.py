"""What connections get when servers' and workers' links are shared at the same time."""

from collections import Counter
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


def two_servers(connections: Sequence[Connection], speed_Bps: float) -> list[float]:
    """Return what each connection gets under the paper's rule for two servers.

    Those of one server share its link equally. A worker that alone uses one server, and is one of
    n that use the other, gets 1/n of the other's and 1 - 1/n of the first's. For n = 1 the rule
    would leave nothing to the first; each then gets a half.

    Source: Li et al., ICPE 2020, section 5.
    """
    n = Counter(one.server for one in connections)
    active = set(connections)
    rates = []
    for worker, server in connections:
        other = n[1 - server]
        if n[server] > 1 or Connection(worker, 1 - server) not in active:
            rates.append(speed_Bps / n[server])
        else:
            rates.append(speed_Bps * (1 - 1 / other) if other > 1 else speed_Bps / 2)
    return rates
