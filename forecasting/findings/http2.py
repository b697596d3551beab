"""How gRPC sent tensors over HTTP/2 (section 3.2.2, Figs. 3(a), 11 and 12 of the ICPE'20 paper)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from forecasting.captured import CapturedProfile, announced, behaviours
from models.async_sgd.pieces import pieces, rate

BIN_US = 10_000
"""What the use of a link is averaged over."""


@dataclass(frozen=True)
class CapturedStep:
    """One traced step: in which pieces the downlink's streams went out, and what links carried.

    Attributes:
        title: the profile's.
        step: which one.
        downlink: rows of `models.async_sgd.pieces.pieces`.
        carried: by direction, start_us of each `BIN_US` and Bps.
    """

    title: str
    step: int
    downlink: pl.DataFrame
    carried: Mapping[str, pl.DataFrame]


@dataclass(frozen=True)
class Http2:
    """What the streams of captured profiles did.

    Attributes:
        behaviours: rows of `forecasting.captured.behaviours`.
        announced: WIN of the downlink over time, of the first profile of each network: seconds and
            window_bytes.
        step: of the profile with most suspended streams, or else with most streams.
    """

    behaviours: pl.DataFrame
    announced: Mapping[str, pl.DataFrame]
    step: CapturedStep | None


def http2(profiles: Sequence[CapturedProfile]) -> Http2 | None:
    """Return what the streams of captured profiles did; None if none was captured."""
    rows = behaviours(profiles)
    if rows.is_empty():
        return None
    return Http2(rows, _announced(profiles), _step(max(profiles, key=_interest)))


def _announced(profiles: Sequence[CapturedProfile]) -> dict[str, pl.DataFrame]:
    by_dnn: dict[str, pl.DataFrame] = {}
    for one in profiles:
        rows = announced(one, "downlink")
        if rows.height:
            by_dnn.setdefault(one.scenario.workload.dnn, rows)
    return by_dnn


def _step(profile: CapturedProfile) -> CapturedStep | None:
    """Return the step of a profile that was sent in most pieces."""
    if "downlink" not in profile.directions:
        return None
    downlink = profile.transfers.filter(direction="downlink")
    by_step = downlink.group_by("step").agg(pl.col("segments").sum(), pl.len())
    step = by_step.sort("segments", "len", "step")["step"][-1]
    sent = {
        name: pieces(profile.transfers, profile.frames, name, step) for name in profile.directions
    }
    carried = {name: rate(rows, BIN_US) for name, rows in sent.items()}
    return CapturedStep(profile.title, step, sent["downlink"], carried)


def _interest(profile: CapturedProfile) -> tuple[int, int]:
    downlink = profile.transfers.filter(direction="downlink")
    return int((downlink["segments"] > 1).sum()), downlink.height
