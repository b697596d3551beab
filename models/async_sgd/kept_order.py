"""How far an enforced order of transfers is kept by the packets that were captured."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from itertools import combinations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from warehouse.records import Order, Record

Pair = tuple[int, int]
"""Two operations, of which the first is to be sent first."""


class KeptOrder(Record):
    """What became of the order of one run's downlink; shares are NULL where no pair could show.

    Attributes:
        order: what was enforced; `framework`: nothing.
        steps: traced steps with captured downlinks.
        pairs: pairs of transfers, over all steps, whose order was enforced.
        kept: share of them whose first packets came in that order; 0.5 is chance.
        as_requested: share of all pairs served in the order in which the worker asked for them.
    """

    order: Order
    steps: int
    pairs: int
    kept: float | None
    as_requested: float | None


def kept_order(
    transfers: pl.DataFrame, operations: pl.DataFrame, edges: pl.DataFrame, order: Order
) -> KeptOrder:
    """Compare the captured downlink of a run with the order that was enforced in it.

    Transfers of different servers have no order among them, nor have those without data.

    Args:
        transfers: rows of `captured.transfers`, of one run.
        operations: table operation of that run.
        edges: table edge of that run.
        order: what its scenario asks for.
    """
    served = transfers.filter(pl.col("size_bytes") > 0, direction="downlink")
    enforced = [] if order == "framework" else enforced_pairs(operations, edges)
    kept: list[bool] = []
    requested: list[NDArray[np.bool_]] = []
    for _, rows in served.group_by("step", "server", maintain_order=True):
        first_us = dict(rows.select("operation", "first_us").iter_rows())
        kept += [
            first_us[one] < first_us[other]
            for one, other in enforced
            if one in first_us and other in first_us
        ]
        requested.append(_concordant(rows))
    flat = np.concatenate(requested) if requested else np.empty(0, np.bool_)
    return KeptOrder(
        order=order,
        steps=served["step"].n_unique(),
        pairs=len(kept),
        kept=sum(kept) / len(kept) if kept else None,
        as_requested=float(flat.mean()) if flat.size else None,
    )


def enforced_pairs(operations: pl.DataFrame, edges: pl.DataFrame) -> list[Pair]:
    """Return the pairs of downlink transfers whose order a server was made to keep.

    What enforces an order, `networks.transfer_order`'s or any other, is control edges that chain
    the servers' reads, and they are in the traced graph: a transfer is to be sent after another if
    its server waits for all that the other's waits for, and for more.

    Args:
        operations: table operation of one run.
        edges: table edge of that run.
    """
    rows = operations.sort("operation")
    resources, servers = rows["resource"].to_list(), rows["server"].fill_null(0).to_list()
    sent = rows.filter(pl.col("size_bytes") > 0, resource="downlink")["operation"].to_list()
    predecessors: list[list[int]] = [[] for _ in resources]
    for source, target in edges.select("source", "target").iter_rows():
        predecessors[target].append(source)
    pairs = _chained(sent, predecessors, resources)
    return [(one, other) for one, other in pairs if servers[one] == servers[other]]


def _chained(
    sent: Sequence[int], predecessors: Sequence[Sequence[int]], resources: Sequence[str]
) -> Iterator[Pair]:
    """Yield pairs of which the second waits on the server for what the first waits for."""
    reads = _reads(predecessors, resources)
    waits = {i: _union(reads[source] for source in predecessors[i]) for i in sent}
    for one, other in combinations(sent, 2):
        both = waits[one] & waits[other]
        if both and both == waits[one] != waits[other]:
            yield one, other
        elif both and both == waits[other] != waits[one]:
            yield other, one


def _reads(predecessors: Sequence[Sequence[int]], resources: Sequence[str]) -> dict[int, int]:
    """Return, as bits, what each server operation waits for on the server, itself included.

    Operations that nothing on the server waits for (sends) and those behind a worker's leave no
    bits of their own: they would tell transfers apart that no edge orders.
    """
    on_server = [i for i, resource in enumerate(resources) if resource == "ps"]
    before: Mapping[int, list[int]] = {
        i: [j for j in predecessors[i] if resources[j] == "ps"] for i in on_server
    }
    followed = {source for sources in before.values() for source in sources}
    found: defaultdict[int, int] = defaultdict(int)
    for i in TopologicalSorter(before).static_order():
        found[i] = _union(found[j] for j in before[i]) | (1 << i if i in followed else 0)
    return found


def _union(bits: Iterator[int]) -> int:
    whole = 0
    for one in bits:
        whole |= one
    return whole


def _concordant(rows: pl.DataFrame) -> NDArray[np.bool_]:
    """Tell of each pair of one server's transfers whether it was served as it was asked for."""
    first_us = rows.sort("stream")["first_us"].to_numpy()
    earlier, later = np.triu_indices(len(first_us), k=1)
    return np.asarray(first_us[earlier] < first_us[later])
