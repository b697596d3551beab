"""Where the largest errors come from, from landed runs alone."""

from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
import pytest

from forecasting.async_sgd import FittedModels
from forecasting.findings.errors import (
    LARGEST,
    causes,
    largest_errors,
    select_largest,
)
from profilers.steady.host import host_id
from studies.rounds import Round
from studies.study import read_study
from tests.synthetic import MIXED, PaperProbes, opened, profiled, write_study
from warehouse.landing import landed_runs

ERRORS = {"label": pl.String, "workers": pl.Int32, "error_percent": pl.Float64}


@pytest.fixture
def landing(home: Path) -> Path:
    return home / "landing"


@pytest.fixture
def round_(study_file: Path, landing: Path, probes: PaperProbes) -> Round:
    """Return a round whose profiles have landed."""
    study_round = opened(read_study(study_file), "loopback", host_id(), landed_runs(landing))
    return profiled(study_round, landing)


def judged(round_: Round) -> pl.DataFrame:
    """Return results in which predictions are 25 % too high for W > 1, and right for W = 1."""
    rows = [
        {
            "curve": index,
            "label": scenario.label,
            "workers": scenario.strategy.workers,
            "scenario_id": scenario.scenario_id,
            "predicted": 10.0,
            "measured": 10.0 if scenario.strategy.workers == 1 else 8.0,
            "error_percent": 0.0 if scenario.strategy.workers == 1 else 25.0,
        }
        for index, curve in enumerate(round_.study.curves)
        for scenario in curve.scenarios("loopback")
    ]
    return pl.DataFrame(rows)


def shown(round_: Round, rows: pl.DataFrame, landing: Path) -> pl.DataFrame | None:
    """Return the largest errors of a round with what they are due to."""
    return largest_errors(round_, rows, landing, FittedModels(round_, landing))


def test_the_largest_errors_come_first_and_no_other_than_judged_ones_of_several() -> None:
    rows = [("a", 2, -3.0), ("b", 2, None), ("c", 1, 90.0), ("d", 3, 4.0)]
    frame = pl.DataFrame(rows, schema=ERRORS, orient="row")
    assert select_largest(frame)["label"].to_list() == ["d", "a"]
    many = pl.concat([frame] * 10)
    assert select_largest(many)["label"].to_list() == ["d"] * LARGEST


def test_paper_profiles_replay_exactly_so_all_is_queueing(round_: Round, landing: Path) -> None:
    models = FittedModels(round_, landing)
    worst = select_largest(judged(round_))
    rows = causes(round_, worst, landing, models).to_dicts()
    assert len(rows) == 2
    for row, workers in zip(sorted(rows, key=lambda row: row["measured_s"]), (2, 3), strict=True):
        assert (row["predicted_s"], row["measured_s"]) == (workers / 10, workers / 8)
        for part in ("compute_s", "wire_s", "overlap_s"):
            assert row[part] == pytest.approx(0, abs=1e-6)
        assert row["queueing_s"] == pytest.approx(workers / 10 - workers / 8, abs=1e-5)


def test_without_judged_scenarios_there_are_none(round_: Round, landing: Path) -> None:
    nothing = judged(round_).with_columns(error_percent=pl.lit(None, pl.Float64))
    errors = shown(round_, nothing, landing)
    assert errors is not None and errors.is_empty()


def test_without_profiles_errors_cannot_be_told_apart(round_: Round, landing: Path) -> None:
    bare = replace(round_, runs=())
    assert shown(bare, judged(bare), landing) is None


def test_mixed_workers_have_no_part_in_it(
    tmp_path: Path, landing: Path, probes: PaperProbes
) -> None:
    study = read_study(write_study(tmp_path, MIXED))
    round_ = profiled(opened(study, "loopback", host_id(), []), landing)
    errors = shown(round_, judged(round_), landing)
    assert errors is not None
    assert "alexnet 64px b4, unshaped, W=3" in errors["label"]
    assert not [label for label in errors["label"] if "small_cnn" in label]


PROBE = "torch_throughput"


@dataclass(frozen=True)
class Measured:
    """Stands for a need and for its scenario."""

    label: str

    @property
    def scenario(self) -> "Measured":
        return self
