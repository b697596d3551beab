"""Forecasts that are merely asked for, on a few reference runs."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copytree
from typing import Any, NoReturn

import polars as pl
import pytest

from forecasting import calibration, fits, forecast_history
from forecasting.forecast import ForecastAnswer, predict_curves
from forecasting.history_scope import RunIndex, VisibleRun, select_runs
from forecasting.inputs import find_missing_runs, systems_named, total_minutes
from models.system import System
from profilers.probes import PROBES
from studies.curve import Curve
from tests.homes import PYTORCH, TENSORFLOW
from tests.made_run import ddp_curve, made_run, raw_table
from warehouse.landing import land
from warehouse.records import BadInput, Scenario
from warehouse.requirements import Refusal, Requirement, Subject
from warehouse.sql import read_only
from warehouse.warehouse import Warehouse

ASYNC = {
    "dnn": "small_cnn",
    "image_size": 24,
    "batch_size": 1,
    "worker": "emu.native.s25",
    "server": "emu.server",
    "link_mbps": 200,
    "workers": [1, 2, 3, 4],
}
TYPES = ("emu.avx512.c15", "emu.avx512.s15")


def torch_curves(**changes: object) -> list[Curve]:
    """Return a curve on each of the two node types that the study has."""
    of_study = {"workers": [2], "batch_size": 12, "link_mbps": 200} | changes
    return [ddp_curve(name, **of_study) for name in TYPES]  # type: ignore[arg-type]


def async_curve(**changes: object) -> Curve:
    """Return the curve of small_cnn of the TensorFlow study, or one that is like it."""
    return Curve.model_validate(ASYNC | changes)


@pytest.fixture(autouse=True)
def committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the code be of a version that is committed, whatever this checkout is."""
    of_version(monkeypatch, "v1")


