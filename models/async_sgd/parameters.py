"""What a fit of asynchronous SGD keeps, and what it knows of links from their probes."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from statistics import fmean
from typing import Literal

import polars as pl
from pydantic import Field

from models.async_sgd.link_sharing import MeasuredSharing, measured_sharing
from models.profiled_run import by_link_speed, single_flow_Bps
from warehouse.records import Record, Scenario


class Settings(Record):
    """How to simulate; the defaults are explained in docs/async_sgd.md.

    `window_bytes` is what a stream may send before it has to let others pass, in scenarios with
    flow control; None if windows are updated before that shows. `newcomer_weight` is the weight of
    a transfer that finds another one on a link, when its worker has sent nothing there for
    `newcomer_pause_s`; with `measured_shares`, links whose contention was probed are shared as was
    seen there instead. `several_servers` is how links are shared where there is more than one
    server. A scenario simulates about `simulated_operations`, divided among its seeds and workers,
    and no fewer than 20 steps per worker after `warm_up_steps`. Intervals cover `coverage`, if
    predictions err by chance with a relative standard deviation of `model_error` besides what the
    simulation's seeds show. With `share_server_cores` all workers share the cores of a server,
    instead of having one each.
    """

    window_bytes: int | None = Field(default=None, gt=0)
    newcomer_weight: float = Field(default=0.8, gt=0, le=1)
    newcomer_pause_s: float = Field(default=0.2, ge=0)
    measured_shares: bool = False
    several_servers: Literal["max_min", "two_servers"] = "max_min"
    warm_up_steps: int = Field(default=50, ge=0)
    simulated_operations: int = Field(default=5_000_000, ge=1)
    seeds: int = Field(default=5, ge=2)
    coverage: float = Field(default=0.9, gt=0, lt=1)
    model_error: float = Field(default=0.05, ge=0)
    share_server_cores: bool = False


class LinkProfile(Record):
    """What links shaped to `link_mbps` do in each direction, and who measured it.

    `_Bps` is the goodput of one flow, `_spread` the standard deviation of the logarithm of the
    weights of simultaneous flows, `_measured` what transfers of training get, if that was probed.
    """

    link_mbps: float | None
    downlink_Bps: float = Field(gt=0)
    uplink_Bps: float = Field(gt=0)
    downlink_spread: float = Field(ge=0)
    uplink_spread: float = Field(ge=0)
    downlink_measured: MeasuredSharing | None = None
    uplink_measured: MeasuredSharing | None = None
    run_ids: tuple[str, ...]


class ProfiledRun(Record):
    """A profiled run, its scenario (one worker), and the client's time between two steps."""

    run_id: str
    scenario: Scenario
    client_gap_s: float


class Parameters(Record):
    """What was fitted, besides the profiled steps themselves.

    `profiled` are runs of one job, one for each type of its workers; where `replaced`, its
    variables were on one server and have been put on the servers that their scenarios name.
    """

    profiled: tuple[ProfiledRun, ...] = Field(min_length=1)
    replaced: bool = False
    links: tuple[LinkProfile, ...]
    settings: Settings

    @property
    def scenario(self) -> Scenario:
        """The first profiled scenario: the others differ in their worker only."""
        return self.profiled[0].scenario


# From the rows of link probes to what a simulation needs to know of links.


def link_profiles(
    runs: pl.DataFrame, links: pl.DataFrame, contention: pl.DataFrame | None
) -> Iterator[LinkProfile]:
    """Yield one for each speed that links were shaped to, None for unshaped ones.

    Args:
        runs: table run, whose config has the speeds.
        links: table link.
        contention: table contention of one type of worker.

    Raises:
        BadInput: a speed without a trial of a single flow.
    """
    shared = {} if contention is None else by_link_speed(runs, contention)
    for link_mbps, rows in by_link_speed(runs, links).items():
        probed = shared.get(link_mbps)
        down, up = (_Direction.of(rows, probed, one) for one in ("downlink", "uplink"))
        yield LinkProfile(
            link_mbps=link_mbps,
            downlink_Bps=down.speed_Bps,
            uplink_Bps=up.speed_Bps,
            downlink_spread=down.spread,
            uplink_spread=up.spread,
            downlink_measured=down.measured,
            uplink_measured=up.measured,
            run_ids=tuple(sorted({*rows["run_id"], *([] if probed is None else probed["run_id"])})),
        )


@dataclass(frozen=True)
class _Direction:
    speed_Bps: float
    spread: float
    measured: MeasuredSharing | None

    @classmethod
    def of(cls, links: pl.DataFrame, probed: pl.DataFrame | None, direction: str) -> "_Direction":
        speed_Bps = single_flow_Bps(links, direction)
        measured = None if probed is None else measured_sharing(probed, direction, speed_Bps)
        return cls(speed_Bps, _spread(links, direction), measured)


def _spread(links: pl.DataFrame, direction: str) -> float:
    """Root mean square, over trials of several flows, of the sd of their log bandwidths."""
    several = links.filter(
        pl.col("flows") > 1, pl.col("direction") == direction, pl.col("bandwidth_Bps") > 0
    )
    trials = several.group_by("run_id", "flows", "trial").agg(
        pl.col("bandwidth_Bps").log().var().alias("variance")
    )
    variances = trials["variance"].drop_nulls()
    return sqrt(fmean(variances)) if len(variances) else 0.0
