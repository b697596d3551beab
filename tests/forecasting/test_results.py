"""A round's results: one row per scenario, whatever of it has been judged."""

from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import polars as pl
import pytest

from forecasting.inputs import primary_systems
from forecasting.results import (
    JUDGED,
    Summary,
    by_system,
    outcome,
    summary,
    titles,
    unjudged_labels,
)
from reports.wording import headline
from studies.rounds import Round
from studies.study import read_study
from tests.synthetic import DDP, HOST, SYNCHRONOUS, opened, write_study


@pytest.fixture
def round_(study_file: Path) -> Round:
    """Return a round of four scenarios: W=1, 2 and W=1, 3."""
    return opened(read_study(study_file), "emulated", HOST, [])


def judged(round_: Round, errors: dict[int, float], **changes: object) -> pl.DataFrame:
    """Return rows of report.accuracy for scenarios by their place in the round."""
    scenarios = [
        scenario for curve in round_.study.curves for scenario in curve.scenarios("emulated")
    ]
    rows = [
        {
            "study": "paper",
            "repeat": 1,
            "backend": "emulated",
            "host_id": HOST,
            "metric": "throughput_steps_per_s",
            "system": system,
            "scenario_id": scenarios[place].scenario_id,
            "predicted": factor * (100 + error),
            "low": None,
            "high": None,
            "measured": 100.0,
            "error_percent": factor * (100 + error) - 100,
            "spread_percent": 1.0,
            "split": "seen",
            "host_busy": False,
            "noise_floor_percent": 2.0 if place == 1 else None,
            "noise_runs": 0,
            "prediction_id": f"{system} {place}",
            "made_at": datetime(2030, 1, 1, tzinfo=UTC),
        }
        | changes
        for place, error in errors.items()
        for system, factor in (("async_sgd", 1.0), ("linear", 2.0))
    ]
    extra = {"made_at": pl.Datetime("us", "UTC")}
    return pl.DataFrame(rows, schema_overrides={**JUDGED, **extra})


def test_what_predictors_may_see_whole_is_not_judged(tmp_path: Path) -> None:
    study = read_study(write_study(tmp_path, SYNCHRONOUS))
    study_round = opened(study, "emulated", HOST, [])
    judged_ones = judged(study_round, {2: 3.0}, metric="step_time_s", system="ceer")
    rows = outcome(study_round, judged_ones.unique("scenario_id"))
    assert rows["dnn"].to_list() == ["small_cnn"]
    assert unjudged_labels(study_round, judged_ones) == []


def test_every_scenario_has_a_row_in_the_order_of_the_study(round_: Round) -> None:
    judged_ones = judged(round_, {3: 5.0, 0: -1.0})
    rows = outcome(round_, judged_ones)
    assert rows["workers"].to_list() == [1, 2, 1, 3]
    assert rows["curve"].to_list() == [0, 0, 1, 1]
    assert rows["error_percent"].to_list() == pytest.approx([-1.0, None, None, 5.0])
    assert rows["linear"].to_list() == pytest.approx([198.0, None, None, 210.0])
    # Whatever system forecast it: some refuse what others do not.
    for some in (judged_ones, judged_ones.filter(system="linear")):
        assert unjudged_labels(round_, some) == [
            "small_cnn 16px b4, 200 Mb/s, W=2",
            "alexnet 64px b4, 200 Mb/s, W=1",
        ]


@pytest.mark.parametrize(
    "changes",
    [{"study": "other"}, {"repeat": 2}, {"backend": "loopback"}, {"host_id": "2"}, {"metric": "x"}],
)
def test_rows_of_other_rounds_are_left_out(round_: Round, changes: dict[str, object]) -> None:
    assert len(unjudged_labels(round_, judged(round_, {0: 1.0}, **changes))) == 4


def test_the_summary_is_of_scenarios_with_several_workers(round_: Round) -> None:
    rows = outcome(round_, judged(round_, {0: 50.0, 1: -4.0, 3: 8.0}))
    assert summary(rows) == Summary(
        n=2,
        busy_n=0,
        error=6.0,
        linear_error=cast(float, pytest.approx(104.0)),
        noise_floor=2.0,
        noise_n=1,
    )
    assert headline(summary(rows), "linear scaling") == (
        "Mean absolute error over W ≥ 2: 6.0 % (n = 2); noise floor 2.0 % (n = 1); "
        "linear scaling errs by 104.0 %."
    )


def test_a_busy_host_s_scenarios_are_left_out_of_the_summary(round_: Round) -> None:
    several = judged(round_, {1: -4.0, 3: 8.0})
    first = several["scenario_id"][0]
    busy = several.with_columns(host_busy=pl.col("scenario_id") == first)
    figures = summary(outcome(round_, busy))
    assert (figures.n, figures.busy_n, figures.error) == (1, 1, 8.0)
    assert headline(figures, "linear scaling").endswith(" Not counted, the host being busy: 1.")


def test_systems_stand_beside_each_other_by_network(round_: Round) -> None:
    rows = by_system(round_, judged(round_, {0: -2.0, 1: -4.0, 2: 6.0, 3: 8.0}))
    assert rows.select("system", "dnn", "n").rows() == [
        ("async_sgd", "alexnet", 1), ("async_sgd", "small_cnn", 1), ("async_sgd", None, 2),
        ("linear", "alexnet", 1), ("linear", "small_cnn", 1), ("linear", None, 2),
    ]  # fmt: skip
    assert rows["mean_ape_percent"].to_list() == pytest.approx([8, 4, 6, 116, 92, 104])
    assert rows["w1_error_percent"].to_list() == pytest.approx([6, -2, 2, 112, 96, 104])
    late = judged(round_, {1: 1.0}, made_at=datetime(2030, 1, 2, tzinfo=UTC))
    newest = by_system(round_, pl.concat([late, judged(round_, {1: -3.0})]))
    assert newest.filter(system="async_sgd", dnn="small_cnn")["mean_ape_percent"].item() == 1
    assert by_system(round_, judged(round_, {1: 0.0}, repeat=2)).is_empty()


def test_jobs_that_differ_in_nodes_alone_are_told_apart_by_them(tmp_path: Path) -> None:
    mixed = DDP.replace("batch_size: 8", "batch_size: 4")
    chosen = "framework: pytorch, strategy: all_reduce, image_size: 32, link_mbps: 800, mix: "
    mix = f"  - {{dnn: resnet18, {chosen} 2 emu.avx2.c25@4 + 1 emu.native.c25@8}}\n"
    study = read_study(write_study(tmp_path, mixed + mix))
    curve = "resnet18 32px b4, 800 Mb/s, all-reduce"
    assert titles(study, "emulated") == [
        f"{curve}, emu.native.c25",
        f"{curve}, emu.native.c25 + emu.avx2.c25",
        f"{curve}, 2 emu.avx2.c25 + 1 emu.native.c25 b8",
    ]
    alone = read_study(write_study(tmp_path, DDP))
    assert titles(alone, "emulated")[0] == curve


def test_what_stands_beside_a_system_does_not_stand_in_for_it(study_file: Path) -> None:
    study = read_study(study_file)
    shown = primary_systems(study)
    assert shown[0] == "async_sgd"
    assert not {"lin", "linear", "async_sgd_paper"} & {*shown}
    baselines_only = study.model_copy(update={"systems": ("lin", "linear")})
    assert primary_systems(baselines_only) == ("lin", "linear")
