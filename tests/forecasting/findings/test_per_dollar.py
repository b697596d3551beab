"""What a dollar trains, by hand: examples an hour over the price of an hour."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from forecasting.costs import examples_per_step
from forecasting.findings import study as module
from forecasting.findings.study import per_dollar
from profilers.clusters.node_types import declared_usd_per_hour
from studies.rounds import Round
from studies.study import read_study
from tests.synthetic import DDP, STUDY, landed, needs, opened, write_study


def outcome(round_: Round, predicted: float | None, measured: float | None) -> pl.DataFrame:
    """Return a row for each scenario that is judged."""
    ids = [
        scenario.scenario_id
        for curve in round_.study.curves
        if curve.is_judged
        for scenario in curve.scenarios(round_.backend)
    ]
    schema = {"scenario_id": pl.String, "predicted": pl.Float64, "measured": pl.Float64}
    return pl.DataFrame([(one, predicted, measured) for one in ids], schema, orient="row")


def test_asynchronous_steps_are_of_one_worker(tmp_path: Path) -> None:
    """4 images a step; a quarter core costs 0.06 an hour, the server 0.08."""
    round_ = opened(read_study(write_study(tmp_path, STUDY)))
    found = per_dollar(round_, outcome(round_, 2.0, None))
    assert found is not None
    assert found["usd_per_hour"].to_list() == pytest.approx([0.14, 0.20, 0.14, 0.26])
    assert found["predicted"].to_list() == pytest.approx(
        [3600 * 2 * 4 / usd for usd in (0.14, 0.20, 0.14, 0.26)]
    )
    assert found["measured"].null_count() == 4


def test_synchronous_steps_are_of_all_workers(tmp_path: Path) -> None:
    round_ = opened(read_study(write_study(tmp_path, DDP)))
    scenarios = [
        scenario for curve in round_.study.curves for scenario in curve.scenarios("emulated")
    ]
    assert [examples_per_step(scenario) for scenario in scenarios] == [8, 12, 24]
    found = per_dollar(round_, outcome(round_, 0.5, 0.25))
    assert found is not None
    for row, scenario in zip(found.to_dicts(), scenarios, strict=True):
        usd = declared_usd_per_hour(scenario.nodes)
        assert usd is not None
        assert row["predicted"] == pytest.approx(3600 * examples_per_step(scenario) / 0.5 / usd)
        assert row["measured"] == pytest.approx(2 * row["predicted"])


def test_what_the_run_cost_counts_before_what_types_declare(tmp_path: Path) -> None:
    study = read_study(write_study(tmp_path, DDP))
    runs = [landed(need) for need in needs(study)]
    dear = [run.model_copy(update={"config": {**run.config, "usd_per_hour": 36.0}}) for run in runs]
    round_ = replace(opened(study), runs=tuple(dear))
    found = per_dollar(round_, outcome(round_, 1.0, 1.0))
    assert found is not None
    assert found["usd_per_hour"].to_list() == [36.0] * 3
    assert found["predicted"].to_list() == [800.0, 1200.0, 2400.0]


def test_without_prices_there_is_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "declared_usd_per_hour", lambda _: None)
    round_ = opened(read_study(write_study(tmp_path, STUDY)))
    assert per_dollar(round_, outcome(round_, 1.0, 1.0)) is None
