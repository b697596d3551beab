"""From raw tables to a network that can be simulated."""

import polars as pl
import pytest

from models.srift.allreduce_samples import AlphaBeta, Line
from models.srift.iteration import Configuration, ConfigurationGroup, Performance, step_time_s
from models.srift.profiles import NetworkTables, link_Bps, profile

BANDWIDTH = AlphaBeta(lines={"a": Line(hop_s=0.0, link_Bps=100.0)})


def links(*rows: tuple[str, int, int, int, float]) -> pl.DataFrame:
    names = ["direction", "flows", "flow", "trial", "bandwidth_Bps"]
    return pl.DataFrame(rows, schema=names, orient="row").with_columns(run_id=pl.lit("r"))


def tables(slow: float = 1.0, devices: int = 1, gradient_bytes: int = 600) -> NetworkTables:
    """Return a network of two layers that takes 1 s forward and 2 s backward per sample."""
    batches = (1, 2, 4, 8)
    return NetworkTables(
        compute=pl.DataFrame(
            {
                "batch_size": batches,
                "trial": [0] * 4,
                "forward_s": [slow * batch for batch in batches],
                "backward_s": [2 * slow * batch for batch in batches],
                "update_s": [None] * 4,
            },
            schema_overrides={"update_s": pl.Float64},
        ),
        layers=pl.DataFrame({"layer": [0, 1], "gradient_bytes": [gradient_bytes, 200]}),
        layer_times=pl.DataFrame(
            {
                "run_id": ["r"] * 2,
                "batch_size": [8] * 2,
                "trial": [0] * 2,
                "layer": [0, 1],
                "gradient_ready": [1.0, 0.5],
            }
        ),
        links=links(("downlink", 1, 0, 0, 100.0), ("uplink", 1, 0, 0, 120.0)),
        devices=devices,
    )


def test_what_was_fitted_can_be_simulated() -> None:
    """Two nodes: 200 bytes from 1 s, 600 from 2 s, over 100 B/s: the exchange ends at 9 s."""
    network = profile({"a": tables()})
    performance = Performance(network.layer_bytes, network.nodes, BANDWIDTH)
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
