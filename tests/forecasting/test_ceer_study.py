"""What a round of training by operations measured: of the reference."""

from dataclasses import replace

import polars as pl
import pytest

from forecasting.ceer_study import LEFT_OUT, leave_out, read_measurements
from models.ceer.predictor import Without
from studies.rounds import Round
from tests.models.ceer.frames import observed, steps
from tests.models.ceer.test_predictor import DNNS, measured, rows
from tests.reference import REFERENCE, first_round
from warehouse.records import BadInput


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


def test_where_no_other_dnn_was_measured_nothing_is_forecast() -> None:
    only = pl.col("dnn") == "a"
    lonely = steps(*measured()).filter(only | (pl.col("node_type") == "slow"))
    left_out = leave_out(
        observed(*rows()).filter(only | (pl.col("node_type") == "slow")), lonely, [("a",)]
    )
    assert set(left_out["node_type"]) == {"slow"}
    assert left_out.schema == LEFT_OUT
    assert leave_out(observed(*rows()), lonely, []).schema == LEFT_OUT


def test_ablations_err_by_what_they_leave_out() -> None:
    ablations: tuple[Without, ...] = (frozenset(), frozenset({"overhead"}))
    left_out = leave_out(observed(*rows()), steps(*measured()), [("c",)], ablations=ablations)
    alone = left_out.filter(pl.col("node_type") == "slow", pl.col("devices") == 1)
    overhead_s = 0.001 + 0.009
    whole, ablated = alone.iter_rows(named=True)
    assert (whole["without"], ablated["without"]) == ([], ["overhead"])
    assert whole["error"] == pytest.approx(0, abs=1e-6)
    assert ablated["error"] == pytest.approx(-overhead_s / ablated["measured_s"])


def test_what_cannot_be_left_out_is_named() -> None:
    with pytest.raises(BadInput, match="leave out z: expected some, not all, of the profiled DNNs"):
        leave_out(observed(*rows()), steps(*measured()), [("z",)])
    with pytest.raises(BadInput, match="not all"):
        leave_out(observed(*rows()), steps(*measured()), [DNNS])
