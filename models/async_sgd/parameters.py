"""What a fit of asynchronous SGD keeps, and how its predictions are simulated."""

from typing import Literal

from pydantic import Field

from models.async_sgd.measured_sharing import MeasuredSharing
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


class Profiled(Record):
    """A profiled run, its scenario (one worker), and the client's time between two steps."""

    run_id: str
    scenario: Scenario
    client_gap_s: float


class Parameters(Record):
    """What was fitted, besides the profiled steps themselves.

    `profiled` are runs of one job, one for each type of its workers; where `replaced`, its
    variables were on one server and have been put on the servers that their scenarios name.
    """

    profiled: tuple[Profiled, ...] = Field(min_length=1)
    replaced: bool = False
    links: tuple[LinkProfile, ...]
    settings: Settings

    @property
    def scenario(self) -> Scenario:
        """The first profiled scenario: the others differ in their worker only."""
        return self.profiled[0].scenario
