"""One of many candidates for a job: the best of those that keep its limits surely enough."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, isfinite, log10

from models.choosing.candidates import Candidate
from models.choosing.limits import LIMITS, OPTIONS, Limits, Outcome, within
from models.choosing.objectives import Objective, preferred
from models.choosing.relaxations import Relaxation, least_of, relaxations


@dataclass(frozen=True)
class Aim:
    """What is wanted of a job.

    Attributes:
        minimize: time or cost.
        limits: within which.
        late: the largest probability of exceeding the deadline, and of exceeding the budget; None:
            what is expected of a candidate counts, and not how surely.
    """

    minimize: Objective
    limits: Limits
    late: float | None = None

    def admits(self, one: Candidate) -> bool:
        """Tell whether a candidate keeps the limits, as expected and surely enough."""
        if not within(self.limits, one):
            return False
        return self.late is None or self.risk(one) <= self.late + 1e-12

    def risk(self, one: Candidate) -> float:
        """Return the larger probability of a candidate's to exceed deadline or budget, 0 to 1."""
        return max(one.chance_of_exceeding(self.limits, limit) for limit in LIMITS)

    def value(self, outcome: Outcome) -> float:
        """Return what is minimised, seconds or US dollars."""
        return outcome.time_s if self.minimize == "time" else outcome.cost_usd

    def order(self, one: Candidate) -> tuple[float, float, str]:
        """Return what is compared, the least is best; of equals the first by name."""
        return *preferred(self.minimize, one.outcome.time_s, one.outcome.cost_usd), one.key


@dataclass(frozen=True)
class Decision:
    """The best candidate, None: none keeps the limits; the next best; and what to relax then."""

    choice: Candidate | None
    alternatives: tuple[Candidate, ...] = ()
    relaxations: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Surely:
    """A candidate by what it takes at worst."""

    candidate: Candidate
    outcome: Outcome


def best(candidates: Sequence[Candidate], aim: Aim) -> Candidate | None:
    """Return the best candidate that keeps the limits surely enough, None: there is none."""
    return min((one for one in candidates if aim.admits(one)), key=aim.order, default=None)


def decide(candidates: Sequence[Candidate], aim: Aim, keep: int = 2) -> Decision:
    """Return the best candidate with `keep` alternatives: the next best, then the least risky."""
    admitted = sorted((one for one in candidates if aim.admits(one)), key=aim.order)
    others = sorted(
        (one for one in candidates if not aim.admits(one)),
        key=lambda one: (aim.risk(one), *aim.order(one)),
    )
    if not admitted:
        return Decision(None, tuple(others[:keep]), tuple(_relaxed(candidates, aim)))
    return Decision(admitted[0], (*admitted[1:], *others)[:keep])


def _relaxed(candidates: Sequence[Candidate], aim: Aim) -> list[str]:
    """Return which limit admits a candidate if it alone is raised, one line each."""
    surely = [
        _Surely(one, one.outcome if aim.late is None else one.worst(aim.late)) for one in candidates
    ]
    known = [one for one in surely if isfinite(one.outcome.time_s)]
    found: list[Relaxation[_Surely]] = relaxations(aim.limits, least_of(known))
    return [_said(one, one.option.candidate) for one in found if one.option]


def _said(relaxation: Relaxation[_Surely], candidate: Candidate) -> str:
    option, unit = OPTIONS[relaxation.constraint]
    limit, needed = relaxation.limit * unit, _rounded_up(relaxation.needed * unit)
    return f"raise {option} from {limit:.4g} to {needed:.4g} for {candidate.label}"


def _rounded_up(value: float) -> float:
    """Return the least number of four digits that is not below a value, but for rounding."""
    digit = 10.0 ** (floor(log10(value)) - 3) if value > 0 else 1.0
    return ceil(value / digit - 1e-6) * digit


def rules_of_thumb(candidates: Sequence[Candidate], aim: Aim) -> Mapping[str, Candidate | None]:
    """Return what rules take that need no forecast of several nodes.

    `cheapest`: the least an hour. `most powerful`: as many as there are of the dearest type.
    `linear scaling`: the best if n nodes were n times as fast as one of their type; None where no
    single node was forecast.
    """
    if not candidates:
        return {"cheapest": None, "most powerful": None, "linear scaling": None}
    powerful = max(
        candidates,
        key=lambda one: (one.usd_per_worker_hour, one.workers, one.usd_per_hour, one.key),
    )
    return {
        "cheapest": min(candidates, key=lambda one: (one.usd_per_hour, one.key)),
        "most powerful": powerful,
        "linear scaling": _linear(candidates, aim),
    }


def _linear(candidates: Sequence[Candidate], aim: Aim) -> Candidate | None:
    alone = {_alike(one): one.train_s for one in candidates if one.workers == 1}
    scaled = [
        replace(one, train_s=alone[_alike(one)] / one.workers, ratios=None)
        for one in candidates
        if _alike(one) in alone
    ]
    chosen = best(scaled, aim)
    return next((one for one in candidates if chosen and one.key == chosen.key), None)


def _alike(one: Candidate) -> tuple[str, str, str]:
    return one.training, one.node_type, one.market
