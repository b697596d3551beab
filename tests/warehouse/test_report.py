"""What the report views say, against figures worked out by hand."""

from typing import Any, get_args

import duckdb
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.made_run import judgement
from tests.warehouse.conftest import Maker, at
from warehouse.records import (
    Compiled,
    MemoryFormat,
    Optimizer,
    Precision,
    Scenario,
    Strategy,
    StrategyKind,
    TrainingWorkload,
)

METRIC = "throughput_steps_per_s"


def noise(make: Maker) -> pl.DataFrame:
    make.warehouse.load()
    rows = make.rows("SELECT * FROM report.noise ORDER BY scenario_id")
    return rows.filter(pl.col("metric") == METRIC)


def columns_of(connection: duckdb.DuckDBPyConnection, scenario: Scenario) -> dict[str, Any]:
    row = ["r1", scenario.scenario_id, scenario.canonical_json()]
    connection.execute("DELETE FROM raw.scenario")
    connection.execute("INSERT INTO raw.scenario VALUES (?, ?, ?)", row)
    return connection.execute("FROM report.scenario").pl().to_dicts()[0]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    link=st.none() | st.floats(1e-3, 1e7),
    workers=st.integers(1, 64),
    servers=st.integers(1, 3),
    placement=st.sampled_from(["round_robin", "greedy"]),
    order=st.sampled_from(["framework", "tic"]),
    others=st.sampled_from([None, 0.1, 0.3]),
)
def test_a_scenario_in_columns_says_what_the_record_says(
    fresh: Maker,
    connection: duckdb.DuckDBPyConnection,
    link: float | None,
    workers: int,
    servers: int,
    placement: str,
    order: str,
    others: float | None,
) -> None:
    chosen = {"servers": servers, "placement": placement, "order": order}
    plain = fresh.scenario(workers)
    strategy = plain.strategy.model_copy(update=chosen)
    shaped = {"link_mbps": link, "cross_traffic": others if link else None, "strategy": strategy}
    scenario = plain.model_copy(update=shaped)
    assert columns_of(connection, scenario) == {
        "scenario_id": scenario.scenario_id,
        "dnn": "cnn",
        "framework": "tensorflow",
        "image_size": 64,
        "batch_size": 8,
        "strategy": "async_parameter_server",
        "workers": workers,
        "servers": servers,
        "devices_per_node": 1,
        "placement": placement,
        "transfer_order": order,
        "worker_node_type": "emu.avx2.1c",
        "worker_mix": f"{workers} emu.avx2.1c",
        "link_mbps": link,
        "cross_traffic": scenario.cross_traffic,
        "precision": "float32",
        "optimizer": "sgd",
        "accumulate": 1,
        "memory_format": "contiguous",
        "compiled": None,
        "sequence_length": None,
        "recipe": "",
        "label": scenario.label,
    }


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    precision=st.sampled_from(get_args(Precision)),
    optimizer=st.sampled_from(get_args(Optimizer)),
    accumulate=st.integers(1, 3),
    memory_format=st.sampled_from(get_args(MemoryFormat)),
    compiled=st.sampled_from(get_args(Compiled)),
    sequence_length=st.none() | st.integers(1, 4096),
    kind=st.sampled_from(["single", "all_reduce"]),
)
def test_how_a_network_is_trained_is_in_columns(
    fresh: Maker, connection: duckdb.DuckDBPyConnection, kind: StrategyKind, **recipe: Any
) -> None:
    load = TrainingWorkload(dnn="bert", framework="pytorch", image_size=0, batch_size=8, **recipe)
    scenario = Scenario(
        workload=load, strategy=Strategy(kind=kind, workers=1), nodes=fresh.scenario(1).nodes[:1]
    )
    columns = columns_of(connection, scenario)
    told = {**recipe, "compiled": recipe["compiled"] or None}
    assert {name: columns[name] for name in recipe} == told
    assert (columns["strategy"], columns["recipe"]) == (kind, load.recipe)
    assert columns["label"] == scenario.label


