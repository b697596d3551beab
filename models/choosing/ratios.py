"""How much longer training takes than was forecast, as past errors tell.

If the next forecast errs like past ones, each place among n past ratios is as likely as any other:
a ratio above x then has a probability of at most (1 + how many are above x) / (n + 1), whatever
their distribution. That is split conformal prediction with the ratio as its score (Lei et al.,
"Distribution-free predictive inference for regression", JASA 113, 2018, section 2.2).
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from math import ceil, exp, floor, inf, isfinite
from statistics import NormalDist

from pydantic import field_validator

from warehouse.records import Record

FORGIVEN = 1e-9
"""Rounding of ranks: 0.9 * 10 is nine."""


class Ratios(Record):
    """What was measured over what was forecast, both as times; `basis` says of which forecasts.

    Without values nothing is known: any ratio has a probability of 1 at most, and no ends.
    """

    values: tuple[float, ...]
    basis: str

    @field_validator("values")
    @classmethod
    def _sorted(cls, values: tuple[float, ...]) -> tuple[float, ...]:
        if not all(one > 0 and isfinite(one) for one in values):
            raise ValueError(f"expected ratios above 0, found {values[:3]}")
        return tuple(sorted(values))

    def probability_above(self, ratio: float) -> float:
        """Return the probability, 0 to 1, of a ratio above one: at most so much."""
        above = len(self.values) - bisect_right(self.values, ratio)
        return (1 + above) / (len(self.values) + 1)

    def high(self, level: float) -> float | None:
        """Return what is exceeded with a probability of `level` at most; None: too few are known.

        It is the smallest x whose `probability_above` is no larger than `level`.
        """
        rank = ceil((1 - level) * (len(self.values) + 1) - FORGIVEN)
        return self.values[max(rank, 1) - 1] if rank <= len(self.values) else None

    def low(self, level: float) -> float | None:
        """Return what is fallen short of with a probability of `level` at most; None: too few."""
        rank = floor(level * (len(self.values) + 1) + FORGIVEN)
        return self.values[rank - 1] if rank >= 1 else None

    @property
    def spread(self) -> float:
        """Mean size of 1 - ratio: how wrong forecasts were, as a part of them; inf: not known."""
        if not self.values:
            return inf
        return sum(abs(1 - one) for one in self.values) / len(self.values)


def fewest(level: float) -> int:
    """Return of how many ratios at least one is exceeded with a probability of `level`."""
    return ceil(1 / level - FORGIVEN) - 1


def normal(sigma: float, basis: str) -> Ratios:
    """Return the percentiles of ratios whose logarithm is normal, with a mean of 0."""
    law = NormalDist(0, sigma)
    return Ratios(
        values=tuple(exp(law.inv_cdf(place / 100)) for place in range(1, 100)), basis=basis
    )


def widened(ratios: Iterable[float], factor: float, basis: str) -> Ratios:
    """Return ratios that lie `factor` times as far from 1, on a logarithmic scale."""
    return Ratios(values=tuple(one**factor for one in ratios), basis=basis)


def thinned(ratios: Ratios, most: int) -> Sequence[float]:
    """Return at most so many of the ratios, evenly spread over their ranks."""
    count = len(ratios.values)
    if count <= most:
        return ratios.values
    return [ratios.values[(2 * place + 1) * count // (2 * most)] for place in range(most)]
