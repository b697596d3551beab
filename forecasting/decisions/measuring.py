"""What measuring a scenario takes and costs, beside what it is worth to a choice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from models.choosing.candidates import Candidate
from models.choosing.deciding import Aim
from models.choosing.information import Worth, worth_measuring
from profilers.probe import Asked
from profilers.probes import judge_of
from studies.needs import expected_s, starts
from warehouse.records import Scenario

_KEEP = 2


@dataclass(frozen=True)
class Measurement:
    """A scenario that would be measured: by which probe, how long, and what its nodes cost then."""

    worth: Worth
    probe: str
    minutes: float
    usd: float

    @property
    def candidate(self) -> Candidate:
        """What would be measured."""
        return self.worth.candidate


def measurements(
    candidates: Sequence[Candidate], aim: Aim, scenarios: Mapping[str, Scenario]
) -> list[Measurement]:
    """Return the measurements that might change a choice, the most worth first; two at most.

    Args:
        candidates: to choose from.
        aim: what is wanted.
        scenarios: of the candidates, by id.
    """
    return [_measured(one, scenarios) for one in worth_measuring(candidates, aim)[:_KEEP]]


def _measured(worth: Worth, scenarios: Mapping[str, Scenario]) -> Measurement:
    candidate = worth.candidate
    scenario = scenarios[candidate.scenario_id]
    probe = judge_of(scenario)
    needs = list(probe.needs(Asked(test=(scenario,)), probe.settings()))
    seconds = sum(expected_s(start) for start in starts(needs))
    seconds += candidate.expected.fixed_s
    return Measurement(worth, probe.name, seconds / 60, candidate.usd_per_hour * seconds / 3600)
