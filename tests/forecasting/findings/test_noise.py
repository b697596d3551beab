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

from forecasting.findings.noise import FLOORS, VISITS, floors, over_all, visits_of
from studies import landed
from studies.rounds import Round
from warehouse.records import BadInput

ANCHORS = {"a1", "a2", "a3"}
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


def row(frame: pl.DataFrame, scenario: str) -> dict[str, object]:
    (found,) = frame.filter(scenario=scenario).to_dicts()
    return found


def test_the_mean_of_two_is_off_by_half_of_what_they_differ_by() -> None:
    found = floors(visits({"x": [0.9, 1.1]}), set())
    assert found.schema == pl.Schema(FLOORS)
    (of,) = found.to_dicts()
    assert of["floor_percent"] == pytest.approx(10)
    assert (of["visits"], of["pairs"], of["is_anchor"]) == (2, 1, False)
    assert (of["anchored_visits"], of["before_percent"], of["anchored_percent"]) == (0, None, None)


def test_three_visits_are_three_pairs() -> None:
    (of,) = floors(visits({"x": [1.0, 1.0, 3.0]}), set()).to_dicts()
    assert (of["visits"], of["pairs"]) == (3, 3)
    assert of["floor_percent"] == pytest.approx(100 * (0 + 0.5 + 0.5) / 3)


@pytest.mark.parametrize(("rounds", "part"), [(1, sqrt(2)), (2, 1.0), (4, sqrt(0.5)), (8, 0.5)])
def test_more_rounds_have_a_lower_floor(rounds: int, part: float) -> None:
    found = floors(visits({"x": [0.9, 1.1]}), set(), rounds)
    assert found["floor_percent"].item() == pytest.approx(10 * part)


@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_of_normal_noise_it_is_how_far_means_really_are_from_the_truth(rounds: int) -> None:
    """The oracle is drawn anew: means of k values, and how far they are from what they are of."""
    chance, sd = Random(7), 0.04
    drawn = [1 + chance.gauss(0, sd) for _ in range(400)]
    found = floors(visits({"x": drawn}), set(), rounds)["floor_percent"].item()
    off = [abs(sum(chance.gauss(0, sd) for _ in range(rounds)) / rounds) for _ in range(20_000)]
    assert found == pytest.approx(100 * sum(off) / len(off), rel=0.1)
    assert found == pytest.approx(100 * sd * sqrt(2 / (pi * rounds)), rel=0.1)


def planted(sd_of_host: float, sd_of_each: float, n: int = 60) -> pl.DataFrame:
    """Return three anchors and three others on a host that is as slow as chance has it."""
    chance = Random(3)
    host = [1 + chance.gauss(0, sd_of_host) for _ in range(n)]
    names = [*sorted(ANCHORS), "x", "y", "z"]
    return visits(
        {
            name: [(1 + place) * slow * (1 + chance.gauss(0, sd_of_each)) for slow in host]
            for place, name in enumerate(names)
        }
    )


def test_anchors_take_away_what_all_share() -> None:
    rows = floors(planted(0.08, 0.0), ANCHORS)
    assert rows.height == 6
    whole = over_all(rows)
    assert (whole.n, whole.anchored_n) == (6, 6)
    assert whole.before == whole.floor == pytest.approx(100 * 0.08 / sqrt(pi), rel=0.15)
    assert whole.after == pytest.approx(0, abs=1e-9)
    assert whole.taken_away == pytest.approx(1)


def test_anchors_add_their_own_noise_where_nothing_is_shared() -> None:
    """Means of three: the noise of a scenario and a third of that of an anchor, as variances."""
    whole = over_all(floors(planted(0.0, 0.05), ANCHORS).filter(~pl.col("is_anchor")))
    assert whole.taken_away == pytest.approx(1 - sqrt(1 + 1 / 3), abs=0.1)


