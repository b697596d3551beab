"""Judging: which prediction a run judges, by how much it erred, and on what split."""

import json

import polars as pl
import pytest

from forecasting.sanity import LEAST_IDLE
from profilers.steady.host import MOST_STOLEN
from tests.warehouse.conftest import Maker
from warehouse.landed_files import seal
from warehouse.records import BadInput, Scenario


def judged(make: Maker) -> list[dict[str, object]]:
    make.warehouse.load()
    return make.warehouse.query("judged").sort("made_at", "system").to_dicts()


def test_a_prediction_is_judged_by_the_run_after_it(fitted: Maker) -> None:
    scenario = fitted.scenario(2)
    prediction = fitted.prediction(fitted.fit("p1"), scenario, 2.0, minute=2, low=1.8, high=2.2)
    fitted.warehouse.record([prediction])
    fitted.measure("m1", scenario, [2.4, 2.6], minute=5)
    (row,) = judged(fitted)
    assert row["system"] == "async_sgd"
    assert row["label"] == scenario.label
    assert (row["predicted"], row["low"], row["high"]) == (2.0, 1.8, 2.2)
    assert (row["measured"], row["runs"], row["inside_interval"]) == (2.5, 1, False)
    assert row["error_percent"] == pytest.approx(-20)
    assert row["ape_percent"] == pytest.approx(20)
    assert row["spread_percent"] == pytest.approx(8)
    assert (row["noise_floor_percent"], row["noise_runs"]) == (None, 0)
    assert row["host_busy"] is False


def test_what_came_before_the_load_is_judged_whatever_clocks_say(fitted: Maker) -> None:
    """A run that is loaded again keeps its place."""
    scenario = fitted.scenario(2)
    prediction = fitted.prediction(fitted.fit("p1"), scenario, 2.0, minute=90)
    folder = fitted.measure("m1", scenario, [2.5], minute=5)
    fitted.warehouse.record([prediction])
    fitted.warehouse.load()
    fitted.forecast({2: 2.5}, system="lin")
    assert [row["predicted"] for row in judged(fitted)] == [2.0]
    sample = folder / "sample.parquet"
    pl.read_parquet(sample).write_parquet(sample, compression="gzip")
    seal(folder)
    assert fitted.warehouse.load().loaded == ("m1",)
    assert [row["predicted"] for row in judged(fitted)] == [2.0]


def test_each_run_judges_the_newest_prediction_of_its_round(fitted: Maker) -> None:
    scenario, fit = fitted.scenario(2), fitted.fit("p1")
    other = fit.model_copy(update={"parameters": {"client_gap_s": 0.016}})
    fitted.warehouse.record(fits=[other])
    forecasts = [
        fitted.prediction(fit, scenario, 1.0, minute=9, repeat=1),
        fitted.prediction(other, scenario, 1.5, minute=3, repeat=1),
        fitted.prediction(fit, scenario, 2.0, minute=2, repeat=2),
    ]
    fitted.warehouse.record(forecasts)
    fitted.measure("m1", scenario, [2.0], minute=5, repeat=1)
    fitted.measure("m2", scenario, [4.0], minute=5.5, repeat=2)
    fitted.measure("m3", scenario, [6.0], minute=5.6, repeat=2)
    rows = [(row["predicted"], row["measured"], row["runs"]) for row in judged(fitted)]
    assert rows == [(2.0, 5.0, 2), (1.5, 2.0, 1)]


def test_runs_of_other_studies_and_hosts_judge_nothing(fitted: Maker) -> None:
    fitted.forecast({2: 2.0})
    fitted.forecast({2: 9.0}, study="other")
    fitted.measure("m1", fitted.scenario(2), [2.5], minute=5)
    fitted.measure("m2", fitted.scenario(2), [7.5], minute=5, host_id="host-2")
    rows = [(row["study"], row["predicted"], row["measured"]) for row in judged(fitted)]
    assert rows == [("demo", 2.0, 2.5)]


