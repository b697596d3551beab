"""From raw tables to a network that can be simulated."""

import polars as pl
import pytest

from models.srift.allreduce_samples import AlphaBeta, Line
from models.srift.iteration import Configuration, ConfigurationGroup, Performance, step_time_s
from models.srift.profiles import NetworkTables, link_Bps, profile
from tests.made_run import raw_table

BANDWIDTH = AlphaBeta(lines={"a": Line(hop_s=0.0, link_Bps=100.0)})


def links(*rows: tuple[str, int, int, int, float]) -> pl.DataFrame:
    columns = "run_id direction flows flow trial bandwidth_Bps"
    return raw_table("link", columns, [("r", *row) for row in rows])


NETWORK = NetworkTables(
    compute=raw_table(
        "compute",
        "batch_size trial forward_s backward_s update_s",
        [(batch, 0, 1.0 * batch, 2.0 * batch, None) for batch in (1, 2, 4, 8)],
    ),
    layers=raw_table("layer", "layer gradient_bytes", [(0, 600), (1, 200)]),
    layer_times=raw_table(
        "layer_time",
        "run_id batch_size trial layer gradient_ready",
        [("r", 8, 0, 0, 1.0), ("r", 8, 0, 1, 0.5)],
    ),
    links=links(("downlink", 1, 0, 0, 100.0), ("uplink", 1, 0, 0, 120.0)),
)
"""Of two layers, that takes 1 s forward and 2 s backward per sample."""


def test_what_was_fitted_can_be_simulated() -> None:
    """Two nodes: 200 bytes from 1 s, 600 from 2 s, over 100 B/s: the exchange ends at 9 s."""
    network = profile({"a": NETWORK})
    performance = Performance(
        layer_bytes=network.layer_bytes, nodes=network.nodes, bandwidth=BANDWIDTH
    )
    configuration = Configuration(
        groups=(ConfigurationGroup(node_type="a", count=2, batch_size=1),)
    )
    assert step_time_s(performance, configuration) == pytest.approx(1 + 9)
    assert network.nodes["a"].max_batch == 8


def test_the_link_s_capacity() -> None:
    """Two flows carry 90 + 30 and 80 + 40, more than one; the slower direction counts."""
    rows = links(
        ("downlink", 1, 0, 0, 100.0),
        ("downlink", 2, 0, 0, 90.0),
        ("downlink", 2, 1, 0, 30.0),
        ("downlink", 2, 0, 1, 80.0),
        ("downlink", 2, 1, 1, 40.0),
        ("uplink", 1, 0, 0, 110.0),
        ("uplink", 1, 0, 1, 130.0),
        ("uplink", 2, 0, 0, 30.0),
        ("uplink", 2, 1, 0, 30.0),
    )
    assert link_Bps(rows) == 120.0
    assert link_Bps(rows.filter(pl.col("direction") == "uplink", pl.col("flows") == 2)) == 60.0
