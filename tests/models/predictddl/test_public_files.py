"""Steps from sizes alone: planted sums come out, what has no size is not forecast."""

import json

import numpy as np
import polars as pl
import pytest

from models.predictddl.public_files import fit_sizes


def rows(count: int = 200, seed: int = 0) -> pl.DataFrame:
    """Return steps that are a sum of what networks count, in two layouts."""
    chance = np.random.default_rng(seed)
    macs, activations = chance.uniform(1e8, 2e10, count), chance.uniform(1e6, 1e8, count)
    parameters, batch = chance.uniform(1e6, 1e8, count), chance.choice([64, 128, 256], count)
    layout = chance.choice(["nchw", "nhwc"], count)
    factor = np.where(layout == "nchw", 1.0, 0.7)
    value = factor * (0.02 + batch * (2e-13 * macs + 5e-11 * activations) + 2e-10 * parameters)
    return pl.DataFrame(
        {
            "subject_id": [str(place) for place in range(count)],
            "macs": macs,
            "activations": activations,
            "parameter_count": parameters,
            "batch_size": batch,
            "layout": layout,
            "torch": "112",
            "value": value,
        }
    )


def errors(kind: str) -> float:
    new = rows(seed=1)
    forecasts = fit_sizes(kind)(rows()).predict(new.drop("value"))
    return float(np.abs(forecasts["value"].to_numpy() / new["value"].to_numpy() - 1).mean())


def test_a_sum_of_work_is_found_and_beats_a_product_of_powers() -> None:
    assert errors("work") < 0.05
    assert errors("work") < errors("log_linear") < 0.3


@pytest.mark.parametrize("kind", ["work", "log_linear"])
def test_equal_rows_give_equal_fits(kind: str) -> None:
    first, second = fit_sizes(kind)(rows()), fit_sizes(kind)(rows())
    assert first.parameters_json() == second.parameters_json()
    assert json.loads(first.parameters_json())["kind"] == kind
    assert first.predict(rows(5, 2)).equals(second.predict(rows(5, 2)))


@pytest.mark.parametrize("kind", ["work", "log_linear"])
def test_a_network_without_all_sizes_has_no_forecast(kind: str) -> None:
    some = rows(3, 4).with_columns(macs=pl.Series([1e9, 0.0, None]))
    assert fit_sizes(kind)(rows()).predict(some)["subject_id"].to_list() == ["0"]
