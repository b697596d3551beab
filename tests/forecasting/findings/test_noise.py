"""Floors of means of rounds, with noise that is known because it was planted."""

from dataclasses import dataclass
from math import pi, sqrt
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import cast

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecasting.findings.errors import FLOORS, VISITS, floors, visits_of
from studies import run_tables
from studies.rounds import Round
from warehouse.records import BadInput

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
    found = floors(visits({"x": [0.9, 1.1]}))
    assert found.schema == pl.Schema(FLOORS)
    (of,) = found.to_dicts()
    assert of["floor_percent"] == pytest.approx(10)
    assert (of["visits"], of["pairs"]) == (2, 1)


def test_three_visits_are_three_pairs() -> None:
    (of,) = floors(visits({"x": [1.0, 1.0, 3.0]})).to_dicts()
    assert (of["visits"], of["pairs"]) == (3, 3)
    assert of["floor_percent"] == pytest.approx(100 * (0 + 0.5 + 0.5) / 3)


@pytest.mark.parametrize(("rounds", "part"), [(1, sqrt(2)), (2, 1.0), (4, sqrt(0.5)), (8, 0.5)])
def test_more_rounds_have_a_lower_floor(rounds: int, part: float) -> None:
    found = floors(visits({"x": [0.9, 1.1]}), rounds)
    assert found["floor_percent"].item() == pytest.approx(10 * part)


@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_of_normal_noise_it_is_how_far_means_really_are_from_the_truth(rounds: int) -> None:
    """The oracle is drawn anew: means of k values, and how far they are from what they are of."""
    chance, sd = Random(7), 0.04
    drawn = [1 + chance.gauss(0, sd) for _ in range(400)]
    found = floors(visits({"x": drawn}), rounds)["floor_percent"].item()
    off = [abs(sum(chance.gauss(0, sd) for _ in range(rounds)) / rounds) for _ in range(20_000)]
    assert found == pytest.approx(100 * sum(off) / len(off), rel=0.1)
    assert found == pytest.approx(100 * sd * sqrt(2 / (pi * rounds)), rel=0.1)


def test_what_was_measured_once_has_no_floor() -> None:
    assert floors(visits({"x": [1.0]})).height == 0


def test_equal_values_have_a_floor_of_nothing() -> None:
    found = floors(visits({"x": [1.0, 1.0], "y": [2.0, 2.0]}))
    assert found["floor_percent"].to_list() == [0, 0]


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan")])
def test_what_is_no_duration_is_refused(wrong: float) -> None:
    with pytest.raises(BadInput, match="x, visit 2: expected more than 0, found"):
        floors(visits({"x": [1.0, wrong]}))


def test_two_values_of_a_visit_are_refused() -> None:
    twice = pl.concat([visits({"x": [1.0]})] * 2)
    with pytest.raises(BadInput, match="x: expected one value of visit 1, found two"):
        floors(twice)


@given(
    st.lists(st.floats(0.1, 10), min_size=2, max_size=6),
    st.floats(0.01, 100),
    st.integers(1, 10),
)
def test_it_is_the_same_in_any_unit_and_order(
    values: list[float], unit: float, rounds: int
) -> None:
    found = floors(visits({"x": values}), rounds)["floor_percent"].item()
    scaled = visits({"x": [unit * value for value in reversed(values)]})
    assert found == pytest.approx(floors(scaled, rounds)["floor_percent"].item())
    assert found >= 0


def test_a_run_that_a_later_round_goes_on_with_is_no_second_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measured(repeat: int, **of: int) -> Round:
        runs = {Measured(label): SimpleNamespace(repeat=first) for label, first in of.items()}
        found = SimpleNamespace(repeat=repeat, runs_of=lambda name: runs if name == PROBE else {})
        return cast("Round", found)

    steps = pl.DataFrame({"metric": ["step_time_s"] * 2, "value": [1.0, 3.0]})
    monkeypatch.setattr(run_tables, "table", lambda *_: steps)
    found = visits_of([measured(1, train=1, test=1), measured(2, train=1, test=2)], Path())
    assert found.rows() == [(1, "train", 2.0), (1, "test", 2.0), (2, "test", 2.0)]
