"""One answer of several systems, on a few reference runs."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from shutil import copytree

import pytest

from forecasting.decisions.answer import DecisionAnswer, answer, measurements
from forecasting.decisions.question import JobQuestion
from forecasting.inputs import systems_named
from forecasting.nearest import read_judged_scenarios
from models.choice.choice import best
from models.choice.limits import Limits
from warehouse.records import BadInput
from warehouse.sql import read_only
from warehouse.warehouse import Warehouse

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
    assert found.decision.choice == best(found.candidates, found.question.objective)
    assert len(found.decision.alternatives) == 2
    # Training takes the samples over the forecast speed.
    forecasts = {
        (forecast.scenario.scenario_id, forecast.system.name): forecast.value or 0.0
        for forecast in found.answer.forecasts
    }
    for candidate in found.candidates:
        speed = forecasts[candidate.key.split()[0], candidate.system]
        assert candidate.train_s == pytest.approx(1_000_000 / speed)


def test_what_is_farther_out_than_any_judged_forecast_is_no_candidate(warehouse: Warehouse) -> None:
    """Four workers were judged at most, and eight are one doubling further."""
    linear, many = systems_named(["linear"]), {"emu.native.s25": 64}
    decided = answer(warehouse, QUESTION, many, "on_demand", linear, as_of=WHEN)
    assert sorted(candidate.workers for candidate in decided.candidates) == [1, 2, 4, 8]
    far = [refusal.reason for refusal in decided.answer.refused if not refusal.foreign]
    assert len(far) == 3
    assert far[-1].startswith("far out: 64 workers, where forecasts were judged from 1 to 4;")


def test_the_same_question_of_the_same_date_has_the_same_answer(
    warehouse: Warehouse, found: DecisionAnswer
) -> None:
    before = read_only(warehouse.home, "FROM pred.recommendation")
    again = ask(warehouse)
    assert again.recommendation_id == found.recommendation_id
    kept = read_only(warehouse.home, "FROM pred.recommendation")
    assert kept.height == before.height
    (choice,) = kept.filter(recommendation_id=found.recommendation_id)["choice"]
    assert found.decision.choice is not None
    assert found.decision.choice.key.split()[0] in str(choice)


def test_what_is_not_known_is_told(warehouse: Warehouse) -> None:
    with pytest.raises(BadInput, match="nothing had been profiled by 2026-11-01"):
        ask(warehouse, as_of=datetime(2026, 11, 1, tzinfo=UTC))
    question = QUESTION.model_copy(update={"dnn": "squeezenet", "image_size": 64})
    with pytest.raises(BadInput, match=r"no system forecasts squeezenet .* no tf_trace of squeeze"):
        ask(warehouse, question)


def test_measurements_name_a_probe_with_its_time_and_price(found: DecisionAnswer) -> None:
    scenarios = {
        forecast.scenario.scenario_id: forecast.scenario for forecast in found.answer.forecasts
    }
    cheapest = replace(found.question.objective, minimize="cost", limits=Limits())
    for measurement in measurements(found.candidates, cheapest, scenarios):
        assert measurement.probe == "tf_throughput"
        assert measurement.minutes > 2.5
        assert measurement.usd == pytest.approx(
            measurement.candidate.usd_per_hour * measurement.minutes / 60
        )
        assert 0 < measurement.worth.chance <= 1


def test_what_was_judged_later_tells_of_no_earlier_date(warehouse: Warehouse) -> None:
    now = read_judged_scenarios(warehouse, "emulated")
    assert ("linear", "throughput_steps_per_s") in now
    assert read_judged_scenarios(warehouse, "emulated", WHEN) == now
    assert not read_judged_scenarios(warehouse, "emulated", datetime(2026, 11, 1, tzinfo=UTC))
