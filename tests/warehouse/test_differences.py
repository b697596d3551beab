"""What differs between two sides of the history, beside the noise floor."""

import json

import pytest

from tests.warehouse.conftest import Maker

METRIC = "throughput_steps_per_s"


def measure(make: Maker, run_id: str, *windows: float, repeat: int, **other: str | int) -> str:
    """Land a run of two workers, in a round of its own, and return its id."""
    node_type = str(other.get("node_type", "emu.avx2.1c"))
    scenario = make.scenario(int(other.get("workers", 2)), node_type=node_type)
    make.measure(run_id, scenario, windows, minute=60 * 24 * repeat, repeat=repeat)
    return run_id


def differences(
    make: Maker, base: list[str], other: list[str], **params: bool
) -> list[dict[str, object]]:
    make.warehouse.load()
    sides = {"base": json.dumps(base), "other": json.dumps(other)}
    return make.warehouse.query("differences", **sides, **params).to_dicts()


def test_repeats_of_each_side_are_the_noise(make: Maker) -> None:
    base = [measure(make, f"b{n}", value, repeat=n) for n, value in enumerate((2.0, 2.2), 1)]
    other = [measure(make, f"o{n}", value, repeat=n) for n, value in enumerate((3.0, 3.3), 3)]
    (row,) = differences(make, base, other)
    assert (row["metric"], row["unit"]) == (METRIC, "1/s")
    assert (row["base"], row["other"]) == (pytest.approx(2.1), pytest.approx(3.15))
    assert (row["base_runs"], row["other_runs"]) == (2, 2)
    assert row["difference_percent"] == pytest.approx(50)
    # Each run is forecast by the other of its side: 10 and 1 / 11 too much and too little, twice.
    assert row["noise_percent"] == pytest.approx((10 + 100 / 11) / 2)
    assert (row["noise_n"], row["noise_of"], row["is_larger"]) == (4, "repeats", True)
    assert row["times_noise"] == pytest.approx(50 / ((10 + 100 / 11) / 2))


def test_runs_of_neither_side_tell_of_the_noise_too(make: Maker) -> None:
    base, other = [measure(make, "b", 2.0, repeat=1)], [measure(make, "o", 2.1, repeat=2)]
    for number, value in enumerate((1.0, 2.0), 3):
        measure(make, f"n{number}", value, repeat=number)
    (row,) = differences(make, base, other)
    assert row["noise_percent"] == pytest.approx((100 + 50) / 2)
    assert (row["noise_n"], row["is_larger"]) == (2, False)


def test_without_repeats_windows_are_the_noise(make: Maker) -> None:
    base = [measure(make, "b", 1.9, 2.1, repeat=1)]
    other = [measure(make, "o", 2.0, 2.2, repeat=2)]
    (row,) = differences(make, base, other)
    assert row["difference_percent"] == pytest.approx(5)
    each = (0.2 / 1.9, 0.2 / 2.1, 0.2 / 2.0, 0.2 / 2.2)
    assert row["noise_percent"] == pytest.approx(100 * sum(each) / 4)
    assert (row["noise_n"], row["noise_of"], row["is_larger"]) == (4, "windows", False)


@pytest.mark.parametrize(
    ("repeats", "noise_of", "is_larger"), [(2, "windows", False), (5, "repeats", True)]
)
def test_repeats_that_agree_by_luck_count_alone_if_there_are_five(
    make: Maker, repeats: int, noise_of: str, is_larger: bool
) -> None:
    """Rounds of equal means, from windows that differ by a third."""
    base = [measure(make, f"b{n}", 2.0, 3.0, repeat=n) for n in range(1, repeats + 1)]
    other = [measure(make, "o", 2.2, 3.0, repeat=repeats + 1)]
    (row,) = differences(make, base, other)
    assert (row["noise_of"], row["is_larger"]) == (noise_of, is_larger)
    if noise_of == "repeats":
        assert (row["noise_n"], row["noise_percent"], row["times_noise"]) == (5, 0, None)


def test_what_has_no_counterpart_is_told(make: Maker) -> None:
    base = [measure(make, "b", 2.0, repeat=1, workers=1)]
    other = [measure(make, "o", 4.0, repeat=2, workers=2)]
    rows = differences(make, base, other)
    assert sorted((row["base"], row["other"]) for row in rows if row["base"]) == [(2.0, None)]
    assert [row["other"] for row in rows if row["base"] is None] == [4.0]
    assert {row["difference_percent"] for row in rows} == {None}


def test_node_types_are_compared_with_all_else_equal(make: Maker) -> None:
    base = [measure(make, f"b{w}", 2.0, repeat=1, workers=w) for w in (1, 2)]
    other = [
        measure(make, f"o{w}", 3.0, repeat=1, workers=w, node_type="emu.other") for w in (2, 3)
    ]
    assert len(differences(make, base, other)) == 4
    rows = differences(make, base, other, between_types=True)
    both = [row for row in rows if row["difference_percent"] is not None]
    assert [row["difference_percent"] for row in both] == [pytest.approx(50)]
    assert both[0]["label"] == make.scenario(2).label
    assert len(rows) == 3
