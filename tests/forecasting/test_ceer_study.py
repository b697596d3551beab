"""What a round of training by operations measured: of the reference."""

from dataclasses import replace

import polars as pl
import pytest

from forecasting.ceer_study import leave_out, read_measurements
from models.ceer.predictor import Without
from studies.rounds import Round
from tests.models.ceer.frames import observed, steps
from tests.models.ceer.test_predictor import measured, rows
from tests.reference import REFERENCE, first_round


@pytest.fixture(scope="module")
def reference() -> Round:
    return first_round("reference_ceer_pytorch")


def test_unseen_dnns_are_forecast_from_their_profiles(reference: Round) -> None:
    data = read_measurements(reference, REFERENCE)
    assert data is not None
    assert set(data.fitted[0]["dnn"]) & set(data.unseen) == set()
    assert set(data.whole_forecasts["dnn"]) == set(data.unseen)


def test_rounds_without_profiles_or_of_other_training_measured_nothing(
    reference: Round, round_: Round
) -> None:
    for nothing in (replace(reference, runs=()), round_):
        assert read_measurements(nothing, REFERENCE) is None


def test_left_out_dnns_are_not_seen() -> None:
    odd = [row | {"step_s": row["step_s"] * (2 if row["dnn"] == "f" else 1)} for row in measured()]
    errors_of_steps = leave_out(observed(*rows()), steps(*odd), [("f",), ("e", "d")])
    errors = dict(errors_of_steps.group_by("dnn").agg(pl.col("error").mean()).rows())
    assert errors["f"] == pytest.approx(-0.5)
    assert set(errors) == {"d", "e", "f"}


def test_ablations_err_by_what_they_leave_out() -> None:
    ablations: tuple[Without, ...] = (frozenset(), frozenset({"overhead"}))
    left_out = leave_out(observed(*rows()), steps(*measured()), [("c",)], ablations=ablations)
    alone = left_out.filter(pl.col("node_type") == "slow", pl.col("devices") == 1)
    overhead_s = 0.001 + 0.009
    whole, ablated = alone.iter_rows(named=True)
    assert (whole["without"], ablated["without"]) == ([], ["overhead"])
    assert whole["error"] == pytest.approx(0, abs=1e-6)
    assert ablated["error"] == pytest.approx(-overhead_s / ablated["measured_s"])
