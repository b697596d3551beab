"""The registry of systems: every name that predicts, what it is and where it comes from.

The names of the published systems and of the baselines beside them are registered with the schema
(schema/0009_system.csv); anybody's own predictor registers before its first fit.
"""

from collections.abc import Iterable

import duckdb
import pyarrow as pa
from pydantic import Field

from warehouse import journal
from warehouse.records import BadInput, Record


class System(Record):
    """A performance model: its name, one line saying what it is, and its source."""

    name: str = Field(pattern="^[a-z][a-z0-9_]*$")
    what: str = Field(min_length=1)
    source: str = Field(min_length=1)


def register(connection: duckdb.DuckDBPyConnection, system: System) -> None:
    """Register a system, unless its name is there already: the text is the first registration's."""
    if not is_registered(connection, system.name):
        with journal.entry(connection) as entry:
            entry.insert("pred.system", pa.Table.from_pylist([system.model_dump()]))


def is_registered(connection: duckdb.DuckDBPyConnection, name: str) -> bool:
    """Tell whether a system of that name is registered."""
    found = connection.execute("SELECT 1 FROM pred.system WHERE name = ?", [name]).fetchone()
    return found is not None


def check_registered(connection: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
    """Refuse names of systems that are not registered.

    Raises:
        BadInput: naming one, and those that are.
    """
    known = connection.execute("SELECT name FROM pred.system ORDER BY name").fetchall()
    unknown = sorted(set(names) - {name for (name,) in known})
    if unknown:
        raise BadInput(
            f"system {unknown[0]!r} is not registered; register it, or use one of "
            f"{', '.join(name for (name,) in known)}"
        )