def test_mixed_workers_are_named_together(make: Maker) -> None:
    base, (worker, server) = make.scenario(1), make.scenario(1).nodes
    other = worker.model_copy(update={"node_type": "emu.a", "count": 2})
    more = worker.model_copy(update={"cpu_share": 0.5, "count": 3})
    strategy = base.strategy.model_copy(update={"workers": 6})
    mixed = Scenario(workload=base.workload, strategy=strategy, nodes=(worker, server, other, more))
    make.land(make.run("r1", mixed, "profile"), mixed)
    make.warehouse.load()
    row = make.rows("FROM report.scenario").to_dicts()[0]
    assert row["worker_node_type"] == "emu.a+emu.avx2.1c"
    assert row["worker_mix"] == "2 emu.a + 4 emu.avx2.1c"
    assert row["label"] == mixed.label
    assert mixed.label.endswith("W=6 (2 emu.a + 4 emu.avx2.1c)")


def test_a_measured_value_is_the_mean_of_its_windows(make: Maker) -> None:
    scenario = make.scenario(2)
    make.measure("m1", scenario, [2.0, 3.0], minute=5, idle=0.4)
    make.measure("m2", scenario, [4.0], minute=6)
    make.profile("p1", scenario)
    whole = {"metric": METRIC, "unit": "1/s", "window": None, "value": 9.0}
    extra = pl.DataFrame([whole, whole | {"window": 1, "value": 5.0}])
    make.land(make.run("m3", scenario, "measurement", minute=7), scenario, {"sample": extra})
    alone = pl.DataFrame([whole])
    make.land(make.run("m4", scenario, "measurement", minute=8), scenario, {"sample": alone})
    failed = make.run("m5", scenario, "measurement").model_copy(update={"status": "failed"})
    make.land(failed, scenario, {"sample": alone})
    make.warehouse.load()
    rows = make.rows(
        f"SELECT run_id, value, spread_percent, n_windows, idle_cpu_fraction FROM report.measured "
        f"WHERE metric = '{METRIC}' ORDER BY run_id"
    )
    assert rows.rows() == [
        ("m1", 2.5, 40.0, 2, 0.4),
        ("m2", 4.0, None, 1, 0.5),
        ("m3", 5.0, None, 1, None),
        ("m4", 9.0, None, 0, None),
    ]


def test_the_noise_floor_forecasts_each_run_by_other_rounds(make: Maker) -> None:
    scenario = make.scenario(2)
    make.measure("a", scenario, [2.0], minute=5, repeat=1)
    make.measure("b", scenario, [2.5], minute=6, repeat=2)
    make.measure("c", scenario, [4.0], minute=7, repeat=3)
    # a: 3.25 for 2 = 62.5 %; b: 3 for 2.5 = 20 %; c: 2.25 for 4 = 43.75 %
    (row,) = noise(make).to_dicts()
    assert row["noise_floor_percent"] == pytest.approx((62.5 + 20 + 43.75) / 3)
    assert row["noise_runs"] == 3


def test_runs_of_one_round_are_no_repeats(make: Maker) -> None:
    alone, scenario = make.scenario(1), make.scenario(2)
    make.measure("x", alone, [2.0], minute=5)
    make.measure("a", scenario, [2.0], minute=5, repeat=1)
    make.measure("b", scenario, [2.2], minute=6, repeat=1)
    rows = noise(make)
    assert rows.select("noise_floor_percent", "noise_runs").rows() == [(None, 0), (None, 0)]
    make.measure("c", scenario, [2.0], minute=7, repeat=1, study="another")
    make.measure("d", alone, [9.0], minute=8, repeat=2, host_id="host-2")
    assert noise(make)["noise_floor_percent"].null_count() == 2
    rows = noise(make).filter(scenario_id=scenario.scenario_id)
    # a: 2 for 2 = 0; b: 2 for 2.2 = 9.0909 %; c: 2.1 for 2 = 5 %
    assert rows["noise_floor_percent"].to_list() == [pytest.approx((0.2 / 2.2 * 100 + 5) / 3)]
    assert rows["noise_runs"].to_list() == [3]


