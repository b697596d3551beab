from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.warehouse.story import tell
from warehouse.records import BadInput
from warehouse.warehouse import QUERIES

if TYPE_CHECKING:
    from tests.warehouse.conftest import Maker

FILES = sorted(QUERIES.glob("*.sql"))


@pytest.fixture
def told(make: "Maker") -> "Maker":
    """Return a maker whose warehouse has something of everything."""
    tell(make)
    return make


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_query_says_its_question_and_runs(told: "Maker", file: Path) -> None:
    header = file.read_text().partition("\n")[0]
    assert header.startswith("-- ")
    assert "?" in header
    answer = told.warehouse.query(file.stem)
    assert answer.height > 0
    assert answer.width > 3


def test_accuracy_is_the_table_of_the_command_line(told: "Maker") -> None:
    (row,) = told.warehouse.query("accuracy", study="demo", repeat=1).to_dicts()
    assert row["label"] == told.scenario(2).label
    assert (row["predicted"], row["measured"], row["split"]) == (3.0, 2.5, "held_out_world_size")
    assert told.warehouse.query("accuracy", study="other").is_empty()
    assert told.warehouse.query("accuracy", metric="step_time_s").is_empty()


def test_runs_lists_all_runs_of_a_study(told: "Maker") -> None:
    runs = told.warehouse.query("runs", study="demo")
    assert runs["run_id"].to_list()[-3:] == ["m1", "m2", "m3"]
    assert runs["seconds"].to_list() == [30.0] * 9
    assert told.warehouse.query("runs", study="other").is_empty()


def test_scaling_has_measured_and_predicted_side_by_side(told: "Maker") -> None:
    columns = ["workers", "system", "predicted", "measured", "runs"]
    rows = told.warehouse.query("scaling").select(columns).rows()
    assert rows == [(1, None, None, pytest.approx(1.3), 1), (2, "async_sgd", 3.0, 2.5, 1)]


def test_the_cheapest_node_type_is_paid_for_with_its_servers(told: "Maker") -> None:
    rows = told.warehouse.query("cheapest_node_type", dnn="cnn")
    # Two workers: 2.5 steps/s of 8 examples at 2 x 3.06 + 0.6; one: 1.3 at 3.06 + 0.6, the newest
    # prices. A million examples take 1e6 / 20 s and 1e6 / 10.4 s.
    assert rows["workers"].to_list() == [2, 1]
    assert rows["usd_per_hour"].to_list() == pytest.approx([6.72, 3.66])
    costs = [1e6 / 20 / 3600 * 6.72, 1e6 / 10.4 / 3600 * 3.66]
    assert rows["usd_per_million_examples"].to_list() == pytest.approx(costs)
    assert rows["unpriced"].to_list() == [None, None]
    spot = told.warehouse.query("cheapest_node_type", market="spot")
    assert spot["unpriced"].to_list() == ["emu.avx2.1c, emu.server"] * 2
    assert spot["usd_per_million_examples"].to_list() == [None, None]


def test_top_operations_come_from_traces_or_statistics(told: "Maker") -> None:
    columns = ["type", "ms_per_step", "percent", "operations"]
    for dnn, scale in (("cnn", 1), ("vgg11", 2)):
        rows = told.warehouse.query("top_operations", dnn=dnn).select(columns).rows()
        conv, relu = rows
        assert conv == ("Conv2D", pytest.approx(0.09 * scale), pytest.approx(90), 2)
        assert relu == ("Relu", pytest.approx(0.01 * scale), pytest.approx(10), 1)
    assert told.warehouse.query("top_operations", limit=3).height == 3


def test_link_sharing_says_what_the_largest_flow_got(told: "Maker") -> None:
    (row,) = told.warehouse.query("link_sharing", backend="emulated").to_dicts()
    assert (row["direction"], row["flows"], row["trials"]) == ("uplink", 2, 2)
    assert row["total_mbps"] == pytest.approx(64)
    assert row["largest_share_percent"] == pytest.approx((75 + 62.5) / 2)
    assert row["smallest_share_percent"] == pytest.approx((25 + 37.5) / 2)
    assert row["equal_share_percent"] == 50
    assert told.warehouse.query("link_sharing", backend="ec2").is_empty()


def test_price_history_has_observed_and_published_prices(told: "Maker") -> None:
    rows = told.warehouse.query("price_history", node_type="emu.server")
    assert rows["usd_per_hour"].to_list() == [1.2, 0.6]
    assert rows["change_usd_per_hour"].to_list() == [None, pytest.approx(-0.6)]
    published = told.warehouse.query("price_history", node_type="p3.8xlarge")
    assert published["backend"].unique().to_list() == ["published"]
    assert dict(published.select("market", "usd_per_hour").rows()) == {
        "on_demand": 12.24,
        "spot": 3.68,
    }


def test_allreduce_has_medians(told: "Maker") -> None:
    (row,) = told.warehouse.query("allreduce", library="gloo").to_dicts()
    assert (row["world_size"], row["n"]) == (2, 3)
    assert row["median_us"] == pytest.approx(5000)
    assert row["bus_bandwidth_GBps"] == pytest.approx(0.8)


def test_fit_inputs_failures_and_imports_name_their_runs(told: "Maker") -> None:
    (seen,) = told.warehouse.query("fit_inputs", system="async_sgd").to_dicts()
    assert (seen["run_id"], seen["label"]) == ("p1", told.scenario(1).label)
    (failed,) = told.warehouse.query("failed_runs", study="demo").to_dicts()
    assert (failed["run_id"], failed["error"]) == ("m3", "out of memory")
    (theirs,) = told.warehouse.query("imported").to_dicts()
    assert (theirs["backend"], theirs["licence"]) == ("imported", "CC-BY-4.0")
    assert (theirs["external_rows"], theirs["metrics"]) == (2, "step_time_s")


def test_what_was_too_hopeful_comes_worst_first(told: "Maker") -> None:
    (row,) = told.warehouse.query("underestimated", system="async_sgd").to_dicts()
    # 3 steps per second were predicted, 2.5 measured: 0.333 s a step for 0.4 s, 1/6 too short.
    assert row["underestimated_percent"] == pytest.approx(100 / 6)
    assert told.warehouse.query("underestimated", system="linear").is_empty()


def test_systems_count_what_they_did(told: "Maker") -> None:
    rows = told.warehouse.query("systems").filter(backend="emulated")
    assert rows.select("system", "fits", "predictions").rows() == [("async_sgd", 1, 1)]


def test_unknown_queries_and_parameters_are_named(told: "Maker") -> None:
    with pytest.raises(BadInput, match=r"no query 'acuracy'; the queries are accuracy, "):
        told.warehouse.query("acuracy")
    with pytest.raises(BadInput, match="query runs has no parameter studdy"):
        told.warehouse.query("runs", studdy="demo")
