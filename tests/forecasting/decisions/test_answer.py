"""One answer of several systems, on a few reference runs."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from shutil import copytree

import polars as pl
import pytest

from forecasting.decisions import board
from forecasting.decisions.answer import DecisionAnswer, answer, measurements
from forecasting.decisions.board import decisions
from forecasting.decisions.question import JobQuestion
from forecasting.inputs import systems_named
from forecasting.nearest import JudgedScenarios
from models.choice.choice import best
from models.choice.limits import Limits
from warehouse.records import BadInput
from warehouse.warehouse import Warehouse, read_only

WHEN = datetime(2026, 11, 26, tzinfo=UTC)
QUESTION = JobQuestion(
    dnn="small_cnn",
    samples=1_000_000,
    framework="tensorflow",
    image_size=24,
    batch_size=1,
    server="emu.server",
    link_mbps=200,
    minimize="time",
    budget_usd=30,
)
CAPACITY = {"emu.native.s25": 4}


@pytest.fixture(scope="module")
def warehouse(small_history: Path, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Return a copy of the history; what tests add to its ledger disturbs no other one."""
    return Warehouse(Path(copytree(small_history, tmp_path_factory.mktemp("answer") / "home")))


@pytest.fixture(scope="module")
def found(warehouse: Warehouse) -> DecisionAnswer:
    """Return the answer to the question."""
    return ask(warehouse)


def ask(warehouse: Warehouse, question: JobQuestion = QUESTION, **given: object) -> DecisionAnswer:
    """Ask async_sgd and linear."""
    systems = systems_named(["async_sgd", "linear"])
    options = {"as_of": WHEN} | given
    return answer(warehouse, question, CAPACITY, "on_demand", systems, **options)  # type: ignore[arg-type]


def test_workers_and_servers_of_asynchronous_training(found: DecisionAnswer) -> None:
    """Each of four numbers of workers is a candidate, with its server paid for."""
    assert sorted(candidate.workers for candidate in found.candidates) == [1, 2, 3, 4]
    assert {candidate.system for candidate in found.candidates} <= {"async_sgd", "linear"}
    for candidate in found.candidates:
        assert candidate.usd_per_hour == pytest.approx(0.06 * candidate.workers + 0.08)
        assert candidate.expected.time_s(0) == 150
    assert found.decision.choice == best(found.candidates, found.aim)
    assert len(found.decision.alternatives) == 2
    assert {choice.system for choice in found.says} == {"async_sgd", "linear"}


def test_what_is_farther_out_than_any_judged_forecast_is_no_candidate(
    warehouse: Warehouse,
) -> None:
    """Four workers were judged at most, and eight are one doubling further."""
    found = answer(
        warehouse,
        QUESTION,
        {"emu.native.s25": 64},
        "on_demand",
        systems_named(["linear"]),
        as_of=WHEN,
    )
    assert sorted(candidate.workers for candidate in found.candidates) == [1, 2, 4, 8]
    far = [one.reason for one in found.answer.refused if not one.foreign]
    assert len(far) == 3
    assert far[-1].startswith("far out: 64 workers, where forecasts were judged from 1 to 4;")


def test_what_was_judged_later_tells_of_no_earlier_date(warehouse: Warehouse) -> None:
    now = JudgedScenarios.read(warehouse, "emulated")
    assert ("linear", "throughput_steps_per_s") in now.of
    assert JudgedScenarios.read(warehouse, "emulated", WHEN).of == now.of
    assert not JudgedScenarios.read(warehouse, "emulated", datetime(2026, 11, 1, tzinfo=UTC)).of


def test_training_takes_the_samples_over_the_forecast_speed(found: DecisionAnswer) -> None:
    forecasts = {
        (forecast.scenario.scenario_id, forecast.system.name): forecast.value
        for forecast in found.answer.forecasts
    }
    for candidate in found.candidates:
        speed = forecasts[candidate.key.split()[0], candidate.system]
        assert speed is not None
        assert candidate.train_s == pytest.approx(1_000_000 / speed)


def test_the_same_question_of_the_same_date_has_the_same_answer(
    warehouse: Warehouse, found: DecisionAnswer
) -> None:
    before = read_only(warehouse.home, "FROM pred.recommendation").height
    again = ask(warehouse)
    assert again.recommendation_id == found.recommendation_id
    assert read_only(warehouse.home, "FROM pred.recommendation").height == before
    kept = warehouse.query("recommendations", system="recommend").to_dicts()
    (choice,) = [
        row["choice"] for row in kept if row["recommendation_id"] == found.recommendation_id
    ]
    assert found.decision.choice is not None
    assert found.decision.choice.key.split()[0] in str(choice)