def test_what_was_merely_asked_for_is_judged_apart(fitted: Maker) -> None:
    scenario, fit = fitted.scenario(2), fitted.fit("p1")
    own = fitted.prediction(fit, scenario, 2.0, minute=2)
    answer = own.model_copy(update={"study": None, "repeat": None})
    newer = fitted.fit("p1").model_copy(update={"parameters": {"client_gap_s": 0.016}})
    again = answer.model_copy(update={"fit_id": newer.fit_id, "value": 3.0})
    warehouse = fitted.warehouse
    warehouse.record(fits=[newer])
    warehouse.record([own, answer])
    warehouse.record([again], scenarios=[scenario, scenario])
    fitted.measure("m1", scenario, [2.5], minute=5)
    fitted.measure("m2", scenario, [2.5], minute=6, study="another")
    assert [row["predicted"] for row in judged(fitted)] == [2.0]
    (board,) = warehouse.query("leaderboard").to_dicts()
    assert (board["n"], board["mape"]) == (1, pytest.approx(20))
    (row,) = fitted.rows("FROM report.asked_accuracy").to_dicts()
    assert (row["predicted"], row["runs"], row["split"]) == (3.0, 2, "held_out_world_size")
    (known,) = fitted.rows("FROM pred.asked_scenario").to_dicts()
    assert (known["scenario_id"], known["label"]) == (scenario.scenario_id, scenario.label)
    rows = warehouse.query("judged_over_time", node_type="emu.avx2.1c")
    errors = dict(rows.select("study", "error_percent").iter_rows())
    assert errors == {own.study: pytest.approx(-20), None: pytest.approx(20)}
    with pytest.raises(BadInput, match="for nobody's study before, with other figures"):
        warehouse.record([answer.model_copy(update={"value": 2.1})])


def test_a_fit_to_steps_of_other_hosts_alone_says_nothing_of_this_one(make: Maker) -> None:
    """As the query says it of a question, and the board of what was measured."""
    make.land(make.run("p1", make.scenario(1), "profile", host_id="host-2"), make.scenario(1))
    make.warehouse.load()
    asked = [
        {
            "subject_id": make.scenario(1).scenario_id,
            "canonical": make.scenario(1).model_dump(mode="json"),
        }
    ]
    question = {"asked": asked, "run_ids": ["p1"]}
    for host, split in (("host-1", "held_out_host"), ("host-2", "seen")):
        of_host = json.dumps([{**question, "host_id": host}], sort_keys=True)
        assert make.warehouse.query("splits", asked=of_host)["split"].to_list() == [split]
    make.forecast({1: 2.0})
    make.measure("m1", make.scenario(1), [2.5], minute=5)
    assert [row["split"] for row in judged(make)] == ["held_out_host"]


def test_few_steps_of_this_host_beside_those_of_another_are_a_split_of_their_own(
    make: Maker,
) -> None:
    make.land(make.run("p1", make.scenario(1), "profile", host_id="host-2"), make.scenario(1))
    make.profile("p2", make.scenario(2))
    make.warehouse.load()
    for workers, split in ((8, "few_on_host"), (2, "seen")):
        scenario = make.scenario(workers)
        canonical = scenario.model_dump(mode="json")
        asked = [{"subject_id": scenario.scenario_id, "canonical": canonical}]
        of_host = json.dumps(
            [{"asked": asked, "run_ids": ["p1", "p2"], "host_id": "host-1"}], sort_keys=True
        )
        assert make.warehouse.query("splits", asked=of_host)["split"].to_list() == [split]


@pytest.mark.parametrize(
    ("idle", "stolen", "busy"),
    [
        (LEAST_IDLE - 0.01, 0.0, True),
        (LEAST_IDLE, MOST_STOLEN, False),
        (0.9, MOST_STOLEN + 0.001, True),
    ],
)
def test_a_busy_host_is_marked(fitted: Maker, idle: float, stolen: float, busy: bool) -> None:
    """The limits are those of the probes, which measure again, and of the check that warns."""
    scenario = fitted.scenario(2)
    fitted.forecast({2: 2.0})
    fitted.measure("m1", scenario, [2.5], minute=5, idle=0.9)
    fitted.measure("m2", scenario, [2.5], minute=6, idle=idle, stolen=stolen)
    assert [row["host_busy"] for row in judged(fitted)] == [busy]


