"""How gRPC served the streams of a captured job, and how often the paper's rule describes it.

Source: Li et al., ICPE 2020, section 3.2.2: a stream that is longer than the flow-control window
WIN is suspended once, after WIN bytes, and then sent to its end; shorter ones are not suspended.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import polars as pl

from warehouse.records import BadInput, Record

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
    found = _windows(frames.filter(direction=direction), sender)["window_bytes"].to_list()
    return found[-1] if found else None


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
