import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.made_run import all_reduce, raw_table, worker_nodes
from tests.warehouse.conftest import Built, Maker, at
from tests.warehouse.story import tell
from warehouse.history import PublishedHistory
from warehouse.records import BadInput
from warehouse.warehouse import QUERIES, Warehouse, run_query

FILES = sorted(QUERIES.glob("*.sql"))
STEPS = {
    ("emu.avx2.c15", 1): [1.0],
    ("emu.avx2.c15", 2): [1.0, 1.5],
    ("emu.avx512.c15", 2): [0.5],
    ("emu.sse41.c15", 2): [1.0],
}
"""Seconds of synchronous steps of 8 images per node, one for each run, by node type and nodes."""
HOURLY_USD = {"emu.avx2.c15": 0.028, "emu.avx512.c15": 0.037, "emu.sse41.c15": 0.016}
"""As the catalogue declares them."""


def synchronous(make: Maker) -> None:
    """Land synchronous steps; one node with twice the batch comes last."""
    for (node_type, workers), times in STEPS.items():
        for repeat, step_s in enumerate(times, start=1):
            step(make, node_type, workers, 8, step_s, repeat)
    step(make, "emu.avx2.c15", 1, 16, 1.25, 1)
    make.warehouse.load()


def step(
    make: Maker, node_type: str, workers: int, batch_size: int, step_s: float, repeat: int
) -> None:
    nodes = worker_nodes(node_type, workers)
    scenario = all_reduce(nodes, link_mbps=100, dnn="cnn", batch_size=batch_size)
    run_id = f"ring-{node_type}-{workers}-b{batch_size}-{repeat}"
    run = make.run(run_id, scenario, "measurement", study="rings", repeat=repeat)
    sample = raw_table("sample", "metric unit value", [("step_time_s", "s", step_s)])
    make.land(run, scenario, {"sample": sample})


def tell_all(make: Maker) -> None:
    tell(make)
    synchronous(make)
    answer = make.prediction(make.fit("p1"), make.scenario(4), 5.0).model_copy(
        update={"study": None, "repeat": None}
    )
    make.warehouse.record([answer], scenarios=[make.scenario(4)])


@pytest.fixture
def told(built: Built, fresh: Maker) -> Maker:
    """Return a maker whose warehouse has something of everything."""
    return built(tell_all, fresh.home)


@pytest.fixture
def rings(built: Built, fresh: Maker) -> Maker:
    """Return a maker whose warehouse has synchronous steps only."""
    return built(synchronous, fresh.home)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_query_says_its_question_and_runs(told: Maker, file: Path) -> None:
    header = file.read_text().partition("\n")[0]
    assert header.startswith("-- ")
    assert "?" in header
    answer = told.warehouse.query(file.stem)
    assert answer.height > 0
    assert answer.width > 3


def test_nodes_that_are_slower_and_dearer_are_dominated_and_scaling_is_told(rings: Maker) -> None:
    efficiency = rings.warehouse.query("cost_efficiency")
    columns = ["worker_node_type", "batch_size", "workers", "examples_per_s"]
    rows = efficiency.select(columns).rows()
    assert rows == [
        ("emu.avx2.c15", 8, 1, 8.0),
        ("emu.avx2.c15", 8, 2, 12.8),
        ("emu.avx2.c15", 16, 1, 12.8),
        ("emu.avx512.c15", 8, 2, 32.0),
        ("emu.sse41.c15", 8, 2, 16.0),
    ]
    # One node of avx2 has no equal; two of the others do more, and more for a dollar.
    assert efficiency["dominated_by"].to_list() == [
        None,
        "emu.avx512.c15, emu.sse41.c15",
        None,
        None,
        None,
    ]
    assert efficiency["examples_per_usd"].to_list() == pytest.approx(
        [3600 * speed / (workers * HOURLY_USD[name]) for name, _, workers, speed in rows]
    )
    assert efficiency["runs"].to_list() == [1, 2, 1, 1, 1]
    # Two nodes do 6.4 images a step_s each instead of 8; together as many as one with 16 images.
    assert efficiency["weak_percent"].to_list() == pytest.approx([100, 80, 100, 100, 100])
    assert efficiency["strong_speedup"].to_list() == pytest.approx([1, 1, 1, 1, 1])
    assert rings.warehouse.query("cost_efficiency", dnn="other").is_empty()
    spot = rings.warehouse.query("cost_efficiency", market="spot")
    assert spot["examples_per_usd"].null_count() == spot.height == 5


