"""Throughput with several parameter servers, from profiles of one worker and one server.

The paper (section 5) profiles with as many servers as train. Here the variables of one server are
put on several, so that no cluster need be rented to compare numbers of servers; it takes more for
granted (`models/async_sgd/replaced.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from models.async_sgd.predictor import AsyncSGD
from warehouse.records import Scenario


@dataclass(frozen=True)
class OneServer:
    """A model of one server, and the table operation of its profiles."""

    model: AsyncSGD
    operations: pl.DataFrame

    def predict(self, scenarios: Sequence[Scenario]) -> pl.DataFrame:
        """Return scenario_id, value, low, high of throughput_steps_per_s, one row per scenario.

        Raises:
            BadInput: as `AsyncSGD.predict`, the number and placement of servers excepted.
        """
        return pl.concat([self._on_servers(one).predict([one]) for one in scenarios])

    def parameters_json(self) -> str:
        """Return the parameters of the model of one server as canonical JSON."""
        return self.model.parameters_json()

    def _on_servers(self, scenario: Scenario) -> AsyncSGD:
        strategy = scenario.strategy
        return self.model.with_servers(strategy.servers, strategy.placement, self.operations)
