import polars as pl
import pytest

from models.ceer.evaluation import LEFT_OUT, leave_out, operation_errors, rankings
from models.ceer.predictor import Without, fit
from tests.models.ceer.frames import observed, operation, steps
from tests.models.ceer.test_predictor import DNNS, measured, rows
from warehouse.records import BadInput


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


def test_errors_of_operations_are_per_type() -> None:
    model = fit(operations=observed(*rows()), steps=steps(*measured()))
    new = observed(
        operation("new", "Conv2D", 1250.0, count=2),
        operation("new", "Conv2D", 500.0, inputs=((125_000,),)),
        operation("new", "Relu", 50.0),
        operation("new", "Relu", 50.0, node="fast"),
    )
    errors = operation_errors(model, new)
    convolution = errors.filter(pl.col("type") == "Conv2D").row(0, named=True)
    # 1000 instead of 1250 twice, 500 instead of 500.
    assert convolution["n"] == 2
    assert convolution["class"] == "heavy"
    assert convolution["mean_absolute_error"] == pytest.approx(0.1)
    assert convolution["sum_error"] == pytest.approx(2500 / 3000 - 1)
    assert convolution["share"] == pytest.approx(3000 / 3050)
    fast = errors.filter(pl.col("node_type") == "fast").row(0, named=True)
    assert (fast["type"], fast["share"]) == ("Relu", 1.0)
    assert fast["sum_error"] == pytest.approx(10 / 50 - 1)


def test_rankings_count_pairs() -> None:
    judged = pl.DataFrame(
        {
            "dnn": ["a"] * 4 + ["b"] * 2,
            "measured_s": [1.0, 2.0, 2.1, 4.0, 1.0, 2.0],
            "step_s": [1.1, 2.2, 2.0, 1.9, None, 3.0],
        }
    ).with_columns(image_size=64, batch_size=8, devices=1, link_mbps=pl.lit(None, pl.Float64))
    pairs = rankings(judged, noise=0.1).select("dnn", "pairs", "right", "close").rows()
    # 2.0 and 2.1 are close; 4.0 is predicted below both of them.
    assert pairs == [("a", 5, 3, 1), ("b", 0, 0, 0)]
    assert rankings(judged).select("pairs", "right").row(0) == (6, 3)


def test_what_cannot_be_left_out_is_named() -> None:
    with pytest.raises(BadInput, match="leave out z: expected some, not all, of the profiled DNNs"):
        leave_out(observed(*rows()), steps(*measured()), [("z",)])
    with pytest.raises(BadInput, match="not all"):
        leave_out(observed(*rows()), steps(*measured()), [DNNS])
