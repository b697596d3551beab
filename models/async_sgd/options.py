"""The configuration that a simulation is run for."""

from dataclasses import dataclass

from warehouse.records import BadInput


@dataclass(frozen=True, kw_only=True)
class Options:
    """The configuration to simulate: each of `workers` does `steps` steps.

    Speeds are those of a server's link in each direction, shared by the workers that use it;
    `link_cap_Bps` is the speed of a worker's own link. A worker's weight when it shares a direction
    is drawn for every step: its logarithm is normal with standard deviation `downlink_spread` or
    `uplink_spread`, and it is multiplied by `newcomer_weight` for every transfer that is found on
    the link. Spreads of 0 and a newcomer's weight of 1 share equally (and are needed where
    `link_cap_Bps` limits workers).
    `window_bytes` is HTTP/2's flow-control window, None where flow control is off. `ranks` (one per
    operation, small first) enforces an order of transfers; None keeps the order of arrival. With
    one of `inter_op_threads` a worker computes one operation at a time (the paper's case); with
    more, all whose inputs are there share its `cores`, none getting more than one operation alone
    has. The time between two steps of a worker is drawn from `client_gap_s`. `record` keeps what
    ran when.

    Raises:
        BadInput: a value out of its range.
    """

    workers: int
    steps: int
    downlink_Bps: float
    uplink_Bps: float
    link_cap_Bps: float = float("inf")
    downlink_spread: float = 0.0
    uplink_spread: float = 0.0
    newcomer_weight: float = 1.0
    window_bytes: float | None = None
    ranks: tuple[int, ...] | None = None
    inter_op_threads: int = 1
    cores: float = 1.0
    client_gap_s: tuple[float, ...] = (0.0,)
    seed: int = 0
    record: bool = False

    def __post_init__(self) -> None:
        for name in ("workers", "steps", "inter_op_threads"):
            if getattr(self, name) < 1:
                raise BadInput(f"simulation: {name} must be 1 or more, found {getattr(self, name)}")
        for name in (
            "downlink_Bps",
            "uplink_Bps",
            "link_cap_Bps",
            "window_bytes",
            "cores",
            "newcomer_weight",
        ):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise BadInput(f"simulation: {name} must be above 0, found {value}")
        for name in ("downlink_spread", "uplink_spread"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise BadInput(f"simulation: {name} must be 0 or more, found {getattr(self, name)}")
        equal = (self.downlink_spread, self.uplink_spread, self.newcomer_weight) == (0, 0, 1)
        if self.link_cap_Bps < float("inf") and not equal:
            raise BadInput(
                "simulation: workers with slower links of their own share equally; "
                "set the spreads to 0 and newcomer_weight to 1"
            )
        if not self.client_gap_s or not min(self.client_gap_s) >= 0:
            raise BadInput(
                f"simulation: client_gap_s must list times of 0 or more, found {self.client_gap_s}"
            )
