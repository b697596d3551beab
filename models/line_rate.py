"""The bound that no system can beat: the server's links are full, whatever the workers do."""

from pydantic import Field

from models.inputs import inputs_of_profile_alone, link_input
from models.phases import transfer_s
from models.profiled_run import PointForecaster, profiled_scenario
from models.system import System, Tables
from warehouse.records import Scenario
from warehouse.requirements import Refusal, Requirement


class LineRate(PointForecaster):
    """As many steps as the links carry, for any workers: one of them included.

    `transfer_s` is what a profiled step takes of the busiest direction of a link.
    """

    run_id: str
    scenario: Scenario
    transfer_s: float = Field(gt=0)

    def value(self, scenario: Scenario) -> float:
        """Return the throughput, in steps of all workers a second."""
        return 1 / self.transfer_s


def fit(tables: Tables) -> LineRate:
    """Fit to the bytes of a profiled step and the speed of its links: that of a single flow.

    Raises:
        BadInput: no bytes, or no speed of a direction.
    """
    run_id = tables["operation"]["run_id"][0]
    return LineRate(
        run_id=run_id,
        scenario=profiled_scenario(tables, run_id),
        transfer_s=max(transfer_s(tables).values()),
    )


def _requires(scenario: Scenario) -> tuple[Requirement, ...] | Refusal:
    inputs = inputs_of_profile_alone(scenario)
    # A step has the same bytes on every type of worker.
    return inputs if isinstance(inputs, Refusal) else (inputs[0], link_input(scenario))


LINE_RATE = System(
    name="line_rate",
    version="1",
    what="Bound: the server's link is full in its busier direction, whatever W.",
    source="baseline",
    tables=("run", "scenario", "operation", "link"),
    inputs=_requires,
    fit=fit,
    load=lambda text, _: LineRate.model_validate_json(text),
)
