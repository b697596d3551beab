"""The bound that no system can beat: the server's links are full, whatever the workers do."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from pydantic import Field

from models.inputs import inputs_of_profile_alone, link_input
from models.phases import transfer_s
from models.profiled_run import (
    check_alike_servers,
    forecasts_of,
    only_run_id,
    profiled_scenario,
)
from models.system import System, Tables
from warehouse.records import Record, Scenario
from warehouse.requirements import Refusal, Requirement


class Parameters(Record):
    """The profiled run, its scenario, and seconds of a step on the busiest direction of a link."""

    run_id: str
    scenario: Scenario
    transfer_s: float = Field(gt=0)


@dataclass(frozen=True)
class LineRate:
    """As many steps as the links carry, for any workers: one of them included."""

    parameters: Parameters

    def predict(self, scenarios: Sequence[Scenario]) -> pl.DataFrame:
        """Return scenario_id and value (throughput_steps_per_s); low and high are NULL.

        Raises:
            BadInput: a scenario whose workload, servers or link differ from the profiled one.
        """
        return forecasts_of(self.parameters.scenario, scenarios, self._steps_per_s)

    def _steps_per_s(self, scenario: Scenario) -> float:
        check_alike_servers(self.parameters.scenario, scenario)
        return 1 / self.parameters.transfer_s

    def parameters_json(self) -> str:
        """Return the parameters as canonical JSON."""
        return self.parameters.canonical_json()

    @classmethod
    def from_json(cls, text: str) -> "LineRate":
        """Read what `parameters_json` wrote."""
        return cls(Parameters.model_validate_json(text))


def fit(
    *,
    runs: pl.DataFrame,
    scenarios: pl.DataFrame,
    operations: pl.DataFrame,
    links: pl.DataFrame,
) -> LineRate:
    """Fit to the bytes of a profiled step and the speed of its links.

    Args:
        runs: table run, where the profile is found; may hold other runs too.
        scenarios: table scenario.
        operations: table operation of exactly one run, the profile.
        links: table link of the profiled link: the mean goodput of a single flow counts.

    Raises:
        BadInput: no profile of 1 worker and 1 server, no bytes, or no speed of a direction.
    """
    run_id = only_run_id(operations, "operation")
    scenario = profiled_scenario(run_id, runs, scenarios)
    busiest_s = max(transfer_s(operations, links).values())
    return LineRate(Parameters(run_id=run_id, scenario=scenario, transfer_s=busiest_s))


def _requires(scenario: Scenario) -> tuple[Requirement, ...] | Refusal:
    inputs = inputs_of_profile_alone(scenario)
    # A step has the same bytes on every type of worker.
    return inputs if isinstance(inputs, Refusal) else (inputs[0], link_input(scenario))


def _fit(tables: Tables) -> LineRate:
    return fit(
        runs=tables["run"],
        scenarios=tables["scenario"],
        operations=tables["operation"],
        links=tables["link"],
    )


LINE_RATE = System(
    name="line_rate",
    version="1",
    what="Bound: the server's link is full in its busier direction, whatever W.",
    source="baseline",
    tables=("run", "scenario", "operation", "link"),
    inputs=_requires,
    fit=_fit,
    load=lambda text, _: LineRate.from_json(text),
)
