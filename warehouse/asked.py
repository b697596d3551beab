"""Scenarios that somebody merely asked about: nobody may ever measure them, so they are kept."""

from collections.abc import Sequence

import duckdb
import pyarrow as pa

from warehouse import journal
from warehouse.records import Scenario


def record_scenarios(connection: duckdb.DuckDBPyConnection, scenarios: Sequence[Scenario]) -> None:
    """Keep what scenarios are, each once."""
    known = connection.execute(
        "SELECT scenario_id FROM pred.asked_scenario WHERE scenario_id IN (SELECT unnest(?))",
        [[one.scenario_id for one in scenarios]],
    ).fetchall()
    seen = {scenario_id for (scenario_id,) in known}
    new = {one.scenario_id: one for one in scenarios if one.scenario_id not in seen}
    rows = [
        {"scenario_id": key, "label": one.label, "canonical": one.canonical_json()}
        for key, one in new.items()
    ]
    with journal.entry(connection) as entry:
        entry.insert("pred.asked_scenario", pa.Table.from_pylist(rows))
