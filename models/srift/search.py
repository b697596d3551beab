"""The best rows of a space by one objective (section 4.4)."""

from dataclasses import dataclass, field
from math import inf

import numpy as np

from models.choosing.objectives import Objective, preferred
from models.srift.exploration import SHORTENED, Bools, Exploration, Floats, Row, divided


@dataclass
class Search(Exploration):
    """The `keep` best rows, best first, in `best`."""

    objective: Objective = "time"
    keep: int = 1
    best: list[Row] = field(default_factory=list)

    def run(self, global_batch: int, max_types: int) -> list[Row]:
        """Return the best rows of at most `max_types` offers each."""
        self.explore(global_batch, max_types)
        return self.best

    def key(self, row: Row) -> tuple[float, float, int, tuple[int, ...]]:
        """Return what is compared: the objective, the other one, and then fewer offers."""
        values = preferred(self.objective, row.step_s, row.step_usd)
        return *values, len(row.options), row.options

    def matters(self, bound_s: Floats, bound_usd: Floats) -> Bools:
        """Tell which rows can be among the best."""
        promising: Bools = self.priority(bound_s, bound_usd) * SHORTENED <= self._worst
        return promising

    def priority(self, bound_s: Floats, bound_usd: Floats) -> Floats:
        """Return the objective's bound."""
        return bound_s if self.objective == "time" else bound_usd

    def at_most_s(self, usd_per_s: Floats) -> Floats:
        """Return what the worst of the best takes, or its cost would pay for."""
        if self.objective == "time":
            return np.full(len(usd_per_s), self._worst)
        return divided(self._worst, usd_per_s)

    def take(self, rows: list[Row]) -> None:
        """Keep the best."""
        self.best = sorted([*self.best, *rows], key=self.key)[: self.keep]

    @property
    def _worst(self) -> float:
        return self.key(self.best[-1])[0] if len(self.best) == self.keep else inf
