"""A step reads 3 ms, receives 20 kB, computes 0.307 s, sends 10 kB, applies 10 ms.

On links of 100 kB/s that is 0.2 + 0.1 s of transfer. Their records are longer by the 50 and 30 ms
that worker and server parse. Then the client pauses 80 ms: 0.78 s.
"""

from dataclasses import replace
from typing import Literal

import polars as pl
import pytest

from models.async_sgd.predictor import AsyncSGD, Settings, fit
from models.async_sgd.synthetic_trace import steps_per_s
from models.async_sgd.systems import OneServer
from tests.made_run import raw_table
from tests.models.async_sgd.frames import CHAIN_STEP, COMPUTE, UPLOAD, Tables, chain, tables
from tests.models.runs import links, raw_tables, scenario
from warehouse.records import BadInput, Scenario

SPEED_BPS = 100e3
QUICK = Settings(warm_up_steps=10, simulated_operations=20_000, seeds=3, model_error=0)
EQUAL_SHARES = QUICK.model_copy(update={"newcomer_weight": 1.0})


def fitted(
    made: Tables | None = None,
    settings: Settings = QUICK,
    client_gap_s: float = 0.08,
    shared_Bps: tuple[float, ...] = (1.0, 1.0),
    other_link: pl.DataFrame | None = None,
    contention: pl.DataFrame | None = None,
    profiled: Scenario | None = None,
) -> AsyncSGD:
    probed = links([SPEED_BPS - 5e3, SPEED_BPS + 5e3], [SPEED_BPS], shared_Bps)
    more = {"link": probed if other_link is None else pl.concat([probed, other_link])}
    if contention is not None:
        more["contention"] = contention
    metrics = {"client_gap_s": [client_gap_s]}
    return fit(raw_tables(made or chain(), metrics, profiled, **more), settings)


def test_a_simulation_is_the_one_behind_the_prediction() -> None:
    model, case = fitted(chain()), scenario(2)
    (group,) = model.simulation(case, 1)
    traces = [model.simulated(case, seed, steps=group.options.steps) for seed in range(3)]
    values = [steps_per_s(trace, 10) for trace in traces]
    assert model.predict([case])["value"].item() == pytest.approx(sum(values) / 3)


def varied(steps: int = 20) -> Tables:
    """Return the chain with computing times from 300 to 680 ms."""
    return tables(
        [
            ("ps", None),
            ("ps", None),
            ("downlink", 20_000),
            ("worker", None),
            ("worker", None),
            ("uplink", 10_000),
            ("ps", None),
        ],
        [(i, i + 1) for i in range(6)],
        [
            {
                **CHAIN_STEP,
                COMPUTE: (260_000, 300_000 + 20_000 * i),
                UPLOAD: (560_000 + 20_000 * i, 130_000),
                6: (690_000 + 20_000 * i, 10_000),
            }
            for i in range(steps)
        ],
    )


def value(model: AsyncSGD, case: Scenario) -> float:
    return float(model.predict([case])["value"][0])


def test_the_interval_knows_how_wrong_the_model_has_been() -> None:
    """Equal steps have no spread: 1.645 times 8 % to either side is what 90 % need."""
    model = fitted(settings=QUICK.model_copy(update={"model_error": 0.08}))
    _, predicted, low, high = model.predict([scenario()]).row(0)
    assert (low / predicted, high / predicted) == pytest.approx((1 - 0.1316, 1 + 0.1316), abs=1e-3)


def test_the_tracer_s_cost_is_not_predicted() -> None:
    """Untraced steps of 0.66 s: the traced ones' operations end after 0.7 s, 40 ms too late.

    Nothing is left for the client's own time, so 0.66 s is the whole step.
    """
    model = fitted(chain(untraced_us=[650_000, 670_000]), client_gap_s=0.0)
    assert value(model, scenario()) == pytest.approx(1 / 0.66, rel=1e-3)


