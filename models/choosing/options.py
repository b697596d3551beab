"""Nodes that can be rented for a job, and what it is expected to take and cost there."""

from collections.abc import Sequence

from models.choosing.limits import Outcome
from warehouse.records import Market, Record


class Span(Record):
    """A forecast, and the ends of its interval; None: the system has none."""

    value: float
    low: float | None = None
    high: float | None = None

    def times(self, factor: float) -> "Span":
        """Return the same in another unit."""
        ends = (None if one is None else one * factor for one in (self.low, self.high))
        return Span(value=self.value * factor, low=next(ends), high=next(ends))

    def in_words(self, form: str) -> str:
        """Return the value by a format, such as `${:.3g}`, with both ends where they are known."""
        value = form.format(self.value)
        if self.low is None or self.high is None:
            return value
        return f"{value} ({form.format(self.low)} to {form.format(self.high)})"

    @property
    def worst(self) -> float:
        """The upper end; the value where there is no interval."""
        return self.value if self.high is None else self.high


class Nodes(Record):
    """`count` nodes of one type, each with `batch_size` samples of the global batch.

    `devices`: how many of a node's devices are rented, pro rata; None: all of them.
    """

    node_type: str
    market: Market
    count: int
    batch_size: int
    devices: int | None = None

    @property
    def label(self) -> str:
        """4 p3.8xlarge@1024 spot, or 1 p3.8xlarge@32 (1 device) spot."""
        part = "" if self.devices is None else f" ({self.devices} device(s))"
        return (
            f"{self.count} {self.node_type}@{self.batch_size}{part} {self.market.replace('_', ' ')}"
        )


class Option(Record):
    """Nodes to rent, and what a step and the whole job are expected to take and cost there."""

    nodes: tuple[Nodes, ...]
    step_time_s: Span
    time_s: Span
    cost_usd: Span

    @property
    def usd_per_hour(self) -> float:
        """Price of all nodes."""
        return 3600 * self.cost_usd.value / self.time_s.value

    @property
    def outcome(self) -> Outcome:
        """What is expected."""
        return Outcome(self.time_s.value, self.cost_usd.value, self.usd_per_hour)

    @property
    def worst(self) -> Outcome:
        """The upper ends of what is expected."""
        return Outcome(self.time_s.worst, self.cost_usd.worst, self.usd_per_hour)

    @property
    def label(self) -> str:
        """4 p3.8xlarge@1024 spot + 8 g3.8xlarge@128 spot: count, type, batch of a node, market."""
        return " + ".join(one.label for one in self.nodes)


def option(
    nodes: Sequence[Nodes], step_time_s: Span, iterations: int, usd_per_hour: float
) -> Option:
    """Return what so many iterations take and cost on nodes of that price."""
    time_s = step_time_s.times(iterations)
    return Option(
        nodes=tuple(nodes),
        step_time_s=step_time_s,
        time_s=time_s,
        cost_usd=time_s.times(usd_per_hour / 3600),
    )
