"""What cannot be, or should not be, is told in one line for each offence."""

import polars as pl
import pytest

from forecasting.sanity import (
    disturbed_windows,
    impossible,
    link_bounds,
    odd_links,
    odd_traces,
    superlinear,
    uncaptured,
)


def links(*mbps: float, flows: int = 1) -> pl.DataFrame:
    """Return one downlink trial for each total goodput, divided evenly among flows."""
    return pl.DataFrame(
        [
            ("downlink", flows, flow, trial, total * 125_000 / flows)
            for trial, total in enumerate(mbps)
            for flow in range(flows)
        ],
        schema=["direction", "flows", "flow", "trial", "bandwidth_Bps"],
        orient="row",
    )


@pytest.mark.parametrize("flows", [1, 4])
def test_goodput_is_near_the_shaped_speed(flows: int) -> None:
    assert odd_links(links(101, 191, 209, flows=flows), 200) == []
    slow, fast = odd_links(links(99, 191, 211, flows=flows), 200)
    assert slow == f"downlink, {flows} flow(s), trial 1: 99 Mb/s on a link shaped to 200 Mb/s"
    assert fast == f"downlink, {flows} flow(s), trial 3: 211 Mb/s on a link shaped to 200 Mb/s"


def trace(lost: int = 0, resources: str = "downlink worker uplink") -> list[str]:
    """Judge a trace of 4 steps, of which the first `lost` lack an operation."""
    names = resources.split()
    operations = pl.DataFrame({"operation": range(len(names)), "resource": names})
    timings = pl.DataFrame(
        [
            (step, operation)
            for step in range(4)
            for operation in range(len(names))
            if step >= lost or operation
        ],
        schema=["step", "operation"],
        orient="row",
    )
    return odd_traces(operations, timings)


def test_a_trace_of_steps_that_differ_is_odd() -> None:
    assert trace(lost=2) == ["only 2 of 4 traced steps have all 3 operations"]


@pytest.mark.parametrize("gone", ["downlink", "uplink"])
def test_a_trace_without_transfers_is_odd(gone: str) -> None:
    assert trace(resources="downlink worker uplink".replace(gone, "")) == [f"no {gone} transfer"]


def test_disturbed_windows_are_told() -> None:
    samples = pl.DataFrame(
        {
            "name": ["measure a"] * 5,
            "metric": ["idle_cpu_fraction"] * 2
            + ["throughput_steps_per_s"]
            + ["stolen_cpu_fraction"] * 2,
            "window": [0, 1, 0, 0, 1],
            "value": [0.2, 0.19, 0.1, 0.03, 0.02],
        }
    )
    assert disturbed_windows(samples) == [
        "measure a, window 2: 19 % idle",
        "measure a, window 1: 3 % stolen",
    ]


def test_the_bound_is_the_fuller_direction_of_a_single_flow() -> None:
    operations = pl.DataFrame(
        {
            "curve": [0, 0, 0, 0, 1, 1],
            "link_mbps": [200.0, 200.0, 200.0, 200.0, None, None],
            "resource": ["downlink", "downlink", "uplink", "worker", "downlink", "uplink"],
            "server": [0, 0, 0, None, 0, 0],
            "size_bytes": [6, 4, 5, None, 50, 100],
        },
        schema_overrides={"curve": pl.Int32},
    )
    speeds = pl.DataFrame(
        {
            "link_mbps": [200.0, 200.0, 200.0, 200.0, None, None],
            "direction": ["downlink", "downlink", "downlink", "uplink", "downlink", "uplink"],
            "flows": [1, 1, 2, 1, 1, 1],
            "bandwidth_Bps": [90.0, 110.0, 1.0, 45.0, 1000.0, 1000.0],
        }
    )
    assert link_bounds(operations, speeds) == {0: 9.0, 1: 10.0}


def test_each_server_has_its_own_link() -> None:
    operations = pl.DataFrame(
        {"curve": [0, 0], "link_mbps": [200.0] * 2, "server": [0, 1], "size_bytes": [10, 30]}
    ).with_columns(resource=pl.lit("downlink"))
    speeds = links(8e-6 * 90).with_columns(link_mbps=200.0)
    assert link_bounds(operations, speeds) == {0: pytest.approx(3.0)}


def test_predictions_above_their_bounds_are_told() -> None:
    forecast = pl.DataFrame(
        {"curve": [0, 0], "label": ["a", "b"], "predicted": [10.4, 10.6], "linear": [10.0, 10.0]}
    )
    assert impossible(forecast, {0: 10.0}) == [
        "b: 10.60 steps/s predicted, the links carry at most 10.50"
    ]
    assert superlinear(forecast) == [
        "b: 10.60 steps/s predicted, linear scaling gives at most 10.50"
    ]


def test_captures_hold_nearly_every_transfer() -> None:
    samples = pl.DataFrame(
        [("a", "captured_fraction", 0.94), ("b", "captured_fraction", 0.96), ("c", "other", 0.1)],
        schema=["name", "metric", "value"],
        orient="row",
    )
    assert uncaptured(samples) == ["a: packets of 94 % of the transfers"]
