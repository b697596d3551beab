"""How gRPC served streams: the paper's rule, streams piece by piece, and orders that were kept.

Source: Li et al., ICPE 2020, section 3.2.2: a stream that is longer than the flow-control window
WIN is suspended once, after WIN bytes, and then sent to its end; shorter ones are not suspended.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from itertools import combinations, pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from warehouse.records import BadInput, Order, Record

_CONNECTION = ("worker", "server", "direction")


class Behaviour(Record):
    """What one direction of one captured run shows; shares are NULL where nothing could show.

    Attributes:
        direction: downlink or uplink.
        first_window_bytes: WIN at the beginning, the initial window in the receiver's SETTINGS.
        window_bytes: WIN in the end; each stream is judged by what it was at its first packet.
        streams: tensors transferred.
        suspended: those whose data was interrupted by other streams' data.
        longer: those longer than WIN.
        longer_with_others_waiting: those of them that others waited behind when WIN was sent.
        first_service_bytes: median of what suspended streams sent before they first were.
        rule_holds: share of all streams that were suspended as often as the rule says.
        rule_holds_longer: the same of `longer_with_others_waiting`, where it says once.
        in_order_of_requests: share of neighbours served in the order in which they were asked for.
        in_order_of_starts: the same, of recorded starts (asked for, and ready at the sender).
        most_open: most streams that were started and not yet sent at the same moment.
    """

    direction: str
    first_window_bytes: int | None
    window_bytes: int | None
    streams: int
    suspended: int
    longer: int
    longer_with_others_waiting: int
    first_service_bytes: float | None
    rule_holds: float | None
    rule_holds_longer: float | None
    in_order_of_requests: float | None
    in_order_of_starts: float | None
    most_open: int


def behaviour(transfers: pl.DataFrame, frames: pl.DataFrame, direction: str) -> Behaviour:
    """Describe how the streams of one direction were served.

    Args:
        transfers: rows of `captured.transfers`, of one run.
        frames: table http2_frame of that run.
        direction: downlink or uplink.

    Raises:
        BadInput: no captured transfers of that direction.
    """
    served = transfers.filter(direction=direction).sort("step", "server", "first_us", "stream")
    if served.is_empty():
        raise BadInput(f"no captured {direction} streams; profile with capture")
    frames = frames.filter(direction=direction)
    sender = "server" if direction == "downlink" else "worker"
    sent = frames.filter(sender=sender, type="DATA")
    windows = _windows(frames, sender)
    judged = _judged(served, sent, windows)
    longer = judged.filter("contended")
    services = _first_services(sent)
    suspended = judged.filter(pl.col("segments") > 1).join(services, on=["server", "stream"])
    return Behaviour(
        direction=direction,
        first_window_bytes=windows["window_bytes"].first(),
        window_bytes=windows["window_bytes"].last(),
        streams=served.height,
        suspended=suspended.height,
        longer=int(judged["longer"].sum()),
        longer_with_others_waiting=longer.height,
        first_service_bytes=_median(suspended["first_service_bytes"]),
        rule_holds=_share(judged["as_ruled"].to_list()),
        rule_holds_longer=_share(longer["as_ruled"].to_list()),
        in_order_of_requests=_share(list(_in_order(served, "stream"))),
        in_order_of_starts=_share(list(_in_order(served, "start_us"))),
        most_open=_most_open(served),
    )


def last_window_bytes(frames: pl.DataFrame, direction: str) -> int | None:
    """Return the WIN that receivers of a direction announced last; None: nothing was captured.

    Args:
        frames: table http2_frame of one run.
        direction: downlink or uplink.
    """
    sender = "server" if direction == "downlink" else "worker"
    windows_bytes = _windows(frames.filter(direction=direction), sender)["window_bytes"].to_list()
    return windows_bytes[-1] if windows_bytes else None


def _windows(frames: pl.DataFrame, sender: str) -> pl.DataFrame:
    """Return time_us and window_bytes of what receivers announced to a sender, in order."""
    return (
        frames.filter(pl.col("sender") != sender, type="SETTINGS")
        .drop_nulls("value")
        .sort("time_us")
        .select("time_us", window_bytes="value")
    )


def _judged(served: pl.DataFrame, sent: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    """Add whether a stream is longer than WIN, contended at WIN, and suspended as the rule says.

    A longer stream has others waiting if one had started before its last packet and came after.
    """
    waiting = []
    for _, rows in served.group_by("step", "server", maintain_order=True):
        last = rows["start_us"].shift(-1).reverse().cum_min().reverse()
        waiting += (last < rows["last_us"]).fill_null(False).to_list()
    firsts = sent.group_by("server", "stream").agg(pl.col("time_us").min()).sort("time_us")
    as_of = firsts.join_asof(windows, on="time_us").drop("time_us")
    longer = (pl.col("size_bytes") > pl.col("window_bytes")).fill_null(False)
    contended = longer & pl.Series(waiting, dtype=pl.Boolean)
    known = served.join(as_of, on=["server", "stream"], how="left", maintain_order="left")
    return known.with_columns(longer=longer, contended=contended).with_columns(
        as_ruled=pl.col("segments") == 1 + pl.col("contended").cast(pl.Int32)
    )


def _first_services(data: pl.DataFrame) -> pl.DataFrame:
    """Return server, stream and what the stream sent before data of another one first came."""
    runs = data.sort(*_CONNECTION, "time_us", maintain_order=True).with_columns(
        run=pl.struct(*_CONNECTION, "stream").rle_id()
    )
    sums = runs.group_by("server", "stream", "run", maintain_order=True).agg(
        first_service_bytes=pl.col("length_bytes").sum()
    )
    return sums.unique(["server", "stream"], keep="first").drop("run")


def _in_order(served: pl.DataFrame, key: str) -> Iterator[bool]:
    for _, rows in served.group_by("step", "server", maintain_order=True):
        yield from (before <= after for before, after in pairwise(rows[key]))


def _most_open(served: pl.DataFrame) -> int:
    most = 0
    for _, rows in served.group_by("step", "server"):
        starts, ends = rows["start_us"].sort().to_list(), rows["last_us"].sort().to_list()
        ended = 0
        for started, start_us in enumerate(starts, start=1):
            while ends[ended] < start_us:
                ended += 1
            most = max(most, started - ended)
    return most


def _share(of: Sequence[bool]) -> float | None:
    return sum(of) / len(of) if of else None


def _median(of: pl.Series) -> float | None:
    middle = of.median()
    return None if middle is None else float(str(middle))


# How the streams of one step were sent, piece by piece (Figs. 3(a) and 11 of the paper).


def pieces(
    transfers: pl.DataFrame, frames: pl.DataFrame, direction: str, step: int
) -> pl.DataFrame:
    """Return the stretches in which a stream's data went out without data of others in between.

    A piece lasts until the next one of its server begins, the last of a stream until the stream's
    last packet.

    Args:
        transfers: rows of `captured.transfers`, of one run.
        frames: table http2_frame of that run.
        direction: downlink or uplink.
        step: the traced step.

    Returns:
        server, stream, operation, size_bytes (of the whole tensor), bytes (sent in this piece),
        start_us and end_us since the step's start, in order of time.
    """
    served = transfers.filter(direction=direction, step=step).select(
        "server", "stream", "operation", "size_bytes", "first_us", "last_us"
    )
    sender = "server" if direction == "downlink" else "worker"
    data = (
        frames.filter(direction=direction, sender=sender, type="DATA")
        .join(served, on=["server", "stream"])
        .sort("server", "time_us", maintain_order=True)
    )
    of_stream = ["server", "stream"]
    since_first_us = pl.col("time_us") - pl.col("time_us").min().over(of_stream)
    runs = data.with_columns(
        start_us=since_first_us + pl.col("first_us"), piece=pl.struct(of_stream).rle_id()
    )
    stretches = runs.group_by(
        "piece", *of_stream, "operation", "size_bytes", maintain_order=True
    ).agg(pl.col("start_us").min(), pl.col("last_us").first(), bytes=pl.col("length_bytes").sum())
    next_us = pl.col("start_us").shift(-1).over("server").fill_null(pl.col("last_us"))
    is_last = pl.col("piece") == pl.col("piece").max().over(of_stream)
    end_us = pl.when(is_last).then(pl.col("last_us")).otherwise(next_us)
    return stretches.with_columns(end_us=end_us).select(
        *of_stream, "operation", "size_bytes", "bytes", "start_us", "end_us"
    )


# How far an enforced order of transfers is kept by the packets that were captured.


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
            first_us[earlier] < first_us[later]
            for earlier, later in enforced
            if earlier in first_us and later in first_us
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

    What enforces an order, `networks.variables`'s or any other, is control edges that chain
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
    return [(earlier, later) for earlier, later in pairs if servers[earlier] == servers[later]]


def _chained(
    sent: Sequence[int], predecessors: Sequence[Sequence[int]], resources: Sequence[str]
) -> Iterator[Pair]:
    """Yield pairs of which the second waits on the server for what the first waits for."""
    reads = _reads(predecessors, resources)
    waits = {i: _union(reads[source] for source in predecessors[i]) for i in sent}
    for first, second in combinations(sent, 2):
        common = waits[first] & waits[second]
        if common and common == waits[first] != waits[second]:
            yield first, second
        elif common and common == waits[second] != waits[first]:
            yield second, first


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
    waits: defaultdict[int, int] = defaultdict(int)
    for i in TopologicalSorter(before).static_order():
        waits[i] = _union(waits[j] for j in before[i]) | (1 << i if i in followed else 0)
    return waits


def _union(bits: Iterator[int]) -> int:
    whole = 0
    for bit in bits:
        whole |= bit
    return whole


def _concordant(rows: pl.DataFrame) -> NDArray[np.bool_]:
    """Tell of each pair of one server's transfers whether it was served as it was asked for."""
    first_us = rows.sort("stream")["first_us"].to_numpy()
    earlier, later = np.triu_indices(len(first_us), k=1)
    return np.asarray(first_us[earlier] < first_us[later])
