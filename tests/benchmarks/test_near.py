"""The check of errors nearby, on errors that are known."""

from dataclasses import replace

import pytest

from benchmarks.near import LEAST, checked, ends, estimates
from forecasting.asked.near import Judged, Neighbour
from tests.forecasting.test_near import judged, scenario


def of(errors: dict[int, float]) -> list[Neighbour]:
    """Return judged scenarios of so many workers, in the same split."""
    made = judged({scenario(workers): error for workers, error in errors.items()})
    return [replace(one, split="held_out_world_size") for one in made.of["srift", "step_time_s"]]


def test_a_scenario_says_nothing_of_itself() -> None:
    ours = of({1: 100.0, 2: 1.0, 4: 2.0, 8: 3.0})
    found = estimates(ours[0], ours)
    assert found == {"nearest": 2.0, "split": 2.0, "both": 2.0, "all": 2.0}


def test_the_nearest_are_told_from_the_others() -> None:
    ours = of({workers: float(workers) for workers in (1, 2, 3, 4, 5, 6, 7, 64)})
    found = estimates(ours[0], ours)
    assert found is not None
    assert found["nearest"] == pytest.approx((2 + 3 + 4 + 5 + 6) / 5)
    assert found["split"] == pytest.approx((2 + 3 + 4 + 5 + 6 + 7 + 64) / 7)
    alone = replace(ours[0], split="held_out_dnn")
    assert estimates(alone, [alone, *ours[1:]]) is None


def test_errors_that_grow_with_workers_are_expected_from_the_nearest() -> None:
    """Errors follow the number of workers, so the nearest rank them and the split cannot."""
    ours = of({2**power: float(power) for power in range(LEAST + 2)})
    (row,) = checked(Judged({("srift", "step_time_s"): ours})).to_dicts()
    assert (row["system"], row["n"], row["mape"]) == ("srift", 12, pytest.approx(5.5))
    assert row["nearest_rank"] > 0.8
    # Without it, the mean of the others falls as its own error rises.
    assert row["split_rank"] == pytest.approx(-1)
    assert row["nearest_off"] < row["split_off"]
    few = of({2**power: 1.0 for power in range(LEAST - 1)})
    assert checked(Judged({("srift", "step_time_s"): few})).is_empty()


def test_ends_are_set_beside_the_rest() -> None:
    rows = ends(Judged({("srift", "step_time_s"): of({1: 1.0, 2: 2.0, 8: 9.0})})).to_dicts()
    assert rows == [
        {
            "system": "srift",
            "coordinate": "workers",
            "end": 8.0,
            "n": 1,
            "error": 9.0,
            "elsewhere_n": 2,
            "elsewhere": 1.5,
        }
    ]