def test_another_budget_is_another_answer(warehouse: Warehouse, found: DecisionAnswer) -> None:
    """For next to nothing nothing is trained: the answer says what to raise."""
    broke = ask(warehouse, QUESTION.model_copy(update={"budget_usd": 0.001}))
    assert broke.decision.choice is None
    assert "raise --budget-usd from 0.001 to" in broke.decision.relaxations[0]
    assert broke.recommendation_id != found.recommendation_id


def test_what_was_not_known_by_a_date_does_not_count(warehouse: Warehouse) -> None:
    with pytest.raises(BadInput, match="nothing had been profiled by 2026-11-01"):
        ask(warehouse, as_of=datetime(2026, 11, 1, tzinfo=UTC))


def test_a_network_that_no_system_forecasts_names_what_lacks(warehouse: Warehouse) -> None:
    question = QUESTION.model_copy(update={"dnn": "squeezenet", "image_size": 64})
    with pytest.raises(BadInput, match=r"no system forecasts squeezenet .* no tf_trace of squeeze"):
        ask(warehouse, question)


def test_measurements_name_a_probe_with_its_time_and_price(found: DecisionAnswer) -> None:
    scenarios = {
        forecast.scenario.scenario_id: forecast.scenario for forecast in found.answer.forecasts
    }
    cheapest = replace(found.aim, minimize="cost", limits=Limits())
    for measurement in measurements(found.candidates, cheapest, scenarios):
        assert measurement.probe == "tf_throughput"
        assert measurement.minutes > 2.5
        assert measurement.usd == pytest.approx(
            measurement.candidate.usd_per_hour * measurement.minutes / 60
        )
        assert 0 < measurement.worth.chance <= 1


class TestBoard:
    """Decisions about what the small history measured."""

    def test_limits_are_drawn_between_what_was_measured(self, warehouse: Warehouse) -> None:
        rows = decisions(warehouse, seed=5, questions=2)
        assert rows["question_id"].n_unique() % 4 == 0
        warehouse.record_decisions(rows)
        board = warehouse.query("decisions", seed=5)
        assert {"async_sgd", "linear", "recommend", "cheapest"} <= set(board["chooser"])
        judged = read_only(warehouse.home, "FROM report.decision WHERE seed = 5")
        assert judged.height == rows.height
        assert judged["best"].null_count() == 0
        regrets = judged["regret_percent"].drop_nulls().to_list()
        assert regrets
        assert min(regrets) >= -1e-6

    def test_the_seed_alone_says_which_questions(self, warehouse: Warehouse) -> None:
        def ids(seed: int) -> set[str]:
            return set(decisions(warehouse, seed, 1)["question_id"])

        assert ids(5) == ids(5)
        assert not ids(5) & ids(6)

    def test_workers_that_differ_are_no_option(self, warehouse: Warehouse) -> None:
        rows = warehouse.query("menus")
        before = list(board.menus(rows))
        first = before[0].rows["scenario_id"][0]
        one = before[0].scenarios[first]
        (group,) = one.worker_groups
        other = group.model_copy(update={"inter_op_threads": 7})
        workers = one.strategy.model_copy(update={"workers": 2 * group.count})
        mixed = one.model_copy(update={"strategy": workers, "nodes": (*one.nodes, other)})
        text = mixed.canonical_json()
        more = rows.filter(scenario_id=first).with_columns(
            scenario_id=pl.lit(mixed.scenario_id), canonical=pl.lit(text)
        )
        after = list(board.menus(pl.concat([rows, more])))
        assert [one.scenarios.keys() for one in after] == [one.scenarios.keys() for one in before]

    def test_choosers_do_not_see_what_judges_them(self, warehouse: Warehouse) -> None:
        """With limits kept, other measurements change no choice."""
        menus = list(board.menus(warehouse.query("menus")))
        aims = [list(board.aims(menu, 5, 1)) for menu in menus]
        past = warehouse.query("time_ratios")

        def choices(factor: float) -> list[object]:
            changed = [
                replace(menu, rows=menu.rows.with_columns(pl.col("measured") * factor))
                for menu in menus
            ]
            return [
                (row["chooser"], row["late"], row["choice"])
                for menu, ours in zip(changed, aims, strict=True)
                for aim in ours
                for row in board.decide_menu(menu, aim, past, 5)
            ]

        assert choices(1.0) == choices(7.0)
