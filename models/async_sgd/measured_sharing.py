"""What n flows that use a link at the same time really get of it, where that was measured."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np

from warehouse.records import BadInput


@dataclass(frozen=True)
class MeasuredSharing:
    """Measured sharing of one direction of a server's link.

    With `flows[i]` flows, all together get `efficiency[i]` of the link's speed, and each the
    fractions `shares[i]` of that, largest first. `largest_to` says who gets the largest: the flow
    of the worker that has been sending longest without a pause, or the latest to start.

    The logarithm of a flow's weight varies from one transfer to the next with standard deviation
    `spread`, None where that was not seen.

    A flow gets no more than the fraction `opposed[m]` of the link's speed while m flows go the
    other way, which delay its acknowledgements; of more than were seen, as of the most.

    Raises:
        BadInput: columns of different length, numbers of flows that do not ascend, an efficiency
            or share of 0 or less, shares that do not descend or do not add up to 1, or fractions
            that are not above 0, at most 1 and descending.
    """

    flows: tuple[int, ...]
    efficiency: tuple[float, ...]
    shares: tuple[tuple[float, ...], ...]
    largest_to: Literal["oldest", "newest"] = "oldest"
    opposed: tuple[float, ...] = (1.0,)
    spread: float | None = None

    def __post_init__(self) -> None:
        if not len(self.flows) == len(self.efficiency) == len(self.shares) > 0:
            raise BadInput(
                f"measured sharing: expected as many flows, efficiencies and shares, found "
                f"{len(self.flows)}, {len(self.efficiency)} and {len(self.shares)}"
            )
        if not all(0 < one < two for one, two in pairwise((*self.flows, 2**62))):
            raise BadInput(
                f"measured sharing: expected ascending numbers of flows, found {self.flows}"
            )
        if not min(self.efficiency) > 0:
            raise BadInput(f"measured sharing: efficiency must be above 0, found {self.efficiency}")
        if not all(one >= two for one, two in pairwise((1.0, *self.opposed, 0.0))) or (
            not self.opposed or self.opposed[-1] <= 0
        ):
            raise BadInput(
                f"measured sharing: expected descending fractions of 0 to 1, found {self.opposed}"
            )
        for n, row in zip(self.flows, self.shares, strict=True):
            descends = all(one >= two for one, two in pairwise((*row, 0.0)))
            if len(row) != n or not descends or not min(row) > 0 or abs(sum(row) - 1) > 1e-6:
                raise BadInput(
                    f"measured sharing: expected {n} descending shares above 0 that add up to 1, "
                    f"found {row}"
                )

    def equally(self) -> "MeasuredSharing":
        """Return the same with equal shares for all."""
        return replace(self, shares=tuple((1 / n,) * n for n in self.flows))

    def against(self, m: int) -> float:
        """Return the most that a flow gets of the link while `m` others go the other way."""
        return self.opposed[min(m, len(self.opposed) - 1)]

    def of(self, n: int) -> tuple[float, tuple[float, ...]]:
        """Return efficiency and shares of `n` flows.

        Between numbers that were measured, efficiency is interpolated; beyond them, it stays. The
        shares of a number that was not measured have the shape of the nearest smaller one.
        """
        efficiency = float(np.interp(n, self.flows, self.efficiency))
        row = self.shares[max(int(np.searchsorted(self.flows, n, side="right")) - 1, 0)]
        if len(row) == n:
            return efficiency, row
        at = (np.arange(n) + 0.5) / n
        shape = np.interp(at, (np.arange(len(row)) + 0.5) / len(row), row)
        return efficiency, tuple((shape / shape.sum()).tolist())
