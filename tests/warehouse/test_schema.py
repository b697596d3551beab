"""The schema documents itself, and agrees with what probes land."""

import duckdb
import pyarrow as pa
import pytest

from warehouse.landing import SCHEMAS

TYPES = {
    pa.string(): {"VARCHAR", "JSON"},
    pa.timestamp("us", tz="UTC"): {"TIMESTAMP WITH TIME ZONE"},
    pa.float64(): {"DOUBLE"},
    pa.bool_(): {"BOOLEAN"},
    pa.int16(): {"SMALLINT"},
    pa.int32(): {"INTEGER"},
    pa.int64(): {"BIGINT"},
}


def test_every_table_and_view_has_a_comment(connection: duckdb.DuckDBPyConnection) -> None:
    bare = connection.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE comment IS NULL UNION ALL "
        "SELECT schema_name, view_name FROM duckdb_views() WHERE comment IS NULL AND NOT internal"
    ).fetchall()
    assert bare == []


def test_every_column_has_a_comment(connection: duckdb.DuckDBPyConnection) -> None:
    columns = connection.execute(
        "SELECT schema_name, table_name, column_name, comment FROM duckdb_columns() "
        "WHERE NOT internal"
    ).fetchall()
    assert len(columns) > 100
    assert [column[:3] for column in columns if not column[3]] == []


@pytest.mark.parametrize("schema", ["raw", "visible"])
def test_there_is_a_table_for_each_landed_one_and_no_other(
    connection: duckdb.DuckDBPyConnection, schema: str
) -> None:
    tables = connection.execute(
        "SELECT DISTINCT table_name FROM duckdb_columns() WHERE schema_name = ?", [schema]
    ).fetchall()
    assert {name for (name,) in tables} == set(SCHEMAS)


@pytest.mark.parametrize("table", SCHEMAS)
def test_raw_and_visible_tables_have_the_landed_columns(
    connection: duckdb.DuckDBPyConnection, table: str
) -> None:
    for schema in ("raw", "visible"):
        columns = connection.execute(
            "SELECT column_name, data_type, is_nullable FROM duckdb_columns() "
            "WHERE schema_name = ? AND table_name = ? ORDER BY column_index",
            [schema, table],
        ).fetchall()
        assert [name for name, _, _ in columns] == SCHEMAS[table].names
        for field, (_, kind, nullable) in zip(SCHEMAS[table], columns, strict=True):
            assert kind in TYPES[field.type]
            assert schema == "visible" or field.nullable == nullable
