"""Where the largest errors come from, from landed runs alone."""

from dataclasses import dataclass, replace
from math import pi, sqrt
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import cast

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecasting.async_sgd import FittedModels
from forecasting.findings.errors import (
    FLOORS,
    LARGEST,
    VISITS,
    causes,
    floors,
    largest_errors,
    select_largest,
    visits_of,
)
from profilers.steady.host import host_id
from studies import run_tables
from studies.rounds import Round
from studies.study import read_study
from tests.synthetic import MIXED, PaperProbes, opened, profiled, write_study
from warehouse.landing import landed_runs
from warehouse.records import BadInput

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


def visits(values: dict[str, list[float]]) -> pl.DataFrame:
    """Return what scenarios took, visit by visit."""
    rows = [
        (visit, scenario, value)
        for scenario, of in values.items()
        for visit, value in enumerate(of, start=1)
    ]
    return pl.DataFrame(rows, schema=VISITS, orient="row")


def test_the_mean_of_two_is_off_by_half_of_what_they_differ_by() -> None:
    table = floors(visits({"x": [0.9, 1.1]}))
    assert table.schema == pl.Schema(FLOORS)
    (of,) = table.to_dicts()
    assert of["floor_percent"] == pytest.approx(10)
    assert (of["visits"], of["pairs"]) == (2, 1)


def test_three_visits_are_three_pairs() -> None:
    (of,) = floors(visits({"x": [1.0, 1.0, 3.0]})).to_dicts()
    assert (of["visits"], of["pairs"]) == (3, 3)
    assert of["floor_percent"] == pytest.approx(100 * (0 + 0.5 + 0.5) / 3)


@pytest.mark.parametrize(("rounds", "part"), [(1, sqrt(2)), (2, 1.0), (4, sqrt(0.5)), (8, 0.5)])
def test_more_rounds_have_a_lower_floor(rounds: int, part: float) -> None:
    table = floors(visits({"x": [0.9, 1.1]}), rounds)
    assert table["floor_percent"].item() == pytest.approx(10 * part)


@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_of_normal_noise_it_is_how_far_means_really_are_from_the_truth(rounds: int) -> None:
    """The oracle is drawn anew: means of k values, and how far they are from what they are of."""
    chance, sd = Random(7), 0.04
    drawn = [1 + chance.gauss(0, sd) for _ in range(400)]
    floor_percent = floors(visits({"x": drawn}), rounds)["floor_percent"].item()
    off = [abs(sum(chance.gauss(0, sd) for _ in range(rounds)) / rounds) for _ in range(20_000)]
    assert floor_percent == pytest.approx(100 * sum(off) / len(off), rel=0.1)
    assert floor_percent == pytest.approx(100 * sd * sqrt(2 / (pi * rounds)), rel=0.1)


def test_what_was_measured_once_has_no_floor() -> None:
    assert floors(visits({"x": [1.0]})).height == 0


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan")])
def test_what_is_no_duration_is_refused(wrong: float) -> None:
    with pytest.raises(BadInput, match="x, visit 2: expected more than 0, found"):
        floors(visits({"x": [1.0, wrong]}))


@given(
    st.lists(st.floats(0.1, 10), min_size=2, max_size=6),
    st.floats(0.01, 100),
    st.integers(1, 10),
)
def test_it_is_the_same_in_any_unit_and_order(
    values: list[float], unit: float, rounds: int
) -> None:
    floor_percent = floors(visits({"x": values}), rounds)["floor_percent"].item()
    scaled = visits({"x": [unit * value for value in reversed(values)]})
    assert floor_percent == pytest.approx(floors(scaled, rounds)["floor_percent"].item())
    assert floor_percent >= 0


def test_a_run_that_a_later_round_goes_on_with_is_no_second_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measured(repeat: int, **of: int) -> Round:
        runs = {Measured(label): SimpleNamespace(repeat=first) for label, first in of.items()}
        made_up = SimpleNamespace(repeat=repeat, runs_of=lambda name: runs if name == PROBE else {})
        return cast("Round", made_up)

    steps = pl.DataFrame({"metric": ["step_time_s"] * 2, "value": [1.0, 3.0]})
    monkeypatch.setattr(run_tables, "table", lambda *_: steps)
    rows = visits_of([measured(1, train=1, test=1), measured(2, train=1, test=2)], Path())
    assert rows.rows() == [(1, "train", 2.0), (1, "test", 2.0), (2, "test", 2.0)]