def test_splits_say_how_far_a_subject_is_from_the_fit(make: Maker) -> None:
    seen = {"p1": make.scenario(1), "p2": make.scenario(2, node_type="emu.sse41.1c")}
    expected: dict[str, Scenario] = {
        "seen": make.scenario(1),
        "held_out_dnn": make.scenario(8, dnn="vgg11", node_type="emu.new"),
        "held_out_node_type": make.scenario(8, node_type="emu.new"),
        "held_out_world_size": make.scenario(8),
        "held_out_scenario": make.scenario(2),
    }
    for run_id, scenario in seen.items():
        make.profile(run_id, scenario)
    make.land(make.run("links", None, "profile"), None)
    make.warehouse.load()
    fit = make.fit("links", *seen)
    make.warehouse.record(fits=[fit])
    make.warehouse.record([make.prediction(fit, scenario, 2.0) for scenario in expected.values()])
    blind = make.fit("links", system="blind")  # it saw no scenario, so no network
    make.warehouse.record(fits=[blind])
    make.warehouse.record([make.prediction(blind, make.scenario(1), 2.0)])
    for number, scenario in enumerate(expected.values()):
        make.measure(f"m{number}", scenario, [2.0], minute=5)
    rows = {row["scenario_id"]: row["split"] for row in judged(make) if row["system"] != "blind"}
    assert rows == {scenario.scenario_id: split for split, scenario in expected.items()}
    assert {row["split"] for row in judged(make) if row["system"] == "blind"} == {"held_out_dnn"}


@pytest.mark.parametrize(
    ("families", "split"),
    [
        ({"cnn": "plain", "vgg11": "vgg"}, "held_out_family"),
        ({"cnn": "vgg", "vgg11": "vgg"}, "held_out_dnn"),
        ({"cnn": None, "vgg11": "vgg"}, "held_out_dnn"),
        ({"cnn": "plain"}, "held_out_dnn"),
    ],
)
def test_a_family_is_held_out_where_families_are_known(
    fitted: Maker, families: dict[str, str | None], split: str
) -> None:
    for dnn, family in families.items():
        row = {"dnn": dnn, "framework": "tensorflow", "family": family}
        table = pl.DataFrame({**row, "batch_size": 8, "parameter_count": 10})
        fitted.land(fitted.run(f"graph-{dnn}", None, "profile"), None, {"dnn": table})
    scenario = fitted.scenario(2, dnn="vgg11")
    fitted.warehouse.record([fitted.prediction(fitted.fit("p1"), scenario, 2.0)])
    fitted.measure("m1", scenario, [2.0], minute=5)
    assert [row["split"] for row in judged(fitted)] == [split]


@pytest.mark.parametrize(
    ("metric", "unit", "sign"),
    [
        ("step_time_s", "s", 1),
        ("cost_usd", "usd", 1),
        ("bus_bandwidth_Bps", "B/s", -1),
        ("throughput_steps_per_s", "1/s", -1),
        ("idle_cpu_fraction", "1", None),
    ],
)
def test_too_short_a_time_is_too_high_a_rate(
    fitted: Maker, metric: str, unit: str, sign: int | None
) -> None:
    scenario = fitted.scenario(2)
    fitted.forecast({2: 2.0}, metric=metric, unit=unit)
    sample = {"metric": [metric], "unit": [unit], "window": [1], "value": [2.5]}
    run = fitted.run("m1", scenario, "measurement", minute=5)
    fitted.land(run, scenario, {"sample": pl.DataFrame(sample)})
    (row,) = judged(fitted)
    # A time of 2 for 2.5 is 20 % too short; a rate of 2 for 2.5 is a time 25 % too long.
    expected = {1: -20, -1: 25, None: None}[sign]
    assert row["time_error_percent"] == (expected and pytest.approx(expected))


