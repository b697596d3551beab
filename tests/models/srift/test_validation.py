"""What is forecast without having been seen: passes and all-reduces left out."""

import numpy as np
import polars as pl
import pytest

from models.srift.allreduce import LearnedBandwidth, fit
from models.srift.allreduce_samples import Hardware
from models.srift.boosting import Grid
from models.srift.validation import allreduce_errors, held_out_errors, pass_errors

GRID = Grid(labels=("logarithm", "ratio"), depths=(4,), rounds=(60,), folds=5)
HARDWARE = {"node": Hardware(rated_gbps=0.2)}
CLUSTERS = pl.DataFrame({"run_id": ["run"], "node_type": ["node"]})
MTU = 1500


def compute(times: dict[int, tuple[float, float]]) -> pl.DataFrame:
    """Return two trials at each batch size, a tenth around its forward and backward seconds."""
    rows = [
        (batch_size, factor * forward_s, factor * backward_s, 0.0)
        for batch_size, (forward_s, backward_s) in times.items()
        for factor in (0.9, 1.1)
    ]
    return pl.DataFrame(
        rows, schema=["batch_size", "forward_s", "backward_s", "update_s"], orient="row"
    )


def probes(noise: float, *, unlike: tuple[int, int] | None = None) -> pl.DataFrame:
    """Return repeated all-reduces of a 200 Mb/s link; `unlike`, world and size, is very slow."""
    source = np.random.default_rng(1)
    rows = []
    for n in (2, 4, 8):
        for size in (4, 64, 1024, 4096, 65536, 1 << 20, 1 << 24):
            for trial in range(4):
                seconds = 2 * (n - 1) * 1e-4 + 2 * size * (n - 1) / n / 25e6
                seconds *= source.lognormal(0, noise) * (10 if (n, size) == unlike else 1)
                bus_Bps = 2 * size * (n - 1) / n / seconds
                rows.append(("run", "gloo", n, size, 1, trial, None, seconds, bus_Bps, MTU))
    names = (
        "run_id library world_size size_bytes concurrent trial rank seconds bus_bandwidth_Bps "
        "mtu_bytes"
    )
    return pl.DataFrame(rows, schema=names.split(), orient="row", infer_schema_length=None)


def fitted(rows: pl.DataFrame) -> LearnedBandwidth:
    return fit(rows, CLUSTERS, HARDWARE, GRID)


def of(errors: pl.DataFrame, side: str, split: str, model: str) -> dict[str, float]:
    (row,) = errors.filter(side=side, split=split, model=model).to_dicts()
    return row


def test_inner_batch_sizes_are_forecast_from_their_neighbours() -> None:
    """Without 4, the line from 2 to 8 says 2 s forward, measured were 1; backward is a line."""
    errors = pass_errors(compute({2: (1.0, 2.0), 4: (1.0, 4.0), 8: (4.0, 8.0), 16: (7.0, 16.0)}))
    assert errors["batch_size"].to_list() == [4, 8]
    first = errors.row(0, named=True)
    assert first["forward_percent"] == pytest.approx(100)
    assert first["backward_percent"] == pytest.approx(0)
    assert first["both_percent"] == pytest.approx(20), "6 s of 5"
    # Two trials a tenth around the mean: standard deviation 0.1 √2, of their mean 0.1.
    assert first["floor_percent"] == pytest.approx(10)


def test_held_out_batch_sizes_are_forecast_from_the_profile() -> None:
    """Lines between 2 and 6 say 3 s forward and 4 s backward; measured were 4 and 6."""
    profiled = compute({2: (2.0, 2.0), 6: (4.0, 6.0), 8: (5.0, 8.0)})
    errors = held_out_errors(profiled, compute({4: (4.0, 6.0), 7: (4.5, 7.0)}))
    assert errors["batch_size"].to_list() == [4, 7]
    assert errors["forward_percent"].to_list() == pytest.approx([-25, 0])
    assert errors["both_percent"].to_list() == pytest.approx([-30, 0])
    assert errors["floor_percent"][0] == pytest.approx(10)


def test_formulas_that_fit_err_by_the_noise() -> None:
    rows = probes(noise=0.05)
    errors = allreduce_errors(fitted(rows), rows, CLUSTERS, GRID)
    assert errors["n"].to_list() == [36] * 6 + [48] * 6
    line = of(errors, "large", "configurations", "alpha_beta")
    assert 2 < line["least_percent"] <= line["mape_percent"] < 6
    assert line["least_percent"] < line["noise_floor_percent"] < 6
    assert of(errors, "large", "rows", "rated")["mape_percent"] > line["mape_percent"]
    assert errors["noise_floor_percent"].n_unique() == 2, "the floor is that of the side"


def test_a_configuration_that_was_left_out_is_not_known_from_its_repeats() -> None:
    """One that nothing else tells of: trees know it only if repeats are on the other side."""
    rows = probes(noise=0.01, unlike=(4, 65536))
    errors = allreduce_errors(fitted(rows), rows, CLUSTERS, GRID)
    grouped, repeated = (
        of(errors, "large", split, "trees")["mape_percent"] for split in ("configurations", "rows")
    )
    assert repeated < 5
    assert grouped > 10 * repeated


def test_links_without_rating_have_no_rated_bandwidth() -> None:
    rows = probes(noise=0.05)
    unrated = fit(rows, CLUSTERS, {"node": Hardware()}, GRID)
    errors = allreduce_errors(unrated, rows, CLUSTERS, GRID)
    assert set(errors["model"]) == {"trees", "alpha_beta"}


def test_the_noise_floor_is_what_the_mean_of_the_others_errs_by() -> None:
    """One of four takes four times as long: beside it the others take 2 in the mean, not 1."""
    longer = pl.when(pl.col("trial") == 0).then(4).otherwise(1)
    rows = probes(noise=0).with_columns(pl.col("bus_bandwidth_Bps") / longer)
    errors = allreduce_errors(fitted(rows), rows, CLUSTERS, GRID)
    line = of(errors, "large", "configurations", "trees")
    assert line["noise_floor_percent"] == pytest.approx(100 * (3 + 3 * (1 - 1 / 2)) / 4)
    assert line["least_percent"] == pytest.approx(100 * 3 * (1 - 1 / 4) / 4)
