"""Scenarios that somebody merely asked about: nobody may ever measure them, so they are kept."""

from collections.abc import Sequence

import duckdb

from warehouse.records import Scenario


def record_scenarios(connection: duckdb.DuckDBPyConnection, scenarios: Sequence[Scenario]) -> None:
    """Keep what scenarios are, each once."""
    for one in scenarios:
        connection.execute(
            "INSERT OR IGNORE INTO pred.asked_scenario VALUES (?, ?, ?)",
            [one.scenario_id, one.label, one.canonical_json()],
        )
