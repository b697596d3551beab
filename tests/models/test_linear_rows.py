"""Linear scaling of rows: W times one worker, and steps that more nodes do not slow."""

import polars as pl
import pytest

from models.public_rates import fit_linear_rates, fit_step_times
from warehouse.records import BadInput

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
    asked = RATES.drop("value").with_columns(world_size=4, dnn=pl.Series(["res", "vgg", "alex"]))
    # 10 a worker, and 12: 11 on average.
    assert fitted.predict(asked).rows() == [("a", 44.0, None, None), ("b", 12.0, None, None)]
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
    asked = rows.drop("value").with_columns(placement=pl.Series([11, 142]), world_size=7)
    assert fit_step_times(rows).predict(asked)["value"].to_list() == [0.5, 0.8]


def test_nothing_to_start_from_is_refused() -> None:
    with pytest.raises(BadInput, match="found no rows"):
        fit(RATES.clear())
