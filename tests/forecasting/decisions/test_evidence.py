"""Which past errors count: of other days at this distance first, and a default at last."""

from math import exp, inf, log

import polars as pl
import pytest

from forecasting.decisions.candidates import ACROSS_DAYS, WIDENED, Evidence, PastSystemErrors

NINE = [0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.3]


def rows(
    ratios: list[float],
    *,
    hours: float = 24,
    split: str = "held_out_dnn",
    system: str = "srift",
    metric: str = "step_time_s",
) -> pl.DataFrame:
    """Return rows as query time_ratios has them."""
    return pl.DataFrame({"ratio": ratios}).with_columns(
        system=pl.lit(system), metric=pl.lit(metric), split=pl.lit(split), hours_apart=pl.lit(hours)
    )


SAME = rows(NINE, hours=1)


@pytest.mark.parametrize(
    ("known", "basis"),
    [
        ([rows(NINE), rows(NINE * 2, hours=1)], "held out dnn, other days, n = 9"),
        ([rows(NINE[:8]), rows(NINE, split="seen"), SAME], "any distance, other days, n = 17"),
        ([SAME, rows(NINE[:8])], "held out dnn, same day, widened, n = 9"),
    ],
)
def test_other_days_come_first_and_then_the_same_day_widened(
    known: list[pl.DataFrame], basis: str
) -> None:
    evidence = Evidence(pl.concat(known), 0.1)
    assert evidence.errors("srift", "held_out_dnn", "step_time_s").ratios.basis == basis
    ratios = Evidence(SAME, 0.1).errors("srift", "held_out_dnn", "step_time_s").ratios
    assert ratios.high(0.1) == pytest.approx(exp(WIDENED * log(1.3)))
    assert ratios.low(0.1) == pytest.approx(exp(WIDENED * log(0.8)))


@pytest.mark.parametrize(
    "others", [rows(NINE, system="ceer"), rows(NINE, metric="other"), rows(NINE[:8])]
)
def test_a_system_that_was_not_judged_often_enough_has_the_default(others: pl.DataFrame) -> None:
    errors = Evidence(others, 0.1).errors("srift", "held_out_dnn", "step_time_s")
    assert errors.ratios.basis == "default: 11.3% in the mean"
    assert sum(abs(log(value)) for value in errors.ratios.values) / 99 == pytest.approx(
        ACROSS_DAYS, rel=0.05
    )
    assert errors.rank[0]


def test_of_a_host_without_steps_only_errors_of_such_forecasts_tell() -> None:
    """Neither errors at other distances nor a default: then there is no interval."""

    def of_host(*some: pl.DataFrame) -> PastSystemErrors:
        return Evidence(pl.concat(some), 0.1).errors("srift", "held_out_host", "step_time_s")

    few = rows(NINE[:8], split="held_out_host")
    none = of_host(rows(NINE), rows(NINE, hours=1), few)
    assert none.ratios.basis == "no evidence: too few forecasts of held out host judged"
    assert (none.ratios.values, none.ratios.high(0.1)) == ((), None)
    assert none.rank == (True, inf)
    own = of_host(rows(NINE), rows(NINE, split="held_out_host", hours=1))
    assert own.ratios.basis == "held out host, same day, widened, n = 9"


def test_one_that_errs_less_is_trusted_more_and_one_that_was_judged_most() -> None:
    good = [1 + (ratio - 1) / 2 for ratio in NINE]
    evidence = Evidence(pl.concat([rows(NINE), rows(good, system="ceer")]), 0.1)
    order = sorted(
        ("srift", "ceer", "linear"),
        key=lambda name: evidence.errors(name, "held_out_dnn", "step_time_s").rank,
    )
    assert order == ["ceer", "srift", "linear"]