def test_many_workers_get_the_bandwidth() -> None:
    """They fill the downlink; equal ones that share equally stay in phase: one link at a time."""
    full = SPEED_BPS / 20_000
    # Steps at the borders of what is counted count by their time inside, not by bytes.
    assert 0.9 * full < value(fitted(varied()), scenario(12)) < 1.001 * full
    in_phase_s = 12 * 0.2 + 0.05 + 0.307 + 12 * 0.1 + 0.03 + 0.013 + 0.08
    equal = fitted(settings=EQUAL_SHARES)
    assert value(equal, scenario(12)) == pytest.approx(12 / in_phase_s, rel=5e-3)


def test_another_link_needs_its_own_measurement() -> None:
    """Ten times the bandwidth leaves 0.03 s of transfer, and parsing as it was: 0.51 s per step."""
    faster = scenario(link_mbps=8.0)
    with pytest.raises(BadInput, match=r"no link of 8\.0 Mb/s was measured, only 0\.8"):
        fitted().predict([faster])
    model = fitted(other_link=links([1e6], [1e6], run_id="links-2"))
    assert value(model, faster) == pytest.approx(1 / 0.51, rel=1e-3)
    assert value(model, scenario()) == pytest.approx(1 / 0.78, rel=1e-3)


def two_downloads() -> Tables:
    """Return a run that asks for 30 kB first, then for 10 kB that 0.5 s of computing wait for."""
    return tables(
        [("downlink", 30_000), ("downlink", 10_000), ("worker", None)],
        [(1, 2)],
        [{0: (0, 300_000), 1: (1, 400_000), 2: (400_001, 500_000)}],
    )


def test_the_window_counts_where_there_is_flow_control() -> None:
    """Whole: 0.3 + 0.1 + 0.5 s. With 10 kB first services: 0.1 + 0.1 + 0.5 s."""
    model = fitted(two_downloads(), settings=QUICK.model_copy(update={"window_bytes": 10_000}))
    assert value(model, scenario(flow_control=False)) == pytest.approx(1 / 0.98, rel=1e-3)
    assert value(model, scenario()) == pytest.approx(1 / 0.78, rel=1e-3)
    assert value(fitted(two_downloads()), scenario()) == pytest.approx(1 / 0.98, rel=1e-3)


def test_an_order_changes_what_is_received_first() -> None:
    """By TIC, what computing waits for goes first: 0.1 + 0.1 + 0.5 s.

    The 10 kB find the link idle and go at once.
    """
    made = tables(
        [*[("downlink", size) for size in (10_000, 30_000, 5_000, 5_000)], ("worker", None)],
        [(2, 4), (3, 4)],
        [
            {
                0: (0, 100_000),
                1: (1, 400_000),
                2: (1, 450_000),
                3: (1, 500_000),
                4: (500_001, 500_000),
            }
        ],
    )
    assert value(fitted(made), scenario(order="tic")) == pytest.approx(1 / 0.78, rel=1e-3)


def probed(newest: int) -> pl.DataFrame:
    """Return table contention: of two transfers, what the newer one gets and what is left."""
    rows = [
        ("links-1", direction, 2, place, 1.0, carried, 0)
        for direction in ("downlink", "uplink")
        for place, carried in enumerate((int(SPEED_BPS) - newest, newest))
    ]
    columns = "run_id direction flows place seconds bytes opposite"
    return raw_table("contention", columns, rows)


def test_transfers_the_other_way_cost_throughput() -> None:
    """Uploads of one while the other downloads take twice as long: 0.2 s instead of 0.1."""
    seen = probed(50_000)
    single = seen.filter(pl.col("place") == 0, pl.col("direction") == "uplink")
    single = single.with_columns(flows=pl.lit(1, pl.Int16), opposite=pl.lit(1, pl.Int16))
    slowed, unhindered = fitted(contention=pl.concat([seen, single])), fitted(contention=seen)
    (link,) = slowed.parameters.links
    assert link.uplink_measured is not None
    assert link.uplink_measured.opposed == pytest.approx((1.0, 0.5))
    assert value(slowed, scenario()) == value(unhindered, scenario())
    assert value(slowed, scenario(3)) < 0.97 * value(unhindered, scenario(3))


