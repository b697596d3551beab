"""Every committed study needs what it has always needed; see `tests.yardstick`."""

import json

import polars as pl
import pytest

from tests.yardstick.needs import NEEDS, needs
from tests.yardstick.predictions import KEY, differences


def test_needs_are_those_of_the_yardstick() -> None:
    expected = json.loads(NEEDS.read_text())

    actual = needs()

    assert actual.keys() == expected.keys()
    for name, starts in actual.items():
        assert starts == expected[name], f"{name}; see python -m tests.yardstick needs"


def _rows(value: float, saw: str, low: float | None = None) -> pl.DataFrame:
    key = {name: 1 if name == "repeat" else name for name in KEY}
    figures = pl.DataFrame(
        [{"value": value, "low": low, "high": None}],
        pl.Schema({"value": pl.Float64, "low": pl.Float64, "high": pl.Float64}),
    )
    return pl.concat([pl.DataFrame([key]), figures], how="horizontal").with_columns(saw=pl.lit(saw))


def test_figures_are_compared_as_shares_and_missing_ones_are_no_figures() -> None:
    name = ", ".join("1" if key == "repeat" else key for key in KEY)

    assert not [*differences(_rows(1e6, "a"), _rows(1e6 + 1e-4, "a"), 1e-9)]
    assert [*differences(_rows(1.0, "a"), _rows(1.1, "b", low=0.5), 1e-9)] == [
        f"{name}: its fit saw b, not a",
        f"{name}: value 1.1, not 1.0",
        f"{name}: low 0.5, not None",
    ]


@pytest.mark.parametrize(("how", "turned"), [("gone", False), ("new", True)])
def test_a_forecast_on_one_side_only_is_told(how: str, turned: bool) -> None:
    some, none = _rows(1.0, "a"), _rows(1.0, "a").clear()

    (line,) = differences(*((none, some) if turned else (some, none)), 1e-9)

    assert line.startswith(f"{how}: study, 1, ")
