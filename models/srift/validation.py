"""How much the parts of Srift err on what they were not fitted to (section 5.3, Table 6)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from models.srift import latency
from models.srift.allreduce import LearnedBandwidth, MtuSide, split_by_mtu
from models.srift.allreduce_samples import rated, samples
from models.srift.boosting import Grid, Trees, folds, forecast_left_out

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def pass_errors(compute: pl.DataFrame) -> pl.DataFrame:
    """Leave out each batch size but the outermost, and forecast its passes from the others.

    Args:
        compute: table compute, of one network on one node type.

    Returns:
        batch_size; `forward_percent`, `backward_percent` and `both_percent`, the errors of mean
        times with their sign; `floor_percent`, the standard error of the mean of both passes, which
        says how well that time is known. No rows of fewer than four batch sizes.

    Raises:
        BadInput: as `latency.fit`.
    """
    sizes = compute["batch_size"].unique().sort().to_list()
    inner = sizes[1:-1] if len(sizes) >= 4 else []
    is_left_out = [pl.col("batch_size") == batch_size for batch_size in inner]
    return _errors(
        _pass_error(latency.fit(compute.filter(~left)), compute.filter(left))
        for left in is_left_out
    )


def held_out_errors(profiled: pl.DataFrame, held_out: pl.DataFrame) -> pl.DataFrame:
    """Forecast the passes of batch sizes that were timed apart from the profile.

    Args:
        profiled: table compute, of one network on one node type.
        held_out: the same of other batch sizes.

    Returns:
        As `pass_errors`.

    Raises:
        BadInput: as `latency.fit`.
    """
    fitted = latency.fit(profiled)
    sizes = held_out["batch_size"].unique().sort()
    return _errors(_pass_error(fitted, held_out.filter(batch_size=size)) for size in sizes)


def _errors(rows: Iterable[tuple[float, ...]]) -> pl.DataFrame:
    names = ("forward_percent", "backward_percent", "both_percent", "floor_percent")
    schema = {"batch_size": pl.Int64} | dict.fromkeys(names, pl.Float64)
    return pl.DataFrame(list(rows), schema=schema, orient="row")


def _pass_error(fitted: latency.Latency, left: pl.DataFrame) -> tuple[float, ...]:
    """Return how much the passes of one batch size are forecast wrong: a row of `_errors`."""
    batch_size = int(left["batch_size"][0])
    predicted = float(fitted.forward(batch_size)), float(fitted.backward(batch_size))
    forward, backward = (left[name].to_numpy() for name in ("forward_s", "backward_s"))
    both = forward + backward
    error = both.std(ddof=1) / np.sqrt(len(both)) if len(both) > 1 else np.nan
    return (
        batch_size,
        100 * (predicted[0] / forward.mean() - 1),
        100 * (predicted[1] / backward.mean() - 1),
        100 * (sum(predicted) / both.mean() - 1),
        100 * error / both.mean(),
    )


def allreduce_errors(
    model: LearnedBandwidth,
    allreduce: pl.DataFrame,
    clusters: pl.DataFrame,
    grid: Grid | None = None,
) -> pl.DataFrame:
    """Forecast the bus bandwidth of all-reduces from the others, in ten parts; those alone count.

    Trees have the settings that `model` was tuned to, which saw all parts.

    Args:
        model: fitted to the same tables.
        allreduce: table allreduce, of one library.
        clusters: table cluster_node of the same runs.
        grid: how many parts, and their seed.

    Returns:
        side (`small`: up to the MTU, or `large`), split (`configurations`: no configuration is on
        both sides; `rows`: repeats may be, as in the paper's 9/1 split), model (`trees`,
        `alpha_beta` or `rated`), n, mape_percent, noise_floor_percent, least_percent. The noise
        floor is the error of forecasting each by the mean time of the other repeats of its
        configuration (None where none has others); the least is that of the bandwidth that errs
        least for all repeats of a configuration, which no model can beat.

    Raises:
        BadInput: as `samples`.
    """
    grid = grid or Grid()
    sides = split_by_mtu(samples(allreduce, clusters), model.hardware, model.names)
    rows: list[Mapping[str, Any]] = []
    for name, side, trees in zip(
        ("small", "large"), sides, (model.small, model.large), strict=True
    ):
        alone = (side.rows["concurrent"] == 1).to_numpy()
        floor, least = (_of_configuration(side, choose) for choose in (_of_others, _least_wrong))
        for split, which, forecast_Bps in _forecasts(side, trees, grid, model):
            rows.append(
                {
                    "side": name,
                    "split": split,
                    "model": which,
                    "n": int(alone.sum()),
                    "mape_percent": _mape(forecast_Bps, side.bandwidth_Bps, alone),
                    "noise_floor_percent": _mape(floor, side.bandwidth_Bps, alone),
                    "least_percent": _mape(least, side.bandwidth_Bps, alone),
                }
            )
    return pl.DataFrame(rows)


def _forecasts(
    side: MtuSide, trees: Trees, grid: Grid, model: LearnedBandwidth
) -> Iterator[tuple[str, str, Floats]]:
    """Yield what is left out at a time, each model, and what it says of every row."""
    rows = np.arange(side.rows.height)
    for split, groups in (("configurations", side.configurations), ("rows", rows)):
        for which, forecast_Bps in _fitted_forecasts(side, trees, groups, grid, model):
            yield split, which, forecast_Bps


def _fitted_forecasts(
    side: MtuSide, trees: Trees, groups: Ints, grid: Grid, model: LearnedBandwidth
) -> Iterator[tuple[str, Floats]]:
    """Yield each model and what it says of every row, fitted to parts without the row's group."""
    (forecast_Bps,) = forecast_left_out(
        side.x, side.bandwidth_Bps, groups, [trees.settings], grid, side.formula
    )
    yield "trees", forecast_Bps
    formula = np.zeros(side.rows.height)
    for test in folds(groups, grid.folds, grid.seed):
        formula[test] = side.formula(~test)[test]
    yield "alpha_beta", formula
    ratings = rated(model.hardware)
    if set(model.hardware) <= set(ratings.rated_Bps):
        ones = np.ones(1, dtype=np.int64)
        mixes = side.rows["node_types"].unique()
        of_mix = {mix: ratings.table(tuple(mix.split("+")), ones, ones)[0, 0] for mix in mixes}
        yield "rated", np.array([of_mix[mix] for mix in side.rows["node_types"]])


