"""Coarse models of several workers, whose share of a step is learned from other networks."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.public_rates import Form, fit_linear_rates, fit_queue_rates, fit_step_times, speedup
from warehouse.records import BadInput

FORMS: tuple[Form, ...] = ("lin", "cynthia")
forms = st.sampled_from(FORMS)
shares = st.floats(0, 1)


def rates(form: Form, shares: dict[str, float], dnns: dict[str, float]) -> pl.DataFrame:
    """Return what networks with these rates of one worker do with 1 to 8 on node types."""
    rows = [
        (f"{dnn} {kind} {workers}", dnn, kind, 1, workers, alone * speedup(form, share, workers))
        for dnn, alone in dnns.items()
        for kind, share in shares.items()
        for workers in range(1, 9)
    ]
    columns = ["subject_id", "dnn", "node_type", "servers", "world_size", "value"]
    return pl.DataFrame(rows, schema=columns, orient="row")


@given(form=forms, share=shares, workers=st.integers(1, 64))
def test_workers_hinder_each_other_and_never_help(form: Form, share: float, workers: int) -> None:
    assert speedup(form, share, 1) == pytest.approx(1)
    assert speedup(form, share, workers) <= workers * (1 + 1e-12)
    assert speedup(form, 0, workers) == pytest.approx(workers)


@given(share=st.floats(0.1, 1))
def test_many_workers_do_what_the_queue_lets_through(share: float) -> None:
    assert speedup("lin", share, 1000) == pytest.approx(1 / share, rel=1e-2)


@pytest.mark.parametrize("form", FORMS)
def test_a_share_is_learned_for_each_node_type_and_used_for_another_network(form: Form) -> None:
    rows = rates(form, {"K80": 0.05, "P100": 0.25}, {"res": 10.0, "vgg": 2.0, "shake": 0.5})
    new = pl.col("dnn") == "shake"
    fitted = fit_queue_rates(form)(rows.filter(~new | (pl.col("world_size") == 1)))
    subjects = rows.filter(new)
    assert fitted.predict(subjects.drop("value"))["value"].to_list() == pytest.approx(
        subjects["value"].to_list()
    )
    assert '"share": 0.25' in fitted.parameters_json()


def test_what_is_not_known_is_not_forecast() -> None:
    rows = rates("lin", {"K80": 0.1}, {"res": 10.0})
    other = rates("lin", {"P100": 0.1}, {"res": 20.0}).filter(world_size=1)
    fitted = fit_queue_rates("lin")(pl.concat([rows, other]))
    subjects = pl.DataFrame(
        {
            "subject_id": ["no share", "no rate"],
            "dnn": ["res", "vgg"],
            "node_type": ["P100", "K80"],
            "servers": [1, 1],
            "world_size": [2, 2],
        }
    )
    assert fitted.predict(subjects).is_empty()


def test_nothing_to_learn_a_share_from_is_refused() -> None:
    with pytest.raises(BadInput, match="with one worker and with several; found none"):
        fit_queue_rates("cynthia")(
            rates("cynthia", {"K80": 0.1}, {"res": 10.0}).filter(world_size=1)
        )


RATES = pl.DataFrame(
    {
        "subject_id": ["a", "b", "c"],
        "dnn": ["res", "res", "vgg"],
        "node_type": ["K80"] * 3,
        "servers": [1, 1, 1],
        "world_size": [1, 2, 1],
        "value": [10.0, 24.0, 3.0],
    }
)


fit = fit_linear_rates("dnn", "node_type", "servers")


def test_a_rate_grows_with_workers() -> None:
    fitted = fit(RATES)
    subjects = RATES.drop("value").with_columns(world_size=4, dnn=pl.Series(["res", "vgg", "alex"]))
    # 10 a worker, and 12: 11 on average.
    assert fitted.predict(subjects).rows() == [("a", 44.0, None, None), ("b", 12.0, None, None)]
    assert '"value": 11.0' in fitted.parameters_json()


def test_a_step_takes_as_long_as_on_the_fullest_node() -> None:
    rows = pl.DataFrame(
        {
            "subject_id": ["a", "b"],
            "dnn": ["res"] * 2,
            "node_type": ["aws"] * 2,
            "batch_size": [4] * 2,
            "placement": [1, 4],
            "world_size": [1, 4],
            "value": [0.5, 0.8],
        }
    )
    subjects = rows.drop("value").with_columns(placement=pl.Series([11, 142]), world_size=7)
    assert fit_step_times(rows).predict(subjects)["value"].to_list() == [0.5, 0.8]
