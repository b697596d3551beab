"""The registry of systems: every name that predicts, what it is and where it comes from.

The names of the published systems and of the baselines beside them are registered with the schema
(schema/0009_system.csv); anybody's own predictor registers before its first fit.
"""

from collections.abc import Iterable

import duckdb
from pydantic import Field

from warehouse.connection import transaction
from warehouse.records import BadInput, Record


class System(Record):
    """A performance model: its name, one line saying what it is, and its source."""

    name: str = Field(pattern="^[a-z][a-z0-9_]*$")
    what: str = Field(min_length=1)
    source: str = Field(min_length=1)


def register(connection: duckdb.DuckDBPyConnection, system: System) -> None:
    """Register a system; the same one again changes nothing.

    Raises:
        BadInput: the name is taken by another system.
    """
    row = connection.execute(
        "SELECT what, source FROM pred.system WHERE name = ?", [system.name]
    ).fetchone()
    if row is not None and row != (system.what, system.source):
        raise BadInput(f"system {system.name!r} is taken: {row[0]} ({row[1]}); choose another name")
    if row is None:
        with transaction(connection):
            connection.execute(
                "INSERT INTO pred.system VALUES (?, ?, ?)",
                [system.name, system.what, system.source],
            )


def refuse_unregistered(connection: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
    """Do nothing if all names are registered.

    Raises:
        BadInput: one is not.
    """
    known = connection.execute("SELECT name FROM pred.system ORDER BY name").fetchall()
    unknown = sorted(set(names) - {name for (name,) in known})
    if unknown:
        raise BadInput(
            f"system {unknown[0]!r} is not registered; register it, or use one of "
            f"{', '.join(name for (name,) in known)}"
        )