def _of_configuration(side: MtuSide, choose: Callable[[Floats], Floats]) -> Floats:
    """Return, for each row, the bandwidth that is chosen from those of its configuration."""
    configurations, bandwidth_Bps = side.configurations, side.bandwidth_Bps
    chosen_Bps = np.zeros_like(bandwidth_Bps)
    for number in np.unique(configurations):
        repeats = configurations == number
        chosen_Bps[repeats] = choose(bandwidth_Bps[repeats])
    return chosen_Bps


def _least_wrong(measured: Floats) -> Floats:
    """Return, for each, which of all bandwidths errs least for all of them."""
    errors = np.abs(measured[:, None] / measured - 1).mean(axis=1)
    return np.full_like(measured, measured[errors.argmin()])


def _of_others(measured: Floats) -> Floats:
    """Return, for each, the bandwidth at which a transfer takes the mean time of the others."""
    if len(measured) < 2:
        return np.full_like(measured, np.nan)
    seconds = 1 / measured
    bandwidth_Bps: Floats = (len(measured) - 1) / (seconds.sum() - seconds)
    return bandwidth_Bps


def _mape(forecast_Bps: Floats, measured: Floats, counted: NDArray[np.bool_]) -> float | None:
    """Return the mean error of those that count, None where nothing is said of any of them."""
    errors = np.abs(forecast_Bps / measured - 1)[counted & np.isfinite(forecast_Bps)]
    return float(100 * errors.mean()) if len(errors) else None
