"""What is asked of systems that recommend nodes for a job, and what they answer.

A system takes part with an `Adviser` in `forecasting.advisers`: what it sees, how it is fitted, and
what it makes of a question. Everything else is the same for all of them
(`forecasting.recommending`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pydantic import Field

from models.system import System
from warehouse.records import Market, Price, Record

Objective = Literal["time", "cost"]


class Question(Record):
    """A job, its limits, and what counts; None: no such limit, or whatever was profiled.

    `global_batch` is of all devices together; `iterations` are as many steps of it.
    """

    dnn: str
    image_size: int | None = Field(default=None, ge=8)
    global_batch: int = Field(ge=1)
    iterations: int = Field(ge=1)
    minimize: Objective
    max_hours: float | None = Field(default=None, gt=0)
    budget_usd: float | None = Field(default=None, gt=0)
    max_usd_per_hour: float | None = Field(default=None, gt=0)
    link_mbps: float | None = Field(default=None, gt=0)


class Offer(Record):
    """Up to `capacity` nodes of one type at one price, each with so many devices."""

    price: Price
    capacity: int = Field(ge=0)
    devices: int = Field(default=1, ge=1)


class Span(Record):
    """A forecast, and the ends of its interval; None: the system has none."""

    value: float
    low: float | None = None
    high: float | None = None

    def times(self, factor: float) -> "Span":
        """Return the same in another unit."""
        ends = (None if one is None else one * factor for one in (self.low, self.high))
        return Span(value=self.value * factor, low=next(ends), high=next(ends))


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
    def label(self) -> str:
        """4 p3.8xlarge@1024 spot + 8 g3.8xlarge@128 spot: count, type, batch of a node, market."""
        return " + ".join(one.label for one in self.nodes)


class Advice(Record):
    """An answer: the best option within limits, None if there is none, and the next best.

    `policies` is what rules of thumb would have taken, by name, None where one finds nothing;
    `relaxations` what to change where there is no choice, one line each; `searched` how it was
    found.
    """

    choice: Option | None
    alternatives: tuple[Option, ...]
    policies: Mapping[str, Option | None]
    relaxations: tuple[str, ...] = ()
    searched: str


class Advising(Protocol):
    """A fitted system that can be asked."""

    def advise(self, question: Question, offers: Sequence[Offer]) -> Advice:
        """Answer a question.

        Raises:
            BadInput: a network or node type it knows nothing of (what measures it is named), or a
                batch that fits nowhere.
        """

    def front(self, question: Question, offers: Sequence[Offer]) -> tuple[Option, ...]:
        """Return the options within limits than which none is both faster and cheaper.

        The fastest first, the cheapest last; of equal ones, one.

        Raises:
            BadInput: as `advise`.
        """

    def parameters_json(self) -> str:
        """Return the fitted parameters."""


@dataclass(frozen=True)
class Adviser:
    """A system that recommends.

    Attributes:
        system: that forecasts; a fit of it is one to all runs of `probes` that predictors see.
        framework: that trains.
        metric: what it forecasts of scenarios, by which its errors are shown.
        probes: whose profile runs it sees, all of one backend and host.
        of: makes a fit of the system one that can be asked.
    """

    system: System
    framework: Literal["tensorflow", "pytorch"]
    metric: str
    probes: tuple[str, ...]
    of: Callable[[Any], Advising]