def compute(make: Maker) -> None:
    """Land passes over 8 images: 1 and 3 s on one node, 1.5 and 1.5 s on the next one."""
    scenario = make.scenario(1)
    for run_id, seconds in (("first", [1.0, 3.0]), ("step_s", [1.5, 1.5])):
        passes = [
            (8, trial, 0, 0.25 * step_s, 0.75 * step_s, 0.0) for trial, step_s in enumerate(seconds)
        ]
        columns = "batch_size trial rank forward_s backward_s update_s"
        table = {"compute": raw_table("compute", columns, passes)}
        make.land(make.run(run_id, scenario, "profile"), scenario, table)
    make.warehouse.load()


def test_variance_is_between_trials_and_between_nodes(built: Built, fresh: Maker) -> None:
    (row,) = built(compute, fresh.home).warehouse.query("variance").to_dicts()
    assert (row["node_type"], row["what"]) == ("emu.avx2.1c", "cnn 64px, 8 images")
    assert row["mean"] == pytest.approx(1.75)
    assert row["temporal_percent"] == pytest.approx(100 * (2**0.5 / 2 + 0) / 2)
    assert row["spatial_percent"] == pytest.approx(100 * (2 / 1.5 - 1))
    assert (row["runs"], row["trials"]) == (2, 4)


def fill_curve(make: Maker) -> None:
    make.profile("p1", make.scenario(1))
    make.warehouse.load()
    for workers, value in enumerate((2.0, 3.0, 4.0, 4.0), start=1):
        make.measure(f"m{workers}", make.scenario(workers), [value], minute=4 + workers)
    make.warehouse.load()


@pytest.fixture
def curve(built: Built, fresh: Maker) -> Maker:
    """Return a maker whose warehouse has one worker profiled, and 1 to 4 measured.

    A worker costs 0.17 US dollars an hour, the server 0.08; both prices are declared.
    """
    return built(fill_curve, fresh.home)


def test_price_history_has_observed_and_published_prices(told: Maker) -> None:
    rows = told.warehouse.query("price_history", node_type="emu.server")
    declared = rows.filter(backend="declared")
    assert declared.select("provider", "usd_per_hour").rows() == [("emulated", 0.08)]
    observed = rows.filter(backend="emulated")
    assert observed["usd_per_hour"].to_list() == [1.2, 0.6]
    assert observed["change_usd_per_hour"].to_list() == [None, pytest.approx(-0.6)]
    published = told.warehouse.query("price_history", node_type="p3.8xlarge")
    assert published["backend"].unique().to_list() == ["published"]
    assert dict(published.select("market", "usd_per_hour").rows()) == {
        "on_demand": 12.24,
        "spot": 3.68,
    }


def test_ends_of_streams_are_predicted_one_after_the_other(told: Maker) -> None:
    (row,) = told.warehouse.query("end_times", backend="loopback").to_dicts()
    each = [100 / 500, 0.0, 200 / 1000]
    assert (row["dnn"], row["n"], row["runs"]) == ("alexnet", 3, 1)
    assert row["mean"] == pytest.approx(sum(each) / 3)
    assert (row["median"], row["maximum"]) == pytest.approx((0.2, 0.2))
    assert told.warehouse.query("end_times", study="other").is_empty()


def test_overhead_is_a_line_through_sizes(told: Maker) -> None:
    """40, 30 and 20 us for 400, 300 and 200 bytes: 100 ns a byte and nothing else."""
    (row,) = told.warehouse.query("parsing_overhead").to_dicts()
    assert (row["role"], row["node_type"], row["n"]) == ("worker", "emu.avx2.1c", 3)
    assert row["alpha_ns_per_byte"] == pytest.approx(100)
    assert row["beta_ms"] == pytest.approx(0, abs=1e-9)
    assert (row["r_squared"], row["median_ms"]) == pytest.approx((1, 0.03))


