"""The configuration that a simulation is run for."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from models.async_sgd.graph import Resource
from models.async_sgd.measured_sharing import MeasuredSharing
from warehouse.records import BadInput

Speeds: TypeAlias = float | tuple[float, ...]
Sharing: TypeAlias = Literal["equal", "two_servers", "max_min"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """The configuration to simulate: each of `workers` does `steps` steps.

    `downlink_Bps` and `uplink_Bps` are speeds of the servers' links (one for all, or one per
    server), `link_cap_Bps` is that of the workers' own links in each direction (one for all, or
    one per worker).

    `sharing` says what the transfers under way get. `equal`: 1/n of a server's link each, none
    above `link_cap_Bps`; a worker's link is not shared among servers. `two_servers`: the paper's
    rule (section 5), which knows one speed for all links. `max_min`: max-min fair shares of the
    links of servers and workers, weighted as `downlink_measured` and `uplink_measured` say, where
    given.

    `window_bytes` is HTTP/2's flow-control window, None where flow control is off. `ranks` (one
    per operation, small first) enforces an order of transfers; None keeps the order of arrival.

    With one of `inter_op_threads` a worker computes one operation at a time (the paper's case);
    with more, all whose inputs are there share its `cores`, none getting more than one operation
    alone has. All workers share a server's `server_cores` likewise; None gives each its own
    (section 3.2.3). The time between two steps of a worker is drawn from `client_gap_s`. `record`
    keeps what ran when.

    Raises:
        BadInput: a value out of its range, or a combination that is not modelled.
    """

    workers: int
    steps: int
    downlink_Bps: Speeds
    uplink_Bps: Speeds
    link_cap_Bps: Speeds = float("inf")
    sharing: Sharing = "equal"
    downlink_measured: MeasuredSharing | None = None
    uplink_measured: MeasuredSharing | None = None
    window_bytes: float | None = None
    ranks: tuple[int, ...] | None = None
    inter_op_threads: int = 1
    cores: float = 1.0
    server_cores: float | None = None
    client_gap_s: tuple[float, ...] = (0.0,)
    seed: int = 0
    record: bool = False

    def __post_init__(self) -> None:
        for name in ("workers", "steps", "inter_op_threads"):
            if getattr(self, name) < 1:
                raise BadInput(f"simulation: {name} must be 1 or more, found {getattr(self, name)}")
        speeds = ("downlink_Bps", "uplink_Bps", "link_cap_Bps")
        for name in (*speeds, "window_bytes", "cores", "server_cores"):
            value = getattr(self, name)
            for one in value if isinstance(value, tuple) else (value,):
                if one is not None and not one > 0:
                    raise BadInput(f"simulation: {name} must be above 0, found {value}")
        if not self.client_gap_s or not min(self.client_gap_s) >= 0:
            raise BadInput(
                f"simulation: client_gap_s must list times of 0 or more, found {self.client_gap_s}"
            )
        self._check_sharing()

    def server_Bps(self, resource: Resource, server: int) -> float:
        """Return the speed of a server's link in the direction of `resource`."""
        speeds = self.downlink_Bps if resource is Resource.DOWNLINK else self.uplink_Bps
        return speeds[server] if isinstance(speeds, tuple) else speeds

    def worker_Bps(self, worker: int) -> float:
        """Return the speed of a worker's own link."""
        speeds = self.link_cap_Bps
        return speeds[worker] if isinstance(speeds, tuple) else speeds

    def measured(self, resource: Resource) -> MeasuredSharing | None:
        """Return how the flows of a direction were measured to share a link."""
        return self.downlink_measured if resource is Resource.DOWNLINK else self.uplink_measured

    def _check_sharing(self) -> None:
        caps = self.link_cap_Bps
        if isinstance(caps, tuple) and len(caps) != self.workers:
            raise BadInput(
                f"simulation: expected {self.workers} of link_cap_Bps, one per worker, found "
                f"{len(caps)}"
            )
        if self.sharing == "max_min":
            return
        for name in ("downlink_measured", "uplink_measured"):
            if getattr(self, name) is not None:
                raise BadInput(
                    f"simulation: {name} needs sharing 'max_min', found {self.sharing!r}"
                )
        if isinstance(caps, tuple):
            raise BadInput(
                "simulation: workers' links of different speeds need sharing 'max_min', found "
                f"{self.sharing!r}"
            )
        if self.sharing == "two_servers":
            for name in ("downlink_Bps", "uplink_Bps"):
                if isinstance(getattr(self, name), tuple):
                    raise BadInput(
                        f"simulation: sharing 'two_servers' knows one {name} for all links; use "
                        "'max_min'"
                    )