def of_version(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """Let the code be of a version."""
    for module in (fits, calibration, forecast_history):
        monkeypatch.setattr(module, "code_version", lambda: version)


@pytest.fixture
def warehouse(small_history: Path, tmp_path: Path) -> Warehouse:
    """Return a copy of the history, which a test may change."""
    return Warehouse(Path(copytree(small_history, tmp_path / "copy")))


def asked(
    warehouse: Warehouse, curves: Sequence[Curve], *names: str, dry_run: bool = False
) -> ForecastAnswer:
    """Ask systems, all if none is named."""
    return predict_curves(warehouse, curves, systems_named(names), dry_run=dry_run)


def figures(answer: ForecastAnswer) -> dict[tuple[str, str], tuple[Any, ...]]:
    """Return value, low, high, fit and split by system and scenario."""
    return {
        (forecast.system.name, forecast.scenario.scenario_id): (
            forecast.value,
            forecast.low,
            forecast.high,
            forecast.fit.fit_id,
            forecast.split,
        )
        for forecast in answer.forecasts
    }


def of_study(warehouse: Warehouse, study: str) -> dict[tuple[str, str], tuple[Any, ...]]:
    """Return the same of a study's forecasts; splits as its board has them."""
    columns = ["system", "scenario_id", "predicted", "low", "high", "fit_id", "split"]
    rows = warehouse.query("judged").filter(study=study).select(columns).iter_rows()
    return {(system, scenario): tuple(values) for system, scenario, *values in rows}


@pytest.mark.parametrize("study", [PYTORCH, TENSORFLOW])
def test_forecasts_are_those_of_a_study_of_the_same_runs(warehouse: Warehouse, study: str) -> None:
    """Value, interval, fit and split are its own; and so is everything of its board afterwards."""
    board, accuracy = warehouse.query("leaderboard"), warehouse.query("judged")
    curves = torch_curves() if study == PYTORCH else [async_curve()]
    answer = asked(warehouse, curves)
    expected = of_study(warehouse, study)
    assert len(expected) == (6 if study == PYTORCH else 28)
    assert figures(answer) == expected
    assert answer.written == len(expected)
    ledger = warehouse.query("predictions").filter(pl.col("study").is_null())
    assert ledger.height == len(expected)
    assert ledger["repeat"].null_count() == ledger.height
    assert warehouse.query("judged").equals(accuracy)
    assert warehouse.query("leaderboard").equals(board)
    past = {(forecast.system.name, forecast.split): forecast.past for forecast in answer.forecasts}
    for row in board.filter(pl.col("system").is_in([name for name, _ in past])).to_dicts():
        if errors := past.get((row["system"], row["split"])):
            assert errors == row


def test_a_fit_that_is_kept_is_loaded_and_a_known_forecast_read(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> NoReturn:
        raise AssertionError("made again")

    names = ("srift", "ideal_scaling")
    first = asked(warehouse, torch_curves(), *names)
    unfit = [replace(system, fit=fails) for system in systems_named(names)]
    more = predict_curves(warehouse, torch_curves(workers=[2, 4]), unfit)
    assert (len(more.forecasts), more.written) == (8, 4)
    assert {forecast.fit.fit_id for forecast in more.forecasts} == {
        forecast.fit.fit_id for forecast in first.forecasts
    }
    unasked = [replace(system, load=fails) for system in unfit]
    again = predict_curves(warehouse, torch_curves(), unasked)
    assert figures(again) == figures(first)
    assert again.written == 0


def test_what_other_code_made_is_made_again_once(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counted(system: System) -> System:
        def fit(tables: Any) -> Any:
            fitted.append(system.name)
            return system.fit(tables)

        return replace(system, fit=fit)

    fitted: list[str] = []
    systems = [counted(system) for system in systems_named(["linear", "ideal_scaling"])]
    curves = [async_curve(workers=[2]), torch_curves()[0]]
    predict_curves(warehouse, curves, systems)
    for version in ("v2", "v2-dirty"):
        of_version(monkeypatch, version)
        assert predict_curves(warehouse, curves, systems).written == 0
    assert fitted == ["ideal_scaling"]  # the study's fit of the other is kept
    monkeypatch.setattr("forecasting.fits.code_digest", lambda: "code:other")
    assert predict_curves(warehouse, curves, systems).written == 0
    assert sorted(fitted) == ["ideal_scaling", "ideal_scaling", "linear"]
    predict_curves(warehouse, curves, systems)
    assert len(fitted) == 3


def test_forecasts_name_the_prices_that_they_rest_on(warehouse: Warehouse) -> None:
    (first,) = asked(warehouse, torch_curves()[:1], "ideal_scaling").forecasts
    assert first.value is not None
    hour = first.usd_per_hour
    assert first.prices is not None and hour
    (price,) = first.prices
    assert (price.source, price.observed_at and price.observed_at.year) == (
        "declared, profilers/clusters/node_types.yaml",
        2026,
    )
    assert hour == pytest.approx(first.scenario.strategy.workers * price.usd_per_hour)
    samples = first.scenario.strategy.workers * first.scenario.workload.batch_size
    assert first.usd_per_million_samples == pytest.approx(hour / 3600 * first.value * 1e6 / samples)
    assert asked(warehouse, torch_curves()[:1], "ideal_scaling").written == 0
    land_price(warehouse, price.node_type, 9.0)
    again = asked(warehouse, torch_curves()[:1], "ideal_scaling")
    (second,) = again.forecasts
    assert (second.value, again.written) == (first.value, 1)
    assert second.usd_per_hour == pytest.approx(hour / price.usd_per_hour * 9)
    kept = warehouse.query("forecasts_of_fits").filter("merely_asked")["price_snapshot"]
    assert sorted(kept) == sorted(filter(None, [first.price_snapshot, second.price_snapshot]))
    snapshots = read_only(warehouse.home, "FROM pred.price_snapshot ORDER BY usd_per_hour")
    assert snapshots["usd_per_hour"].to_list() == [price.usd_per_hour, 9.0]


def land_price(warehouse: Warehouse, node_type: str, usd_per_hour: float) -> None:
    """Let a price be seen now."""
    now = datetime.now(UTC)
    run = made_run("seen", "prices", now, study="prices", backend="imported", host_id="aws")
    price = ("aws", node_type, "us-east-1", "on_demand", usd_per_hour, now, "seen")
    columns = "provider node_type region market usd_per_hour observed_at source"
    land(warehouse.landing, run, None, {"price": raw_table("price", columns, [price])})
    warehouse.load()


def test_a_dry_run_writes_nothing(warehouse: Warehouse) -> None:
    before = (warehouse.home / "warehouse.duckdb").read_bytes()
    answer = asked(warehouse, [async_curve(workers=[8])], "linear", "line_rate", dry_run=True)
    assert (len(answer.forecasts), answer.written) == (2, 0)
    assert warehouse.query("predictions").filter(pl.col("study").is_null()).is_empty()
    assert (warehouse.home / "warehouse.duckdb").read_bytes() == before


def test_refusals_name_what_to_measure(warehouse: Warehouse) -> None:
    answer = asked(warehouse, torch_curves(dnn="resnet18", image_size=64, workers=[2, 4])[1:])
    assert answer.forecasts == ()
    reasons = {refusal.system.name: refusal for refusal in answer.refused if not refusal.foreign}
    of_train = {"ceer_pytorch", "ceer_pytorch_paper", "ernest_pooled", "log_linear", "predictddl"}
    assert set(reasons) == {"ideal_scaling", "srift", "srift_paper", *of_train}
    wanted = "no torch_compute of resnet18 64px on emu.avx512.s15"
    assert reasons["srift"].reason == reasons["ideal_scaling"].reason == wanted
    (missing,) = reasons["srift"].lacking
    assert missing.minutes is not None
    assert missing.minutes > 0
    assert all(needed.of_train for name in of_train for needed in reasons[name].lacking)
    foreign = {refusal.system.name for refusal in answer.refused if refusal.foreign}
    assert foreign >= {"async_sgd", "ceer"}
    slower = asked(warehouse, torch_curves(link_mbps=100)[1:], "srift")
    assert [refusal.reason for refusal in slower.refused] == [
        "no links of 100 Mb/s, no allreduce of emu.avx512.s15 on 100 Mb/s links"
    ]


def test_a_run_of_an_order_that_only_early_editions_had_is_read_and_not_forecast(
    warehouse: Warehouse,
) -> None:
    (scenario,) = async_curve(workers=[2]).scenarios("emulated")
    strategy = scenario.strategy.model_copy(update={"order": "reverse"})
    reverse = scenario.model_copy(update={"strategy": strategy})
    began = datetime(2020, 1, 1, tzinfo=UTC)
    run = made_run("early", "tf_throughput", began, scenario_id=reverse.scenario_id)
    land(warehouse.home / "landing", run, reverse, {})
    assert warehouse.load().loaded == ("early",)
    assert len(asked(warehouse, [async_curve(workers=[8])], "linear").forecasts) == 1
    refused = systems_named(["linear"])[0].requires(reverse)
    assert isinstance(refused, Refusal) and "in reverse order" in refused.reason


def test_what_cannot_be_fitted_is_a_refusal_with_its_reason(warehouse: Warehouse) -> None:
    def fails(*_: object) -> NoReturn:
        raise BadInput("too few rows")

    (linear,) = systems_named(["linear"])
    other = replace(linear, fit=fails, version="other")  # no fit of it is kept
    answer = predict_curves(warehouse, [async_curve(workers=[8])], [other])
    assert [refusal.reason for refusal in answer.refused] == ["too few rows"]
    assert answer.written == 0


def test_questions_that_cannot_be(warehouse: Warehouse, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="unknown DNN 'smal_cnn'"):
        asked(warehouse, [async_curve(dnn="smal_cnn")])
    with pytest.raises(BadInput, match="needs images of at least 16 pixels"):
        asked(warehouse, [async_curve(image_size=8)])
    with pytest.raises(ValueError, match=r"unknown node type 'emu.none'"):
        async_curve(worker="emu.none")
    with pytest.raises(BadInput, match=r"no nodes of type 'emu.native.s25' on backend ssh"):
        predict_curves(warehouse, [async_curve()], systems_named(["linear"]), backend="ssh")
    empty = Warehouse(tmp_path / "empty")
    with pytest.raises(BadInput, match="nothing has been profiled yet; run a study first"):
        asked(empty, [async_curve()])


START = datetime(2026, 1, 1, tzinfo=UTC)


def run(
    probe: str, scenario: Scenario | None, round_: int, config: dict[str, Any] | None = None
) -> VisibleRun:
    """Return a run of a round; later rounds are newer."""
    speed = 200.0 if scenario is None else scenario.link_mbps
    return VisibleRun(
        run_id=f"{probe}-{round_}-{len(config or {})}",
        subject=Subject(probe, scenario, speed, config or {}),
        round=("study", round_),
        backend="emulated",
        host_id="host",
        started_at=START + timedelta(hours=round_),
    )


def test_the_newest_round_that_has_everything_counts() -> None:
    scenario = async_curve().scenario(1, "emulated")
    needed = [
        Requirement("tf_trace", "own", scenario),
        Requirement("links", "cluster", scenario),
        Requirement("contention", "cluster", scenario, optional=True),
    ]
    runs = [
        run("links", None, 3),
        run("links", None, 2),
        run("tf_trace", scenario, 2),
        run("links", None, 1),
        run("tf_trace", scenario, 1),
        run("contention", None, 1, {"worker": "emu.native.s25"}),
    ]
    selected, _ = select_runs(needed, RunIndex(runs))
    assert {chosen.run_id for chosen in selected} == {"links-2-0", "tf_trace-2-0"}
    mixed, _ = select_runs(needed, RunIndex([runs[0], *runs[4:]]))
    assert [chosen.run_id for chosen in mixed] == ["links-3-0", "tf_trace-1-0"]
    assert select_runs(needed, RunIndex(runs[:2]))[1] == (needed[0],)


def test_links_of_nodes_with_other_devices_do_not_do() -> None:
    scenario = torch_curves()[0].scenario(2, "emulated")
    rings = Requirement("allreduce", "cluster", scenario)
    of = {"worker": "emu.avx512.c15", "world_size": 2}
    for devices, lacking in ((2, (rings,)), (1, ())):
        ran = run("allreduce", None, 1, {**of, "devices_per_node": devices})
        assert select_runs([rings], RunIndex([ran]))[1] == lacking


def test_of_all_that_trains_the_newest_of_each_counts() -> None:
    scenario = torch_curves()[0].scenario(2, "emulated")
    others = [torch_curves(dnn=dnn)[0].scenario(1, "emulated") for dnn in ("vgg11", "alexnet")]
    runs = [
        run("tf_sync", others[0], 2),
        run("tf_sync", others[1], 1),
        run("tf_sync", others[0], 1),
    ]
    selected, _ = select_runs([Requirement("tf_sync", "train", scenario)], RunIndex(runs))
    assert selected == tuple(runs[:2])


@pytest.mark.parametrize("probe", sorted(PROBES))
def test_what_is_lacking_has_words_and_minutes(probe: str) -> None:
    trained = async_curve() if "tf_t" in probe or probe == "contention" else torch_curves()[0]
    scenario = trained.scenario(2, "emulated")
    for scope in ("own", "train", "cluster"):
        (missing,) = find_missing_runs([Requirement(probe, scope, scenario)])
        assert missing.text.startswith(f"{probe} of ")
        assert total_minutes([missing, missing]) == missing.minutes