def test_the_leaderboard_counts_a_subject_once(fitted: Maker) -> None:
    fit = fitted.fit("p1")
    two, three, four = (fitted.scenario(workers) for workers in (2, 3, 4))
    fitted.warehouse.record(
        [
            fitted.prediction(fit, two, 1.1, low=0.9, high=1.2),
            fitted.prediction(fit, three, 1.4, low=1.2, high=1.6),
            fitted.prediction(fit, four, 0.4),
            fitted.prediction(fit, fitted.scenario(1), 1.05),
        ]
    )
    fitted.measure("a1", two, [1.0], minute=5, repeat=1)
    fitted.measure("b", three, [1.0], minute=5)
    fitted.measure("c", four, [1.0], minute=5)
    fitted.measure("d", fitted.scenario(1), [1.0], minute=5)
    fitted.warehouse.load()
    fitted.warehouse.record(
        [fitted.prediction(fit, two, 1.3, low=1.26, high=1.4, minute=12, repeat=2)]
    )
    fitted.measure("a2", two, [1.25], minute=15, repeat=2)
    fitted.warehouse.load()
    board = fitted.warehouse.query("leaderboard")
    assert board["split"].to_list() == ["held_out_world_size", "seen"]
    far, near = board.to_dicts()
    # Two workers: 10 % and 4 % in two rounds, so 7 %; three: 40 %; four: 60 %.
    assert (far["system"], far["backend"], far["n"]) == ("async_sgd", "emulated", 3)
    assert far["mape"] == pytest.approx((7 + 40 + 60) / 3)
    assert far["median_ape"] == pytest.approx(40)
    assert far["p90_ape"] == pytest.approx(56)
    assert far["max_ape"] == pytest.approx(60)
    # In time, two workers: 1/11 and 1/26 too short; three: 2/7 too short; four: 150 % too long.
    assert far["underestimated_percent"] == pytest.approx(200 / 3)
    two_under, three_under = 100 * (1 / 11 + 1 / 26) / 2, 100 * 2 / 7
    expected = two_under + 0.8 * (three_under - two_under)
    assert far["p90_underestimate"] == pytest.approx(expected)
    # Two workers were inside the interval once in two rounds, three never, four have none.
    assert (far["coverage_percent"], far["coverage_n"]) == (25, 2)
    # Only two workers were measured in two rounds: 1.25 for 1 and 1 for 1.25.
    assert (far["noise_floor"], far["noise_n"]) == (pytest.approx((25 + 20) / 2), 1)
    assert (near["n"], near["mape"]) == (1, pytest.approx(5))
    assert (near["noise_floor"], near["noise_n"]) == (None, 0)
    assert (near["coverage_percent"], near["coverage_n"]) == (None, 0)


def test_what_a_busy_host_measured_is_shown_and_not_counted(fitted: Maker) -> None:
    fit = fitted.fit("p1")
    two, three = fitted.scenario(2), fitted.scenario(3)
    fitted.warehouse.record([fitted.prediction(fit, two, 1.1), fitted.prediction(fit, three, 1.5)])
    fitted.measure("quiet", two, [1.0], minute=5, idle=0.21)
    fitted.measure("busy", three, [1.0], minute=6, idle=0.19)
    assert {row["predicted"]: row["host_busy"] for row in judged(fitted)} == {1.1: False, 1.5: True}
    (board,) = fitted.warehouse.query("leaderboard").to_dicts()
    assert (board["n"], board["busy_n"], board["mape"]) == (1, 1, pytest.approx(10))


def test_judged_measurements_do_not_reach_predictors(fitted: Maker) -> None:
    before = {name: fitted.warehouse.visible(name) for name in ("run", "scenario", "sample")}
    fitted.measure("m1", fitted.scenario(2), [2.5], minute=5)
    fitted.warehouse.load()
    assert fitted.rows("FROM raw.sample").height == 3
    for name, frame in before.items():
        assert fitted.warehouse.visible(name).equals(frame)
    assert isinstance(before["run"], pl.DataFrame)