def two_servers(first_us: int = 400_000) -> Tables:
    """Return a run that receives 20 kB of either server at once, and then computes 0.1 s.

    Each has half of the worker's 100 kB/s: 0.4 s. The variables read take no time.
    """
    made = tables(
        [("ps", None), ("ps", None), ("downlink", 20_000), ("downlink", 20_000), ("worker", None)],
        [(0, 2), (1, 3), (2, 4), (3, 4)],
        [{0: (0, 0), 1: (0, 0), 2: (0, first_us), 3: (0, 400_000), 4: (400_000, 100_000)}],
    )
    placed = pl.when(pl.col("operation").is_in([1, 3])).then(1).otherwise(pl.col("server"))
    return replace(made, operations=made.operations.with_columns(server=placed))


@pytest.mark.parametrize("rule", ["max_min", "two_servers"])
def test_as_many_servers_as_were_profiled(rule: Literal["max_min", "two_servers"]) -> None:
    """One worker repeats its 0.5 s + 0.08 s; of 12, each server's link carries 12 x 20 kB."""
    settings = EQUAL_SHARES.model_copy(update={"several_servers": rule})
    model = fitted(two_servers(), settings, profiled=scenario(servers=2))
    assert value(model, scenario(servers=2)) == pytest.approx(1 / 0.58, rel=1e-3)
    many = value(model, scenario(12, servers=2))
    assert many == pytest.approx(12 / (12 * 0.2 + 0.1 + 0.08), rel=1e-3)


def test_variables_of_one_server_on_two() -> None:
    """One server sends 20 kB after 20 kB, 0.4 s in all; two send at once, by halves: the same.

    Of twelve workers, one server sends 12 x 40 kB and each of two 12 x 20 kB in a step.
    """
    kinds = pl.when(pl.col("operation") < 2).then(pl.lit("VariableV2")).otherwise(pl.lit("_"))
    made = two_servers(first_us=200_000)
    one_server = made.operations.with_columns(type=kinds, server=pl.col("server") * 0)
    made = replace(made, operations=one_server)
    model = fitted(made, EQUAL_SHARES)
    two = model.with_servers(2, "round_robin", made.operations)
    assert value(model, scenario()) == pytest.approx(1 / 0.58, rel=1e-3)
    assert value(two, scenario(servers=2)) == pytest.approx(1 / 0.58, rel=1e-3)
    assert value(model, scenario(12)) == pytest.approx(12 / (12 * 0.4 + 0.18), rel=1e-3)
    assert value(two, scenario(12, servers=2)) == pytest.approx(12 / (12 * 0.2 + 0.18), rel=1e-3)
    assert AsyncSGD.from_json(two.parameters_json(), made.raw) == two


def two_variables() -> Tables:
    """Return steps of 20 kB and 20 kB received, 0.1 s computed: 0.5 s with one server."""
    made = tables(
        [*[("ps", None)] * 4, ("downlink", 20_000), ("downlink", 20_000), ("worker", None)],
        [(0, 2), (1, 3), (2, 4), (3, 5), (4, 6), (5, 6)],
        [
            {
                **dict.fromkeys(range(4), (0, 1)),
                4: (0, 200_000),
                5: (0, 400_000),
                6: (400_000, 100_000),
            }
        ]
        * 4,
    )
    kinds = pl.when(pl.col("operation") < 2).then(pl.lit("VariableV2")).otherwise(pl.lit("_"))
    return replace(made, operations=made.operations.with_columns(type=kinds))


def model() -> OneServer:
    made = two_variables()
    return OneServer(fit(raw_tables(made, {"client_gap_s": [0.0]}), QUICK), made.operations)


def test_each_of_two_servers_sends_half_to_many_workers() -> None:
    predicted = model().predict(
        [scenario(8, servers=2), scenario(8, servers=2, placement="greedy")]
    )
    assert predicted["value"].to_list() == pytest.approx([8 / (8 * 0.2)] * 2, rel=0.1)


def test_cross_traffic_leaves_the_rest_of_the_link() -> None:
    """Twelve in lock-step share 0.2 s down and 0.1 s up; half of the links doubles both."""
    beside = scenario(12).model_copy(update={"cross_traffic": 0.5})
    model = fitted(settings=EQUAL_SHARES)
    assert value(model, scenario(12)) == pytest.approx(12 / (12 * 0.3 + 0.48), rel=1e-3)
    assert value(model, beside) == pytest.approx(12 / (12 * 0.6 + 0.48), rel=1e-3)
