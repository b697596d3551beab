"""Which scenarios one fit forecasts, and which runs it sees."""

from collections.abc import Mapping
from dataclasses import dataclass

from forecasting.asked.runs import Met, VisibleRun, newest_of_each
from models.system import System
from studies.curve import Curve
from warehouse.records import Scenario


@dataclass(frozen=True)
class Group:
    """Scenarios that one fit of a system forecasts, and the runs that it sees, the newest first."""

    system: System
    of: tuple[tuple[Curve, Scenario], ...]
    runs: tuple[VisibleRun, ...]

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The runs by their names, the oldest first."""
        return tuple(run.run_id for run in reversed(self.runs))


def groups_of(wanted: Mapping[tuple[System, Curve, Scenario], Met]) -> tuple[Group, ...]:
    """Return what is fitted once.

    A pooled system sees, as in a study, what all scenarios rest on whose runs are of the same
    rounds; any other one the runs of one forecast.
    """
    found: dict[object, list[tuple[tuple[System, Curve, Scenario], Met]]] = {}
    for key, rests in wanted.items():
        system = key[0]
        one = rests.rounds if system.pooled else frozenset(run.run_id for run in rests.runs)
        found.setdefault((system.name, one), []).append((key, rests))
    return tuple(
        Group(
            members[0][0][0],
            tuple((curve, scenario) for (_, curve, scenario), _ in members),
            newest_of_each(run for _, rests in members for run in rests.runs),
        )
        for members in found.values()
    )