def test_profiling_and_measuring_are_added_up(curve: Maker) -> None:
    """Runs of half a minute; a server costs 0.08 an hour and each worker 0.17."""
    (row,) = curve.warehouse.query("profile_or_measure", dnn="cnn").to_dicts()
    assert (row["scenarios"], row["measuring_seconds"], row["profiling_seconds"]) == (4, 120, 30)
    assert row["measuring_usd"] == pytest.approx((4 * 0.08 + 10 * 0.17) / 120)
    assert row["profiling_usd"] == pytest.approx((0.08 + 0.17) / 120)
    assert curve.warehouse.query("profile_or_measure", study="other").is_empty()


def test_a_bill_says_what_was_spent_and_what_may_come(told: Maker) -> None:
    """Two of $0.60 at most: one has cost $0.10, the other lives; a refused launch costs nothing."""
    (row,) = told.warehouse.query("bill").to_dicts()
    assert (row["launches"], row["refused"], row["instances"], row["living"]) == (2, 1, 2, 1)
    assert (row["spent_usd"], row["open_usd"], row["instance_hours"]) == (0.1, 0.6, 0.25)


def test_unknown_queries_and_parameters_are_named(told: Maker) -> None:
    with pytest.raises(BadInput, match=r"no query 'acuracy'; the queries are accuracy, "):
        told.warehouse.query("acuracy")
    with pytest.raises(BadInput, match="query runs has no parameter studdy"):
        told.warehouse.query("runs", studdy="demo")


def test_the_last_judgement_names_what_was_confirmed(told: Maker) -> None:
    (row,) = told.warehouse.query("last_judgements").to_dicts()
    watched = told.warehouse.query("judged_over_time").filter(system="watch")
    assert set(watched["node_type"]) == {row["node_type"]}
    assert (row["node_type"], row["metric"]) == ("emu.avx2.1c", "watch_step_time_s")
    assert row["change_percent"] == pytest.approx(50)
    assert (row["alarm"], row["confirmed"]) == (True, True)
    (alarm,) = told.warehouse.query("confirmed_alarms").to_dicts()
    assert (alarm["node_type"], alarm["raised_at"]) == ("emu.avx2.1c", at(30))
    assert (alarm["ended"], len(alarm["changes"])) == (False, 1)


def test_a_probe_has_been_judged_if_it_confirmed_another(told: Maker) -> None:
    probes = told.warehouse.query("judged_probes")["run_id"].to_list()
    assert probes == ["watch-20", "watch-30", "watch-31"]


def test_what_is_from_before_a_change_is_stale(told: Maker) -> None:
    """All profiles of that type on that host."""
    stale = told.warehouse.query("stale_runs", node_type="emu.avx2.1c")
    assert set(stale["run_id"]) == {"p1", "p2"}, "neither what judges nor of another backend"
    assert set(stale["stale_since"]) == {at(30)}
    assert set(stale["metric"]) == {"watch_step_time_s"}
    # The server of the same runs has not changed.
    assert told.warehouse.query("stale_runs", node_type="emu.server").is_empty()


def flipped(content: bytes, bit: int) -> bytes:
    """Return bytes of which a bit is another."""
    damaged = bytearray(content)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def test_an_answer_is_kept_until_runs_are_loaded(
    make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = make.warehouse
    make.profile("r1", make.scenario())
    warehouse.load()
    names: list[str] = []

    def noted(connection: Any, name: str, params: Any) -> pl.DataFrame:
        names.append(name)
        return run_query(connection, name, params)

    monkeypatch.setattr("warehouse.warehouse.run_query", noted)
    first = warehouse.kept_query("leaderboard")
    assert warehouse.kept_query("leaderboard").equals(first)
    assert names == ["leaderboard"]
    assert Warehouse(make.home).kept_query("judged_scenarios", backend="ssh").is_empty()
    make.profile("r2", make.scenario())
    warehouse.load()
    warehouse.kept_query("leaderboard")
    assert names == ["leaderboard", "judged_scenarios", "leaderboard"]
    file = max((make.home / "answers").glob("leaderboard-*"), key=os.path.getmtime)
    whole = file.read_bytes()
    for damaged in (
        b"",
        whole[:-9],
        *(flipped(whole, bit) for bit in range(0, 8 * len(whole), len(whole) // 3)),
    ):
        file.write_bytes(damaged)
        assert warehouse.kept_query("leaderboard").equals(first)
    assert PublishedHistory(make.home).kept_query("leaderboard").equals(first)
