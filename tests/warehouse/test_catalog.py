"""What the papers publish, as the warehouse has it."""

import duckdb
import pytest

from profilers.clusters.node_types import node_types


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


def test_on_demand_prices_are_those_of_ceer(connection: duckdb.DuckDBPyConnection) -> None:
    prices = connection.execute(
        "SELECT node_type, usd_per_hour FROM catalog.price "
        "WHERE market = 'on_demand' AND paper = 'ceer'"
    ).fetchall()
    assert dict(prices) == {
        "p3.2xlarge": 3.06,
        "p2.xlarge": 0.90,
        "g4dn.2xlarge": 0.752,
        "g3s.xlarge": 0.75,
        "p3.8xlarge": 12.24,
        "p2.8xlarge": 7.20,
        "g4dn.12xlarge": 3.912,
        "g3.16xlarge": 4.56,
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
