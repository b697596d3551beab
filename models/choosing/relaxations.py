"""No feasible choice: which limit to relax, and by how much."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from models.choosing.limits import LIMITS, Choosable, Limit, Limits, exceeded, within

T = TypeVar("T", bound=Choosable)
Constraint = Limit | Literal["capacity", "global_batch"]


@dataclass(frozen=True)
class Relaxation(Generic[T]):
    """A constraint without which there would be a choice, and what it would have to be.

    Capacity and the global batch are in samples. `option` is the choice that the relaxed limit
    admits, None where that was not looked for.
    """

    constraint: Constraint
    limit: float
    needed: float
    option: T | None = None

    @property
    def text(self) -> str:
        """One line that says what to change, and by how much."""
        by = f"{self.needed / self.limit - 1:+.1%}" if self.limit else "there is none"
        match self.constraint:
            case "deadline_s":
                return f"raise the deadline from {self.limit:.1f} s to {self.needed:.1f} s ({by})"
            case "budget_usd":
                return f"raise the budget from ${self.limit:.2f} to ${self.needed:.2f} ({by})"
            case "usd_per_hour":
                return f"allow ${self.needed:.4g} an hour instead of ${self.limit:.4g} ({by})"
            case "capacity":
                return (
                    f"offer more nodes: those on offer hold {self.limit:.0f} of "
                    f"{self.needed:.0f} samples ({by})"
                )
            case "global_batch":
                return f"change the global batch from {self.limit:.0f} to {self.needed:.0f} ({by})"


def needs(limits: Limits, option: T | None) -> list[Relaxation[T]]:
    """Return each limit that an option exceeds, with what the option needs of it; None: none."""
    if option is None:
        return []
    needed = dict(zip(LIMITS, option.outcome, strict=True))
    return [
        Relaxation(one, limits.of(one) or 0.0, needed[one], option)
        for one in exceeded(limits, option.outcome)
    ]


def relaxations(limits: Limits, least: Callable[[Limit, Limits], T | None]) -> list[Relaxation[T]]:
    """Return each limit that, raised with the others kept, admits a choice: by as little as can be.

    Where none does alone, the list is empty. What then has to change together differs from system
    to system (`needs` of some options).

    Args:
        limits: within which there is no choice.
        least: returns the option that needs the least of one limit, within others.
    """
    return [
        relaxation
        for limit in LIMITS
        if limits.of(limit) is not None
        for relaxation in needs(limits, least(limit, limits.but(limit, None)))
        if relaxation.constraint == limit
    ]


def least_of(options: Sequence[T]) -> Callable[[Limit, Limits], T | None]:
    """Return what `relaxations` asks for, where all options are known: the least of a list."""

    def least(limit: Limit, limits: Limits) -> T | None:
        place = LIMITS.index(limit)
        inside = [one for one in options if within(limits, one)]
        return min(inside, key=lambda one: one.outcome[place], default=None)

    return least
