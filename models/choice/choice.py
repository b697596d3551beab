"""The best of many candidates for a job, and which measurement would change that choice."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, isfinite, log10

from models.choice.candidates import Candidate, thin_ratios
from models.choice.limits import (
    LIMITS,
    OPTIONS,
    Limit,
    Limits,
    Minimize,
    Outcome,
    keeps_limits,
    least_of,
    objective_key,
    relaxations,
)
from models.choice.overheads import LAUNCH_VARIES


@dataclass(frozen=True)
class Objective:
    """What is wanted of a job.

    Attributes:
        minimize: time or cost.
        limits: within which.
        late: the largest probability of exceeding the deadline, and of exceeding the budget; None:
            what is expected of a candidate counts, and not how surely.
    """

    minimize: Minimize
    limits: Limits
    late: float | None = None

    def admits(self, candidate: Candidate) -> bool:
        """Tell whether a candidate keeps the limits, as expected and surely enough."""
        if not keeps_limits(self.limits, candidate):
            return False
        return self.late is None or self.risk(candidate) <= self.late + 1e-12

    def risk(self, candidate: Candidate) -> float:
        """Return the larger probability of a candidate's to exceed deadline or budget, 0 to 1."""
        return max(candidate.chance_of_exceeding(self.limits, limit) for limit in LIMITS)

    def excess(self, candidate: Candidate) -> float:
        """Return how many times a limit what a candidate needs is, of the limit it exceeds most."""
        needs = zip(LIMITS, candidate.outcome, strict=True)
        limits = ((self.limits.of(limit), needed) for limit, needed in needs)
        return max((needed / most for most, needed in limits if most), default=0.0)

    def value(self, outcome: Outcome) -> float:
        """Return what is minimised, seconds or US dollars."""
        return objective_key(self.minimize, outcome.time_s, outcome.cost_usd)[0]

    def order(self, candidate: Candidate) -> tuple[float, float, str]:
        """Return what is compared, the least is best; of equals the first by name."""
        return *objective_key(
            self.minimize, candidate.outcome.time_s, candidate.outcome.cost_usd
        ), candidate.key

    def best_of(self, admitted: Sequence[Candidate]) -> Candidate:
        """Return the best of candidates that keep the limits.

        Who is faster by less than what launching varies by is no faster: the least cost decides.
        """
        first = min(admitted, key=self.order)
        if self.minimize == "cost":
            return first
        most_s = first.outcome.time_s + (LAUNCH_VARIES - 1) * first.expected.launch_s
        alike = [candidate for candidate in admitted if candidate.outcome.time_s <= most_s]
        return min(alike, key=replace(self, minimize="cost").order)


@dataclass(frozen=True)
class Decision:
    """The best candidate, None: none keeps the limits; the next best; and what to relax then."""

    choice: Candidate | None
    alternatives: tuple[Candidate, ...] = ()
    relaxations: tuple[str, ...] = ()


@dataclass(frozen=True)
class _WorstCase:
    """A candidate by what it takes at worst."""

    candidate: Candidate
    outcome: Outcome


def best(candidates: Sequence[Candidate], objective: Objective) -> Candidate | None:
    """Return the best candidate that keeps the limits surely enough, None: there is none."""
    admitted = [candidate for candidate in candidates if objective.admits(candidate)]
    return objective.best_of(admitted) if admitted else None


_KEEP = 2


def decide(candidates: Sequence[Candidate], objective: Objective) -> Decision:
    """Return the best candidate with two alternatives: the next best, then the nearest."""
    admitted, others = list[Candidate](), list[Candidate]()
    for candidate in candidates:
        (admitted if objective.admits(candidate) else others).append(candidate)
    admitted.sort(key=objective.order)
    others.sort(
        key=lambda each: (objective.risk(each), objective.excess(each), *objective.order(each))
    )
    if not admitted:
        return Decision(None, tuple(others[:_KEEP]), tuple(_relaxed(candidates, objective)))
    choice = objective.best_of(admitted)
    admitted.remove(choice)
    return Decision(choice, (*admitted, *others)[:_KEEP])


def _relaxed(candidates: Sequence[Candidate], objective: Objective) -> list[str]:
    """Return which limit admits a candidate if it alone is raised, one line each."""
    worst_cases = [
        _WorstCase(
            candidate,
            candidate.outcome if objective.late is None else candidate.worst(objective.late),
        )
        for candidate in candidates
    ]
    known = [case for case in worst_cases if isfinite(case.outcome.time_s)]
    limits = objective.limits
    return [_in_words(limits, *each) for each in relaxations(limits, least_of(known))]


def _in_words(limits: Limits, constraint: Limit, case: _WorstCase) -> str:
    option, unit = OPTIONS[constraint]
    limit = (limits.of(constraint) or 0.0) * unit
    needed = case.outcome[LIMITS.index(constraint)] * unit
    # The least number of four digits that is not below it, but for rounding.
    digit = 10.0 ** (floor(log10(needed)) - 3) if needed > 0 else 1.0
    needed = ceil(needed / digit - 1e-6) * digit
    return f"raise {option} from {limit:.4g} to {needed:.4g} for {case.candidate.label}"


# Which measurement would change a choice: the value of knowing one candidate's time.
#
# Source: R. A. Howard, "Information value theory", IEEE Transactions on Systems Science and
# Cybernetics 2 (1966) 22-26, for one candidate at a time: measuring is taken to tell exactly what
# training takes there.


_MOST_RATIOS = 99


@dataclass(frozen=True)
class MeasurementWorth:
    """What measuring a candidate is worth.

    Attributes:
        candidate: that would be measured.
        chance: the probability, 0 to 1, that another candidate would be chosen then.
        saving: by how much the choice would be better in the mean, seconds or US dollars of what is
            minimised; where the choice would break a limit, only the chance tells.
    """

    candidate: Candidate
    chance: float
    saving: float


def worth_measuring(
    candidates: Sequence[Candidate], objective: Objective
) -> list[MeasurementWorth]:
    """Return the candidates whose measurement might change the choice, the most worth first.

    Those without past errors are left out: nothing says what a measurement might find.
    """
    choice = best(candidates, objective)
    key = None if choice is None else choice.key
    second = best([candidate for candidate in candidates if candidate.key != key], objective)
    worths = [
        _worth(candidate, choice, second if candidate.key == key else choice, objective)
        for candidate in candidates
        if candidate.ratios is not None and candidate.has_evidence
    ]
    return sorted(
        (worth for worth in worths if worth.chance > 0),
        key=lambda worth: (-worth.saving, -worth.chance, worth.candidate.key),
    )


def _worth(
    candidate: Candidate, choice: Candidate | None, other: Candidate | None, objective: Objective
) -> MeasurementWorth:
    """Return what measuring a candidate is worth; `other` is the best of all but it."""
    assert candidate.ratios is not None
    is_choice = choice is not None and choice.key == candidate.key
    changes, saving = 0, 0.0
    ratios = thin_ratios(candidate.ratios, _MOST_RATIOS)
    for ratio in ratios:
        known = replace(candidate, train_s=ratio * candidate.train_s, ratios=None)
        chosen = best([each for each in (known, other) if each is not None], objective)
        if (chosen and chosen.key) == (choice and choice.key):
            if not is_choice:
                break  # Larger ratios make it no better.
            continue
        changes += 1
        before = known if is_choice else choice
        if before is not None and chosen is not None and objective.admits(before):
            saving += max(objective.value(before.outcome) - objective.value(chosen.outcome), 0.0)
    return MeasurementWorth(candidate, changes / len(ratios), saving / len(ratios))
