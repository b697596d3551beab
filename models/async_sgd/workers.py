"""Workers that train together: groups of like ones, chance, and the options of a simulation."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from models.async_sgd.graph import ProfiledStep, Resource, StepGraph
from models.async_sgd.link_sharing import MeasuredSharing
from warehouse.records import BadInput

# The configuration that a simulation is run for.


Speeds: TypeAlias = float | tuple[float, ...]
Sharing: TypeAlias = Literal["equal", "two_servers", "max_min"]

_SPEEDS = ("downlink_Bps", "uplink_Bps", "worker_downlink_Bps", "worker_uplink_Bps")


@dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """The configuration to simulate: each of `workers` does `steps` steps.

    `downlink_Bps` and `uplink_Bps` are speeds of the servers' links (one for all, or one per
    server), `worker_downlink_Bps` and `worker_uplink_Bps` those of the workers' own links (one for
    all, or one per worker).

    `sharing` says what the transfers under way get. `equal`: a server's link is shared by weight,
    none getting more than the worker's own link; that one is not shared among servers.
    `two_servers`: the paper's rule (section 5), which knows one speed for all links. `max_min`:
    max-min fair shares, by weight, of the links of servers and workers.

    A worker's weight is drawn for every step and direction: its logarithm is normal with standard
    deviation `downlink_spread` or `uplink_spread`. It is multiplied by `newcomer_weight` for every
    transfer that was found on the server's link when the worker last began to use it after a pause
    of `newcomer_pause_s` or more and, with `max_min`, by the share that `downlink_measured` or
    `uplink_measured` gives those who have used it for so long without such a pause; those also say
    what transfers the other way leave of a worker's own link. Spreads of 0 and a newcomer's weight
    of 1 share equally (and are needed where `equal` has workers with slower links of their own).

    `window_bytes` is HTTP/2's flow-control window, None where flow control is off. `ranks` (one
    per operation, small first) enforces an order of transfers; None keeps the order of arrival.

    With one of `inter_op_threads` a worker computes one operation at a time (the paper's case);
    with more, all whose inputs are there share its `cores`, none getting more than one operation
    alone has. All workers share a server's `server_cores` likewise; None gives each its own
    (section 3.2.3). The time between two steps of a worker is drawn from `client_gap_s`. `record`
    keeps what ran when. Steps are sampled from those that `picked` numbers, as often as it does;
    None: from all.

    Raises:
        BadInput: a value out of its range, or a combination that is not modelled.
    """

    workers: int
    steps: int
    downlink_Bps: Speeds
    uplink_Bps: Speeds
    worker_downlink_Bps: Speeds = float("inf")
    worker_uplink_Bps: Speeds = float("inf")
    sharing: Sharing = "equal"
    downlink_spread: float = 0.0
    uplink_spread: float = 0.0
    newcomer_weight: float = 1.0
    newcomer_pause_s: float = 0.0
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
    picked: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("workers", "steps", "inter_op_threads"):
            if getattr(self, name) < 1:
                raise BadInput(f"simulation: {name} must be 1 or more, found {getattr(self, name)}")
        for name in (*_SPEEDS, "window_bytes", "cores", "server_cores", "newcomer_weight"):
            value = getattr(self, name)
            for number in value if isinstance(value, tuple) else (value,):
                if number is not None and not number > 0:
                    raise BadInput(f"simulation: {name} must be above 0, found {value}")
        for name in ("downlink_spread", "uplink_spread", "newcomer_pause_s"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise BadInput(f"simulation: {name} must be 0 or more, found {getattr(self, name)}")
        if not self.client_gap_s or not min(self.client_gap_s) >= 0:
            raise BadInput(
                f"simulation: client_gap_s must list times of 0 or more, found {self.client_gap_s}"
            )
        for name in ("worker_downlink_Bps", "worker_uplink_Bps"):
            self._check_workers(name, getattr(self, name))
        if self.sharing != "max_min":
            self._check_simple_sharing()

    def server_Bps(self, resource: Resource, server: int) -> float:
        """Return the speed of a server's link in the direction of `resource`."""
        speeds = self.downlink_Bps if resource is Resource.DOWNLINK else self.uplink_Bps
        return speeds[server] if isinstance(speeds, tuple) else speeds

    def worker_Bps(self, resource: Resource, worker: int) -> float:
        """Return the speed of a worker's own link in the direction of `resource`."""
        is_downlink = resource is Resource.DOWNLINK
        speeds = self.worker_downlink_Bps if is_downlink else self.worker_uplink_Bps
        return speeds[worker] if isinstance(speeds, tuple) else speeds

    def measured(self, resource: Resource) -> MeasuredSharing | None:
        """Return how the flows of a direction were measured to share a link."""
        return self.downlink_measured if resource is Resource.DOWNLINK else self.uplink_measured

    def _check_workers(self, name: str, speeds: Speeds) -> None:
        if isinstance(speeds, tuple) and len(speeds) != self.workers:
            raise BadInput(
                f"simulation: expected {self.workers} of {name}, one per worker, found "
                f"{len(speeds)}"
            )
        if speeds == float("inf") or self.sharing == "max_min":
            return
        weights = (self.downlink_spread, self.uplink_spread, self.newcomer_weight)
        if isinstance(speeds, tuple) or self.sharing == "two_servers" or weights != (0, 0, 1):
            raise BadInput(
                f"simulation: {name} needs sharing 'max_min', or one speed and equal shares "
                f"(spreads of 0, newcomer_weight 1), found sharing {self.sharing!r}"
            )

    def _check_simple_sharing(self) -> None:
        for name in ("downlink_measured", "uplink_measured"):
            if getattr(self, name) is not None:
                raise BadInput(
                    f"simulation: {name} needs sharing 'max_min', found {self.sharing!r}"
                )
        for name in ("downlink_Bps", "uplink_Bps"):
            if self.sharing == "two_servers" and isinstance(getattr(self, name), tuple):
                raise BadInput(
                    f"simulation: sharing 'two_servers' knows one {name} for all links; use "
                    "'max_min'"
                )


Station = tuple[Resource, int]
T = TypeVar("T", np.int64, np.float64)

_OWN = ("workers", "steps", "ranks", "inter_op_threads", "cores", "client_gap_s", "picked")
_OWN_LINKS = ("worker_downlink_Bps", "worker_uplink_Bps")


class Workers(NamedTuple):
    """`options.workers` workers that are alike: what they do in a step, and how.

    Groups that train together may differ in graphs, steps, and the options of a worker: how many
    steps it does, its `ranks`, threads, cores, client gaps and picked steps and, with `max_min`,
    its own link. The other options are the same for all of them.
    """

    graph: StepGraph
    steps: Sequence[ProfiledStep]
    options: SimulationOptions


class Chances(NamedTuple):
    """What chance decides for every step of every worker, shape (workers, most steps).

    `sampled` is the profiled step that is repeated, `gap_s` what the client takes after it, and
    `weights` those of its transfers down and up. What is beyond a worker's steps means nothing.
    """

    sampled: NDArray[np.int64]
    gap_s: NDArray[np.float64]
    weights: tuple[NDArray[np.float64], NDArray[np.float64]]


def check(groups: Sequence[Workers]) -> None:
    """Refuse arguments of a simulation that do not fit each other.

    Raises:
        BadInput: no workers or steps, steps or ranks that do not fit their graph, options that the
            groups need to agree in, or servers that the options do not know.
    """
    if not groups:
        raise BadInput("simulation: expected workers, found none")
    for group in groups:
        _check_group(group)
        _check_agreement(groups[0].options, group.options)
    _check_servers(stations_of(groups), groups[0].options)


def stations_of(groups: Sequence[Workers]) -> tuple[Station, ...]:
    """Return the (resource, server) pairs that any of the workers uses, sorted."""
    return tuple(sorted({station for group in groups for station in group.graph.stations}))


def station_numbers(graph: StepGraph, stations: Sequence[Station]) -> list[int]:
    """Return the index into `stations` of each operation."""
    place = {station: index for index, station in enumerate(stations)}
    numbers = [place[station] for station in graph.stations]
    return [numbers[own] for own in graph.station_of]


def group_of_each(groups: Sequence[Workers]) -> list[Workers]:
    """Return the group of each worker; workers are numbered group by group."""
    return [group for group in groups for _ in range(group.options.workers)]


def own_links_Bps(groups: Sequence[Workers], resource: Resource) -> list[float]:
    """Return the speed of each worker's own link in the direction of `resource`."""
    return [
        group.options.worker_Bps(resource, number)
        for group in groups
        for number in range(group.options.workers)
    ]


def chances(groups: Sequence[Workers]) -> Chances:
    """Draw what chance decides; equal groups and seeds give equal draws."""
    shared = groups[0].options
    random = np.random.default_rng(shared.seed)
    shapes = [(group.options.workers, group.options.steps) for group in groups]
    picked = [np.array(group.options.picked or range(len(group.steps))) for group in groups]
    sampled = [
        steps[random.integers(len(steps), size=shape)]
        for steps, shape in zip(picked, shapes, strict=True)
    ]
    gap_s = [
        random.choice(np.array(group.options.client_gap_s), size=shape)
        for group, shape in zip(groups, shapes, strict=True)
    ]
    down, up = (
        [random.lognormal(0.0, spread, shape) for shape in shapes]
        for spread in (shared.downlink_spread, shared.uplink_spread)
    )
    return Chances(_stacked(sampled), _stacked(gap_s), (_stacked(down), _stacked(up)))


def _stacked(parts: Sequence[NDArray[T]]) -> NDArray[T]:
    most = max(part.shape[1] for part in parts)
    return np.concatenate([np.pad(part, ((0, 0), (0, most - part.shape[1]))) for part in parts])


def _check_group(group: Workers) -> None:
    count = len(group.graph.names)
    if not group.steps or not count:
        raise BadInput("simulation: expected operations and profiled steps, found none")
    for index, step in enumerate(group.steps):
        if len(step.seconds) != count:
            raise BadInput(
                f"simulation: profiled step {index} times {len(step.seconds)} operations; "
                f"the graph has {count}"
            )
    for number in group.options.picked or ():
        if not 0 <= number < len(group.steps):
            raise BadInput(f"simulation: picked step {number} of {len(group.steps)}")
    ranks = group.options.ranks
    if ranks is not None and len(ranks) != count:
        raise BadInput(f"simulation: expected {count} ranks, found {len(ranks)}")


def _check_agreement(first: SimulationOptions, other: SimulationOptions) -> None:
    own = (*_OWN, *_OWN_LINKS) if first.sharing == "max_min" else _OWN
    for field in fields(SimulationOptions):
        expected, actual = getattr(first, field.name), getattr(other, field.name)
        if field.name not in own and actual != expected:
            raise BadInput(
                f"simulation: workers that train together need one {field.name}, found {expected} "
                f"and {actual}"
            )


def _check_servers(stations: Sequence[Station], options: SimulationOptions) -> None:
    servers = 1 + max(server for _, server in stations)
    for name in ("downlink_Bps", "uplink_Bps"):
        speeds = getattr(options, name)
        if isinstance(speeds, tuple) and len(speeds) < servers:
            raise BadInput(
                f"simulation: expected {servers} of {name}, one per server, found {len(speeds)}"
            )
    if options.sharing == "two_servers" and servers > 2:
        raise BadInput(
            f"simulation: sharing 'two_servers' is for servers 0 and 1, the graph has {servers}; "
            "use 'max_min'"
        )
