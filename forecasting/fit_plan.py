"""Which runs forecasts rest on, which of them share a fit, and what a fit says of a scenario."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from forecasting.fits import Fit, FitGroup
from forecasting.forecast_history import Figures
from forecasting.history_scope import Runs
from forecasting.scope import Asked, ForecastRefusal, Matched, Scope
from models.system import System
from warehouse.records import BadInput, Scenario

Key = tuple[System, Asked, Scenario]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What forecasts rest on, and which of them share a fit.

    Attributes:
        matched: of each system and scenario, its runs, or why there is no forecast.
        groups: what is fitted once.
    """

    matched: Mapping[Key, Matched]
    groups: tuple[FitGroup, ...]

    def group_of(self) -> dict[Key, FitGroup]:
        """Return the group of each forecast."""
        return {(group.system, *of): group for group in self.groups for of in group.of}


def match(questions: Sequence[Asked], systems: Sequence[System], scope: Scope) -> Plan:
    """Return which runs forecasts by systems rest on.

    Raises:
        BadInput: runs that a round needs have not landed in it.
    """
    matched: dict[Key, Matched] = {}
    for asked in questions:
        scenarios = asked.scenarios(scope.backend)
        by_system = {system: scope.select(system, asked, scenarios) for system in systems}
        matched |= {
            (system, asked, scenario): by_scenario[scenario]
            for scenario in scenarios
            for system, by_scenario in by_system.items()
        }
    members: dict[Hashable, list[tuple[Key, Runs]]] = {}
    for key, selected in matched.items():
        if not isinstance(selected, ForecastRefusal):
            fit_key = key[0].name, scope.fit_key(key[0], selected)
            members.setdefault(fit_key, []).append((key, selected))
    groups = tuple(
        FitGroup(
            of_group[0][0][0],
            tuple((asked, scenario) for (_, asked, scenario), _ in of_group),
            scope.merge(selected for _, selected in of_group),
        )
        for of_group in members.values()
    )
    return Plan(matched, groups)


def figures_of(fit: Fit, scenario: Scenario) -> Figures:
    """Return what a fit forecasts of a scenario.

    Raises:
        BadInput: it says nothing of it.
    """
    (row,) = fit.fitted().predict([scenario]).to_dicts()
    figures = row["value"], row["low"], row["high"]
    if not all(isfinite(figure) for figure in figures if figure is not None):
        raise BadInput(f"{scenario.label}: the forecast is no number")
    return *figures, row.get("unknown")
