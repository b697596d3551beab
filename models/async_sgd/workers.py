"""Workers that train together: groups of like ones, chance, and the options of a simulation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from models.async_sgd.graph import ProfiledStep, Resource, StepGraph
from models.async_sgd.link_sharing import MeasuredSharing

# The configuration that a simulation is run for.


Sharing: TypeAlias = Literal["equal", "two_servers", "max_min"]


@dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """The configuration to simulate: each of `workers` does `steps` steps.

    `downlink_Bps` and `uplink_Bps` are speeds of the servers' links, `worker_downlink_Bps` and
    `worker_uplink_Bps` those of the workers' own links.

    `sharing` says what the transfers under way get. `equal`: a server's link is shared by weight,
    none getting more than the worker's own link; that one is not shared among servers.
    `two_servers`: the paper's rule (section 5), which knows one speed for all links. `max_min`:
    max-min fair shares, by weight, of the links of servers and workers.

    A worker's weight is drawn for every step and direction: its logarithm is normal with standard
    deviation `downlink_spread` or `uplink_spread`. It is multiplied by `newcomer_weight` for every
    transfer that was found on the server's link when the worker last began to use it after a pause
    of `newcomer_pause_s` or more. With `max_min`, `downlink_measured` and `uplink_measured` say
    what a link carries of several transfers, and what those the other way leave of a worker's own
    link. Spreads of 0 and a newcomer's weight of 1 share equally.

    `window_bytes` is HTTP/2's flow-control window, None where flow control is off. `ranks` (one
    per operation, small first) enforces an order of transfers; None keeps the order of arrival.

    With one of `inter_op_threads` a worker computes one operation at a time (the paper's case);
    with more, all whose inputs are there share its `cores`, none getting more than one operation
    alone has. A server computes for each worker as for it alone (section 3.2.3). The time between
    two steps of a worker is drawn from `client_gap_s`. `record` keeps what ran when. Steps are
    sampled from those that `picked` numbers, as often as it does; None: from all.
    """

    workers: int
    steps: int
    downlink_Bps: float
    uplink_Bps: float
    worker_downlink_Bps: float = float("inf")
    worker_uplink_Bps: float = float("inf")
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
    client_gap_s: tuple[float, ...] = (0.0,)
    seed: int = 0
    record: bool = False
    picked: tuple[int, ...] | None = None

    def server_Bps(self, resource: Resource) -> float:
        """Return the speed of a server's link in the direction of `resource`."""
        return self.downlink_Bps if resource is Resource.DOWNLINK else self.uplink_Bps

    def worker_Bps(self, resource: Resource) -> float:
        """Return the speed of a worker's own link in the direction of `resource`."""
        is_downlink = resource is Resource.DOWNLINK
        return self.worker_downlink_Bps if is_downlink else self.worker_uplink_Bps

    def measured(self, resource: Resource) -> MeasuredSharing | None:
        """Return how the flows of a direction were measured to share a link."""
        return self.downlink_measured if resource is Resource.DOWNLINK else self.uplink_measured


Station = tuple[Resource, int]
T = TypeVar("T", np.int64, np.float64)


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
        group.options.worker_Bps(resource) for group in groups for _ in range(group.options.workers)
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