def test_of_both_kinds_of_noise_they_take_away_the_shared_one() -> None:
    others = floors(planted(0.08, 0.02), ANCHORS).filter(~pl.col("is_anchor"))
    whole = over_all(others)
    assert whole.after == pytest.approx(100 * 0.02 * sqrt(4 / 3) / sqrt(pi), rel=0.25)
    assert whole.taken_away is not None
    assert whole.taken_away > 0.5


def test_an_anchor_is_divided_by_the_others() -> None:
    """All of its difference stays: the two others say the host was the same."""
    values = {"a1": [1.0, 1.2], "a2": [1.0, 1.0], "a3": [2.0, 2.0]}
    found = row(floors(visits(values), ANCHORS), "a1")
    assert found["is_anchor"] is True
    assert found["anchored_percent"] == found["before_percent"] == found["floor_percent"]
    alone = floors(visits({"a1": [1.0, 1.2]}), {"a1"})
    assert row(alone, "a1")["anchored_percent"] is None


def test_only_visits_with_all_anchors_are_divided() -> None:
    values = {"a1": [1.0, 2.0, 1.0], "a2": [1.0, 2.0], "x": [1.0, 2.0, 9.0]}
    found = row(floors(visits(values), {"a1", "a2"}), "x")
    assert (found["visits"], found["anchored_visits"]) == (3, 2)
    assert found["anchored_percent"] == pytest.approx(0)
    assert found["before_percent"] == pytest.approx(100 / 3)
    once = row(floors(visits({"a1": [1.0], "x": [1.0, 2.0]}), {"a1"}), "x")
    assert (once["anchored_visits"], once["anchored_percent"]) == (1, None)


def test_what_was_measured_once_has_no_floor() -> None:
    rows = floors(visits({"x": [1.0]}), set())
    assert rows.height == 0
    whole = over_all(rows)
    assert (whole.n, whole.floor, whole.before, whole.taken_away) == (0, None, None, None)


def test_equal_values_have_a_floor_of_nothing_and_nothing_is_taken_away() -> None:
    whole = over_all(floors(visits({"a1": [1.0, 1.0], "x": [2.0, 2.0]}), {"a1"}))
    assert (whole.floor, whole.after, whole.taken_away) == (0, 0, None)


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan")])
def test_what_is_no_duration_is_refused(wrong: float) -> None:
    with pytest.raises(BadInput, match="x, visit 2: expected more than 0, found"):
        floors(visits({"x": [1.0, wrong]}), set())


def test_two_values_of_a_visit_are_refused() -> None:
    twice = pl.concat([visits({"x": [1.0]})] * 2)
    with pytest.raises(BadInput, match="x: expected one value of visit 1, found two"):
        floors(twice, set())


@given(
    st.lists(st.floats(0.1, 10), min_size=2, max_size=6),
    st.floats(0.01, 100),
    st.integers(1, 10),
)
def test_it_is_the_same_in_any_unit_and_order(
    values: list[float], unit: float, rounds: int
) -> None:
    found = floors(visits({"x": values}), set(), rounds)["floor_percent"].item()
    scaled = visits({"x": [unit * value for value in reversed(values)]})
    assert found == pytest.approx(floors(scaled, set(), rounds)["floor_percent"].item())
    assert found >= 0


def test_a_run_that_a_later_round_goes_on_with_is_no_second_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measured(repeat: int, **of: int) -> Round:
        runs = {Measured(label): SimpleNamespace(repeat=first) for label, first in of.items()}
        found = SimpleNamespace(repeat=repeat, runs_of=lambda name: runs if name == PROBE else {})
        return cast("Round", found)

    steps = pl.DataFrame({"metric": ["step_time_s"] * 2, "value": [1.0, 3.0]})
    monkeypatch.setattr(landed, "table", lambda *_: steps)
    found = visits_of([measured(1, train=1, test=1), measured(2, train=1, test=2)], Path())
    assert found.rows() == [(1, "train", 2.0), (1, "test", 2.0), (2, "test", 2.0)]
