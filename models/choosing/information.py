"""Which measurement would change a choice: the value of knowing one candidate's time.

Source: R. A. Howard, "Information value theory", IEEE Transactions on Systems Science and
Cybernetics 2 (1966) 22-26, for one candidate at a time: measuring is taken to tell exactly what
training takes there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from models.choosing.candidates import Candidate
from models.choosing.deciding import Aim, best
from models.choosing.ratios import thinned

_MOST_RATIOS = 99


@dataclass(frozen=True)
class Worth:
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


def worth_measuring(candidates: Sequence[Candidate], aim: Aim) -> list[Worth]:
    """Return the candidates whose measurement might change the choice, the most worth first.

    Those without past errors are left out: nothing says what a measurement might find.
    """
    found = [
        _worth(one, candidates, aim)
        for one in candidates
        if one.ratios is not None and one.has_evidence
    ]
    return sorted(
        (one for one in found if one.chance > 0),
        key=lambda one: (-one.saving, -one.chance, one.candidate.key),
    )


def _worth(one: Candidate, candidates: Sequence[Candidate], aim: Aim) -> Worth:
    assert one.ratios is not None
    others = [other for other in candidates if other.key != one.key]
    without, other = best(candidates, aim), best(others, aim)
    changes, saving = 0, 0.0
    ratios = thinned(one.ratios, _MOST_RATIOS)
    for ratio in ratios:
        known = replace(one, train_s=ratio * one.train_s, ratios=None)
        pool = [each for each in (known, other) if each is not None]
        chosen = best(pool, aim)
        if (chosen and chosen.key) == (without and without.key):
            continue
        changes += 1
        before = known if without is not None and without.key == one.key else without
        if before is not None and chosen is not None and aim.admits(before):
            saving += max(aim.value(before.outcome) - aim.value(chosen.outcome), 0.0)
    return Worth(one, changes / len(ratios), saving / len(ratios))