@pytest.mark.parametrize(
    ("of_run", "of_alarm", "is_stale"),
    [
        ({}, {}, True),
        ({}, {"node_type": "emu.server"}, True),
        ({}, {"confirmed": False}, False),
        ({}, {"alarm": False, "confirmed": None}, False),
        ({}, {"node_type": "emu.sse41.1c"}, False),
        ({"host_id": "host-2"}, {}, False),
        ({"backend": "loopback"}, {}, False),
        ({"started_at": at(11)}, {}, False),
        ({"status": "failed"}, {}, False),
    ],
)
def test_a_profile_is_stale_after_a_confirmed_alarm_of_its_nodes(
    make: Maker, of_run: dict[str, object], of_alarm: dict[str, object], is_stale: bool
) -> None:
    """Not runs elsewhere, those since then, and those that no predictor sees."""
    run = make.run("before", make.scenario(1), "profile").model_copy(update=of_run)
    make.land(run, make.scenario(1))
    make.land(make.run("judges", make.scenario(1), "measurement"), make.scenario(1))
    _raise_alarm(make, 10, **of_alarm)
    make.warehouse.load()
    stale = make.rows("SELECT run_id, stale_since FROM report.stale_run")
    assert stale.rows() == ([("before", at(10))] if is_stale else [])


def test_a_profile_is_stale_since_the_first_alarm_after_it(make: Maker) -> None:
    make.profile("before", make.scenario(1))
    for minute in (20, 10):
        _raise_alarm(make, minute)
    run = make.run("between", None, "profile", minute=15, study="fleet.emu.avx2.1c")
    make.land(run, None)
    make.warehouse.load()
    rows = make.rows("SELECT run_id, stale_since FROM report.stale_run ORDER BY run_id").rows()
    assert rows == [("before", at(10)), ("between", at(20))]


def test_links_are_of_the_types_of_their_round(make: Maker) -> None:
    """Where a run about links names none, as it did once; another round's are no matter."""
    for repeat, node_type in ((1, "emu.avx2.1c"), (2, "emu.sse41.1c")):
        links = make.run(f"links-{repeat}", None, "profile", repeat=repeat)
        make.land(links.model_copy(update={"probe": "links"}), None)
        scenario = make.scenario(1, node_type=node_type)
        make.land(make.run(f"trace-{repeat}", scenario, "profile", repeat=repeat), scenario)
    _raise_alarm(make, 10)
    make.warehouse.load()
    rows = make.rows("SELECT run_id FROM report.stale_run ORDER BY run_id")
    assert rows["run_id"].to_list() == ["links-1", "trace-1"]


@pytest.mark.parametrize(
    ("between", "is_stale"),
    [("emu.avx2.1c + emu.sse41.1c", True), ("emu.avx2.1c", True), ("emu.sse41.1c", False)],
)
def test_links_that_name_their_types_are_of_no_others(
    make: Maker, between: str, is_stale: bool
) -> None:
    links = make.run("links", None, "profile")
    config = {**links.config, "between": between}
    make.land(links.model_copy(update={"probe": "links", "config": config}), None)
    make.profile("trace", make.scenario(1))
    _raise_alarm(make, 10)
    make.warehouse.load()
    stale = make.rows("SELECT run_id FROM report.stale_run")["run_id"].to_list()
    assert ("links" in stale, "trace" in stale) == (is_stale, True)


def _raise_alarm(make: Maker, minute: float, **changed: object) -> None:
    """Land a probe and its judge, who says that steps take half as long again."""
    study = "watch.emu.avx2.1c"
    probe = make.run(f"watch-{minute}", None, "profile", minute=minute, study=study)
    judge = make.run(f"judge-{minute}", None, "profile", minute=minute + 1, study=study)
    make.land(probe.model_copy(update={"probe": "watch"}), None)
    make.land(
        judge.model_copy(update={"probe": "drift"}),
        None,
        {"judgement": judgement(watched=probe.run_id, **changed)},
    )
