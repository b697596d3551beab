"""A job with its objective and limits, whether an option keeps them, and which limit to relax."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, TypeVar, get_args

from pydantic import Field

from warehouse.records import Record

# What a user wants of time and cost.


Minimize = Literal["time", "cost"]


def objective_key(objective: Minimize, time: float, cost: float) -> tuple[float, float]:
    """Return what is compared, the least is best: the objective, and the other one of equals."""
    return (time, cost) if objective == "time" else (cost, time)


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
        value: float | None = getattr(self, limit)
        return value

    def but(self, limit: Limit, value: float | None) -> "Limits":
        """Return the same limits but for one."""
        return Limits(**{name: value if name == limit else self.of(name) for name in LIMITS})


class Job(Limits):
    """What is to be trained, and within which limits.

    `global_batch` is of all devices together, `iterations` are as many steps of it: B_global and N
    of Srift's section 4.4.
    """

    global_batch: int = Field(ge=1)
    iterations: int = Field(ge=1)
    minimize: Minimize


def keeps_limit(limit: float | None, needed: float) -> bool:
    """Tell whether a limit admits what is needed."""
    return limit is None or needed <= limit * FORGIVEN


def exceeded_limits(limits: Limits, outcome: Outcome) -> tuple[Limit, ...]:
    """Return the limits that an outcome exceeds, in the order of `LIMITS`."""
    needs = zip(LIMITS, outcome, strict=True)
    return tuple(limit for limit, needed in needs if not keeps_limit(limits.of(limit), needed))


def keeps_limits(limits: Limits, option: Choosable) -> bool:
    """Tell whether an option exceeds no limit."""
    return not exceeded_limits(limits, option.outcome)


# No feasible choice: which limit to relax, and by how much.


T = TypeVar("T", bound=Choosable)


def relaxations(
    limits: Limits, least: Callable[[Limit, Limits], T | None]
) -> list[tuple[Limit, T]]:
    """Return each limit that, raised with the others kept, admits a choice, and that choice.

    Where none does alone, the list is empty.

    Args:
        limits: within which there is no choice.
        least: returns the option that needs the least of one limit, within others.
    """
    return [
        (limit, option)
        for limit in LIMITS
        if limits.of(limit) is not None
        and (option := least(limit, limits.but(limit, None))) is not None
        and limit in exceeded_limits(limits, option.outcome)
    ]


def least_of(options: Sequence[T]) -> Callable[[Limit, Limits], T | None]:
    """Return what `relaxations` asks for, where all options are known: the least of a list."""

    def least(limit: Limit, limits: Limits) -> T | None:
        place = LIMITS.index(limit)
        inside = [option for option in options if keeps_limits(limits, option)]
        return min(inside, key=lambda option: option.outcome[place], default=None)

    return least
