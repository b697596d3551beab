"""Which runs forecasts may rest on: those that a host has, or those of a round of a study."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import chain

from forecasting.history_scope import (
    HostSelection,
    RunIndex,
    Runs,
    VisibleRun,
    host_here,
    newest_of_each,
    select_by_inventory,
    select_host,
    select_runs,
    visible_runs,
)
from forecasting.inputs import (
    InputRuns,
    MissingRuns,
    find_missing_runs,
    in_order,
    input_probes,
    input_runs_by_scenario,
    requires_public,
)
from models.profiled_run import refusal
from models.system import System
from studies.curve import Curve
from studies.planned_runs import resolve_requirement
from studies.rounds import Round
from warehouse.records import Backend, BadInput, Run, Scenario
from warehouse.requirements import Refusal, Requirement
from warehouse.warehouse import Warehouse


@dataclass(frozen=True)
class ForecastRefusal:
    """Why a system forecasts nothing of a scenario, and what could be measured to mend it.

    `foreign`: the system is about other training.
    """

    scenario: Scenario
    system: System
    reason: str
    foreign: bool = False
    lacking: tuple[MissingRuns, ...] = field(default=())

    @property
    def in_words(self) -> str:
        """The system and its reason."""
        return f"{self.system.name}: {self.reason}"


Matched = Runs | ForecastRefusal
"""The runs that a forecast rests on, or why there is no forecast."""


@dataclass(frozen=True)
class NamelessScenario:
    """A scenario that no study could list: its network or its nodes have no name here.

    Attributes:
        scenario: with its own links.
    """

    scenario: Scenario

    def scenarios(self, backend: Backend) -> tuple[Scenario, ...]:
        """Return the scenario, whatever the backend."""
        return (self.scenario,)

    def link_speeds(self, backend: Backend) -> tuple[float | None, ...]:
        """Return the speed of its links."""
        return (self.scenario.link_mbps,)

    def on_profiled_link(self, scenario: Scenario, backend: Backend) -> Scenario:
        """Return a scenario on the links that it has: nobody profiles it on others."""
        return scenario


Asked = Curve | NamelessScenario
"""What forecasts are asked of."""


@dataclass(frozen=True)
class HistoryScope:
    """All visible runs of a host, and public measurements.

    Attributes:
        chosen_host: the backend and host.
        on_host: its runs, and public ones.
        elsewhere: runs of the backend's other hosts.
    """

    chosen_host: HostSelection
    on_host: RunIndex
    elsewhere: RunIndex

    @classmethod
    def read(
        cls,
        warehouse: Warehouse,
        curves: Sequence[Curve],
        *,
        backend: Backend | None = None,
        host: str | None = None,
        chosen_host: HostSelection | None = None,
        known_by: datetime | None = None,
    ) -> "HistoryScope":
        """Return the scope of a question.

        Args:
            warehouse: the history.
            curves: what is asked about.
            backend: whose runs count; None: as `select_host` chooses.
            host: the same, of hosts.
            chosen_host: whose runs count, where that was chosen before.
            known_by: runs that started later do not count; None: all do.

        Raises:
            BadInput: nothing has been profiled, or there is no such node type or host.
        """
        runs, public = (
            visible_runs(warehouse, known_by),
            visible_runs(warehouse, known_by, public=True),
        )
        if chosen_host is None:
            is_chosen = bool(runs or host or not public)
            chosen_host = select_host(runs, curves, backend, host) if is_chosen else host_here()
        on_backend = [run for run in runs if run.backend == chosen_host.backend]
        host_runs = [run for run in on_backend if run.host_id == chosen_host.host_id]
        return cls(
            chosen_host,
            RunIndex([*host_runs, *public]),
            RunIndex(run for run in on_backend if run.host_id != chosen_host.host_id),
        )

    @property
    def backend(self) -> Backend:
        """The backend that forecasts are about."""
        return self.chosen_host.backend

    @property
    def host_id(self) -> str:
        """The host that forecasts are about."""
        return self.chosen_host.host_id

    def select(
        self, system: System, asked: Asked, scenarios: Iterable[Scenario]
    ) -> Mapping[Scenario, Matched]:
        """Return what a system's forecast of each scenario that is asked about rests on.

        What a system refuses of nodes it refuses of more of the same types.
        """
        refused: dict[Hashable, Refusal] = {}
        matched = {}
        for scenario in scenarios:
            # Of what is asked about at once nothing else differs but counts.
            but_counts = tuple((group.node_type, group.batch_size) for group in scenario.nodes)
            requirements = refused.get(but_counts) or system.requires(scenario)
            if isinstance(requirements, Refusal):
                refused[but_counts] = requirements
            matched[scenario] = self._select(system, asked, scenario, requirements)
        return matched

    def _select(
        self,
        system: System,
        asked: Asked,
        scenario: Scenario,
        requirements: tuple[Requirement, ...] | Refusal,
    ) -> Matched:
        """Return the runs that a forecast of one scenario rests on; a refusal if some lack."""
        # What others measured is of no host, and a forecast does without what is optional.
        of_hosts = isinstance(requirements, Refusal) or any(
            requirement.scope != "public" and not requirement.optional
            for requirement in requirements
        )
        if of_hosts and (reason := self.chosen_host.lacks(scenario)):
            return ForecastRefusal(scenario, system, reason)
        if isinstance(requirements, Refusal):
            return ForecastRefusal(scenario, system, requirements.reason, requirements.foreign)
        on_links = [
            resolve_requirement(requirement, asked, self.backend) for requirement in requirements
        ]
        for requirement, resolved in zip(requirements, on_links, strict=True):
            if requirement.on_its_link and (
                reason := refusal(resolved[0].scenario, requirement.scenario)
            ):
                return ForecastRefusal(scenario, system, reason)
        resolved_asks = list(chain(*on_links))
        selected, lacking = select_runs(resolved_asks, self.on_host)
        if system.transfers_across_hosts:
            selected, lacking = select_by_inventory(
                resolved_asks, selected, lacking, self.on_host, self.elsewhere
            )
        if lacking:
            needed = find_missing_runs(lacking)
            reason = f"no {', no '.join(missing_run.text for missing_run in needed)}"
            return ForecastRefusal(scenario, system, reason, lacking=needed)
        several = scenario.strategy.workers * scenario.strategy.devices_per_node > 1
        learns = any(
            requirement.scope == "train" and not requirement.optional
            for requirement in requirements
        )
        if several and learns and not any(run.exchanges for run in selected):
            reason = "no steps of several devices, so no exchange is known"
            return ForecastRefusal(scenario, system, reason)
        return selected

    def fit_key(self, system: System, selected: Runs) -> Hashable:
        """A pooled system sees, as in a study, all runs of the same rounds; others their own."""
        return frozenset(run.round if system.pooled else run.run_id for run in selected)

    def merge(self, several: Iterable[Runs]) -> Runs:
        """Return the newest run about each thing, the newest first."""
        runs = {run.run_id: run for run in chain.from_iterable(several)}  # of hundreds of forecasts
        return newest_of_each(runs.values())


@dataclass(frozen=True)
class RoundScope:
    """The runs of a round of a study, those of studies that it learns from, and public ones.

    All scenarios of a curve rest on the same runs.
    """

    round: Round
    warehouse: Warehouse

    @property
    def backend(self) -> Backend:
        """The backend that forecasts are about."""
        return self.round.backend

    @property
    def host_id(self) -> str:
        """The host that forecasts are about."""
        return self.round.host_id

    @cached_property
    def _visible(self) -> Mapping[str, VisibleRun]:
        return {run.run_id: run for run in visible_runs(self.warehouse)}

    @cached_property
    def _public(self) -> tuple[VisibleRun, ...]:
        return visible_runs(self.warehouse, public=True)

    def select(
        self, system: System, asked: Asked, scenarios: Iterable[Scenario]
    ) -> Mapping[Scenario, Matched]:
        """Return what a system's forecast of each scenario of a curve rests on.

        Raises:
            BadInput: one of these runs has not landed in this round, or there is none.
        """
        assert isinstance(asked, Curve)  # a study lists nothing else
        by_scenario = self.input_runs(system, asked)
        matched: dict[Scenario, Matched] = {}
        selected: Runs = ()
        for scenario, rests in by_scenario.items():
            if isinstance(rests, Refusal):
                matched[scenario] = ForecastRefusal(scenario, system, rests.reason, rests.foreign)
                continue
            selected = selected or self._runs_of(system, asked)
            matched[scenario] = selected
        return matched

    @cached_property
    def _inputs(self) -> dict[tuple[System, Curve], InputRuns]:
        return {}

    def input_runs(self, system: System, curve: Curve) -> InputRuns:
        """Return `input_runs_by_scenario` of a curve, which is made once."""
        if (system, curve) not in self._inputs:
            round_ = self.round
            self._inputs[system, curve] = input_runs_by_scenario(
                system, curve, round_.needs, round_.backend, round_.study.learns_from
            )
        return self._inputs[system, curve]

    def fit_key(self, system: System, selected: Runs) -> Hashable:
        """A pooled system is fitted once; any other to the runs of each curve."""
        return None if system.pooled else tuple(run.run_id for run in selected)

    def merge(self, several: Iterable[Runs]) -> Runs:
        """Return each run once, in the order that is the reverse of the study's."""
        in_order = (run for selected in several for run in reversed(selected))
        return tuple(reversed(dict.fromkeys(in_order)))

    def _runs_of(self, system: System, curve: Curve) -> Runs:
        needed = in_order(self.input_runs(system, curve).values(), self.round.needs)
        runs = [run for need in needed if (run := self.round.run_of(need))]
        learned: list[Run] = []
        if system.transfers_across_hosts:
            probes = input_probes(system, curve, self.backend)
            learned = [run for run in self.round.learned if run.probe in probes]
            absent = sorted(probes - {run.probe for run in learned})
            if absent and self.round.study.learns_from:
                raise BadInput(
                    f"{system.name}: learns_from: {', '.join(self.round.study.learns_from)} have "
                    f"no profile runs of {' and '.join(absent)}; name studies that have"
                )
        is_public = requires_public(system, curve, self.backend)
        if not (needed or learned or is_public) or len(runs) < len(needed):
            lacking = " and ".join(dict.fromkeys(need.probe for need in needed)) or "profile"
            raise BadInput(
                f"{system.name} cannot be fitted to {curve.profiled(self.backend).label}: round "
                f"{self.round.repeat} of {self.round.study.name} has no {lacking} run of it; "
                "profile it first"
            )
        own = [self._loaded(run.run_id) for run in (*runs, *learned)]
        return tuple(reversed([*own, *(self._public if is_public else ())]))

    def _loaded(self, run_id: str) -> VisibleRun:
        if run_id not in self._visible:
            raise BadInput(f"run {run_id} has landed, but is not loaded; `stepcast load` says why")
        return self._visible[run_id]


Scope = HistoryScope | RoundScope
"""Which runs forecasts may rest on, and which forecasts share a fit."""
