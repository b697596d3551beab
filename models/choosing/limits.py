"""A job and its limits, and whether what an option takes and costs is within them."""

from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol, get_args

from pydantic import Field

from models.choosing.objectives import Objective
from warehouse.records import Record

Limit = Literal["deadline_s", "budget_usd", "usd_per_hour"]
LIMITS: tuple[Limit, ...] = get_args(Limit)

OPTIONS: Mapping[str, tuple[str, float]] = {
    "deadline_s": ("--max-hours", 1 / 3600),
    "budget_usd": ("--budget-usd", 1),
    "usd_per_hour": ("--max-usd-per-hour", 1),
}
"""The option of the command line that sets a limit, and its unit."""
FORGIVEN = 1 + 1e-9
"""By how much a limit may be exceeded: what a forecast needs is enough for it as a limit."""


class Outcome(NamedTuple):
    """What a job is expected to take and cost, and all nodes an hour: what `LIMITS` limit."""

    time_s: float
    cost_usd: float
    usd_per_hour: float


class Choosable(Protocol):
    """Whatever can be chosen: only its outcome counts."""

    @property
    def outcome(self) -> Outcome:
        """What the job is expected to take and cost there."""


class Limits(Record):
    """How long a job may take, what it may cost, and all nodes an hour; None: no such limit.

    Source: T_lim and $_lim of Srift's section 4.4; the hourly and the total budget of Ceer's
    section V.
    """

    deadline_s: float | None = Field(default=None, ge=0)
    budget_usd: float | None = Field(default=None, ge=0)
    usd_per_hour: float | None = Field(default=None, ge=0)

    def of(self, limit: Limit) -> float | None:
        """Return one limit."""
        found: float | None = getattr(self, limit)
        return found

    def but(self, limit: Limit, value: float | None) -> "Limits":
        """Return the same limits but for one."""
        return Limits(**{one: value if one == limit else self.of(one) for one in LIMITS})


class Job(Limits):
    """What is to be trained, and within which limits.

    `global_batch` is of all devices together, `iterations` are as many steps of it: B_global and N
    of Srift's section 4.4.
    """

    global_batch: int = Field(ge=1)
    iterations: int = Field(ge=1)
    minimize: Objective


def kept(limit: float | None, needed: float) -> bool:
    """Tell whether a limit admits what is needed."""
    return limit is None or needed <= limit * FORGIVEN


def exceeded(limits: Limits, outcome: Outcome) -> tuple[Limit, ...]:
    """Return the limits that an outcome exceeds, in the order of `LIMITS`."""
    needs = zip(LIMITS, outcome, strict=True)
    return tuple(limit for limit, needed in needs if not kept(limits.of(limit), needed))


def within(limits: Limits, option: Choosable) -> bool:
    """Tell whether an option exceeds no limit."""
    return not exceeded(limits, option.outcome)
