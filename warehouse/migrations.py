"""Migrations: the numbered SQL files that make and change the warehouse's schema."""

import hashlib
from pathlib import Path

import duckdb

from warehouse.connection import transaction
from warehouse.records import BadInput

SCHEMA = Path(__file__).parent / "schema"


def migrate(connection: duckdb.DuckDBPyConnection, folder: Path = SCHEMA) -> None:
    """Apply the migrations that the database lacks, each in a transaction of its own.

    Raises:
        BadInput: the database was made by newer code, or by other files of the same numbers.
    """
    applied = _applied(connection)
    files = {int(file.name[:4]): file for file in sorted(folder.glob("[0-9][0-9][0-9][0-9]_*.sql"))}
    newest = max(applied, default=0)
    if newest > max(files):
        raise BadInput(
            f"the warehouse has schema version {newest} but this Stepcast knows versions up to "
            f"{max(files)}; update Stepcast or choose another STEPCAST_HOME"
        )
    connection.execute("SET VARIABLE schema_folder = ?", [str(folder)])
    for version, file in files.items():
        digest = _digest(file)
        if version not in applied:
            with transaction(connection):
                connection.execute(file.read_text())
                connection.execute(
                    "INSERT INTO meta.migration VALUES (?, ?, ?, now())",
                    [version, file.name, digest],
                )
        elif applied[version] != digest:
            raise BadInput(
                f"the warehouse was made by another edition of {file.name}; move warehouse.duckdb "
                "away and load the landing folder again"
            )
    if set(files) - set(applied):
        _explain_visible(connection)


def _digest(file: Path) -> str:
    """Return the SHA-256 of a migration and of the CSV files of its number, which it reads."""
    parts = (file, *sorted(file.parent.glob(f"{file.name[:4]}_*.csv")))
    return hashlib.sha256(b"".join(part.read_bytes() for part in parts)).hexdigest()


def _explain_visible(connection: duckdb.DuckDBPyConnection) -> None:
    """Give the columns of `visible` views the comments of the raw tables they show."""
    bare = connection.execute(
        "SELECT table_name, column_name, raw.comment FROM duckdb_columns() AS raw "
        "JOIN duckdb_columns() AS seen USING (table_name, column_name) "
        "WHERE raw.schema_name = 'raw' AND seen.schema_name = 'visible' "
        "AND seen.comment IS DISTINCT FROM raw.comment"
    ).fetchall()
    for table, column, comment in bare:
        text = comment.replace("'", "''")
        connection.execute(f'COMMENT ON COLUMN visible."{table}"."{column}" IS \'{text}\'')


def _applied(connection: duckdb.DuckDBPyConnection) -> dict[int, str]:
    known = connection.execute(
        "SELECT 1 FROM duckdb_tables() WHERE schema_name = 'meta' AND table_name = 'migration'"
    ).fetchone()
    if not known:
        return {}
    return dict(connection.execute("SELECT version, sha256 FROM meta.migration").fetchall())
