"""What one SGD step does: operations, what they use, and what waits for what."""

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from warehouse.records import BadInput


class Resource(IntEnum):
    """What an operation occupies; in this order simultaneous events are handled."""

    DOWNLINK = 0
    WORKER = 1
    UPLINK = 2
    PS = 3

    @property
    def is_link(self) -> bool:
        """Whether its operations are transfers, described by bytes and not by seconds."""
        return self in (Resource.DOWNLINK, Resource.UPLINK)


@dataclass(frozen=True)
class StepGraph:
    """The operations of a step, by index; the same for all steps of a job.

    `servers` names the parameter server of a transfer or server operation, `sizes_bytes` counts
    what a transfer carries, `successors` lists the operations that wait for each operation.

    Raises:
        BadInput: a cycle.
    """

    names: tuple[str, ...]
    resources: tuple[Resource, ...]
    servers: tuple[int, ...]
    sizes_bytes: tuple[int, ...]
    successors: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if len(self.topological) < len(self.names):
            stuck = min(set(range(len(self.names))) - set(self.topological))
            raise BadInput(
                f"graph: expected no cycle, but {self.names[stuck]!r} (operation {stuck}) is on "
                "one or behind one; profile again"
            )

    @cached_property
    def predecessors(self) -> tuple[int, ...]:
        """How many operations each operation waits for."""
        counts = [0] * len(self.names)
        for targets in self.successors:
            for target in targets:
                counts[target] += 1
        return tuple(counts)

    @cached_property
    def topological(self) -> tuple[int, ...]:
        """All operations, each after those it waits for."""
        waiting = list(self.predecessors)
        order = [operation for operation, count in enumerate(waiting) if count == 0]
        for operation in order:
            for target in self.successors[operation]:
                waiting[target] -= 1
                if waiting[target] == 0:
                    order.append(target)
        return tuple(order)

    @cached_property
    def stations(self) -> tuple[tuple[Resource, int], ...]:
        """The (resource, server) pairs in use, sorted; a worker computes for all servers alike."""
        return tuple(sorted({self._station(i) for i in range(len(self.names))}))

    @cached_property
    def station_of(self) -> tuple[int, ...]:
        """Index into `stations` of each operation."""
        index = {station: i for i, station in enumerate(self.stations)}
        return tuple(index[self._station(i)] for i in range(len(self.names)))

    def _station(self, operation: int) -> tuple[Resource, int]:
        resource = self.resources[operation]
        return resource, 0 if resource is Resource.WORKER else self.servers[operation]


@dataclass(frozen=True)
class ProfiledStep:
    """One traced step: `seconds` of work per operation (0 for transfers, whose bytes count).

    `order` lists all operations as the framework started them in that step; `release_s` says how
    long after the step's start an operation that waits for no other one may start.
    """

    seconds: tuple[float, ...]
    order: tuple[int, ...]
    release_s: tuple[float, ...]

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """Position in `order` of each operation."""
        ranks = [0] * len(self.order)
        for rank, operation in enumerate(self.order):
            ranks[operation] = rank
        return tuple(ranks)
