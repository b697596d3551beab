"""What is asked of systems that recommend nodes for a job, and what they answer.

A system takes part with an `Adviser` in `forecasting.recommendation`, whose fits become
`FittedAdviser`.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from pydantic import Field

from models.choice.limits import Job, Objective
from models.choice.offers import NodeOffer, Option
from warehouse.records import BadInput, Record


class AdviceRequest(Record):
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

    @property
    def job(self) -> Job:
        """What is to be trained, with its limits in seconds and dollars."""
        return Job(
            global_batch=self.global_batch,
            iterations=self.iterations,
            minimize=self.minimize,
            deadline_s=None if self.max_hours is None else 3600 * self.max_hours,
            budget_usd=self.budget_usd,
            usd_per_hour=self.max_usd_per_hour,
        )

    def link_of(self, speeds: Collection[float | None], known: str) -> float | None:
        """Return the speed of links that is asked for; where only one is known, that.

        Args:
            speeds: of links that are known, megabits per second; None: unshaped.
            known: what is known of them, for the message.

        Raises:
            BadInput: none is asked for, and there are several.
        """
        if self.link_mbps is None and len(speeds) > 1:
            named = ", ".join(
                sorted("unshaped" if speed is None else f"{speed:g}" for speed in speeds)
            )
            raise BadInput(f"{known} ({named}): choose one with --link-mbps")
        return self.link_mbps or next(iter(speeds), None)


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


class FittedAdviser(Protocol):
    """A fitted system that can be asked."""

    def advise(self, question: AdviceRequest, offers: Sequence[NodeOffer]) -> Advice:
        """Answer a question.

        Raises:
            BadInput: a network or node type it knows nothing of (what measures it is named), or a
                batch that fits nowhere.
        """

    def front(self, question: AdviceRequest, offers: Sequence[NodeOffer]) -> tuple[Option, ...]:
        """Return the options within limits than which none is both faster and cheaper.

        The fastest first, the cheapest last; of equal ones, one.

        Raises:
            BadInput: as `advise`.
        """

    def parameters_json(self) -> str:
        """Return the fitted parameters."""
