"""The schema documents itself, and agrees with what probes land."""

from typing import Any

import duckdb
import pyarrow as pa
import pytest

from profilers.clusters.node_types import node_types
from warehouse.tables import SCHEMAS

TYPES = {
    pa.string(): {"VARCHAR", "JSON"},
    pa.timestamp("us", tz="UTC"): {"TIMESTAMP WITH TIME ZONE"},
    pa.float64(): {"DOUBLE"},
    pa.bool_(): {"BOOLEAN"},
    pa.int16(): {"SMALLINT"},
    pa.int32(): {"INTEGER"},
    pa.int64(): {"BIGINT"},
}


def test_every_table_view_and_column_has_a_comment(connection: duckdb.DuckDBPyConnection) -> None:
    bare = connection.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE comment IS NULL UNION ALL "
        "SELECT schema_name, view_name FROM duckdb_views() WHERE comment IS NULL AND NOT internal"
    ).fetchall()
    assert bare == []
    columns = connection.execute(
        "SELECT schema_name, table_name, column_name, comment FROM duckdb_columns() "
        "WHERE NOT internal AND schema_name != 'visible'"
    ).fetchall()
    assert len(columns) > 100
    assert [column[:3] for column in columns if not column[3]] == []


@pytest.mark.parametrize("schema", ["raw", "visible"])
def test_there_is_a_table_for_each_landed_one_with_its_columns_and_no_other(
    connection: duckdb.DuckDBPyConnection, schema: str
) -> None:
    columns: dict[str, list[list[Any]]] = {}
    for table, *column in connection.execute(
        "SELECT table_name, column_name, data_type, is_nullable FROM duckdb_columns() "
        "WHERE schema_name = ? ORDER BY table_name, column_index",
        [schema],
    ).fetchall():
        columns.setdefault(table, []).append(column)
    assert columns.keys() == SCHEMAS.keys()
    for table, fields in SCHEMAS.items():
        assert [name for name, _, _ in columns[table]] == fields.names
        for field, (_, kind, nullable) in zip(fields, columns[table], strict=True):
            assert kind in TYPES[field.type]
            assert schema == "visible" or field.nullable == nullable


def test_prices_are_of_known_node_types(connection: duckdb.DuckDBPyConnection) -> None:
    prices = "catalog.price ANTI JOIN catalog.node_type USING (provider, node_type)"
    unknown = connection.execute(f"SELECT DISTINCT paper FROM {prices}").fetchall()
    assert unknown == [("declared",)]


def test_declared_prices_are_those_of_the_emulated_node_types(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    declared = connection.execute(
        "SELECT node_type, usd_per_hour FROM catalog.price "
        "WHERE paper = 'declared' AND provider = 'emulated' AND market = 'on_demand'"
    ).fetchall()
    known = {name: kind.usd_per_hour for name, kind in node_types().items()}
    assert dict(declared) == {name: usd for name, usd in known.items() if usd is not None}
    assert {name for name, usd in known.items() if usd is not None} == {
        name for name in known if name.startswith("emu.")
    }


def test_spot_prices_agree_with_the_costs_srift_prints(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    """Case 3 of section 5.2 (4 p3.8xlarge, 8 g3.8xlarge, 8 g4dn.8xlarge): 381 s cost $2.74."""
    spot = dict(
        connection.execute(
            "SELECT node_type, usd_per_hour FROM catalog.price WHERE market = 'spot'"
        ).fetchall()
    )
    hourly = 4 * spot["p3.8xlarge"] + 8 * spot["g3.8xlarge"] + 8 * spot["g4dn.8xlarge"]
    figures = "SELECT quantity, value FROM catalog.paper_figure WHERE paper = 'srift' AND "
    printed = dict(
        connection.execute(
            f"{figures} place = 'section 5.2, case 3' AND subject = 'Srift''s configuration'"
        ).fetchall()
    )
    cost = hourly * printed["measured time"] / 3600
    assert cost == pytest.approx(printed["measured cost"], rel=0.01)


def test_figures_have_no_second_value(connection: duckdb.DuckDBPyConnection) -> None:
    twice = connection.execute(
        "SELECT paper, place, quantity, subject FROM catalog.paper_figure "
        "GROUP BY ALL HAVING count(*) > 1"
    ).fetchall()
    assert twice == []
    counts = connection.execute("SELECT DISTINCT paper FROM catalog.paper_figure").fetchall()
    assert {paper for (paper,) in counts} == {"async_sgd", "srift", "ceer", "predictddl"}
