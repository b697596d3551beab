"""Boosted trees for bus bandwidth, tuned by cross-validation in groups (section 4.2)."""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from warehouse.records import BadInput, Record

if TYPE_CHECKING:
    import xgboost

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Loss = Literal["reg:pseudohubererror", "reg:squarederror"]
Bools = NDArray[np.bool_]
Label = Literal["bandwidth", "logarithm", "ratio"]
Weights = Literal["equal", "seconds"]
Formula = Callable[[Bools], Floats]
"""Bandwidths by a formula, of all rows, that was fitted to those told."""


class Grid(Record):
    """What is tried, by all combinations, in `folds`-fold cross-validation.

    `labels` is what trees learn: bandwidth, as the paper; its logarithm, whose errors are relative
    and whose predictions cannot become negative; or the logarithm of its ratio to what a formula
    says, which goes on where trees know of nothing. By `weights`, rows count equally, as in the
    paper, or by the seconds that a byte takes: the mean of repeats is then the harmonic one, at
    which a transfer takes its mean time. Folds have whole configurations.
    """

    labels: tuple[Label, ...] = ("bandwidth", "logarithm", "ratio")
    weights: tuple[Weights, ...] = ("seconds",)
    depths: tuple[int, ...] = (2, 4, 8)
    learning_rates: tuple[float, ...] = (0.1,)
    rounds: tuple[int, ...] = (100, 300)
    folds: int = Field(default=10, ge=2)
    seed: int = 0


class TreeSettings(Record):
    """One combination; fits that do not say `weights` were made when all rows counted equally."""

    loss: Loss
    label: Label
    weights: Weights = "equal"
    depth: int
    learning_rate: float
    rounds: int


class Trees(Record):
    """Fitted trees.

    `scale_Bps` is the median of the bandwidths they were fitted to, in which they count, and
    `least_Bps` the smallest of these, below which no prediction falls; of a ratio, neither matters.
    `mape_percent` is the error in cross-validation, `booster` XGBoost's own JSON.
    """

    settings: TreeSettings
    scale_Bps: float
    least_Bps: float
    mape_percent: float
    rows: int
    booster: str

    def predict(self, x: Floats, formula_Bps: Floats) -> Floats:
        """Return bandwidth in bytes/s for rows of features, and what the formula says of them."""
        raw = _booster(self.booster).predict(_matrix(x))
        return _bandwidth(self.settings, self.scale_Bps, self.least_Bps, raw, formula_Bps)


def tune_trees(
    x: Floats, bandwidth_Bps: Floats, groups: Ints, loss: Loss, grid: Grid, formula: Formula
) -> Trees:
    """Return trees of the settings with the least error in cross-validation, fitted to all rows.

    Args:
        x: [rows, features]; NaN is missing.
        bandwidth_Bps: [rows], above 0.
        groups: [rows], those of one group, such as repeats of one configuration, share a fold.
        loss: what is minimised: pseudo-Huber for small transfers, squared error for large ones.
        grid: what else to try.
        formula: that of which trees may learn the ratio; no test row has a part in its fit either.

    Raises:
        BadInput: fewer than two groups.
    """
    if len(np.unique(groups)) < 2:
        raise BadInput(
            f"cross-validation needs two configurations, found {len(np.unique(groups))}; "
            "probe more buffer sizes or world sizes"
        )
    errors: dict[TreeSettings, float] = {}
    formula = _remembered(formula)
    for label, weights, depth, rate in product(
        grid.labels, grid.weights, grid.depths, grid.learning_rates
    ):
        shared = {"label": label, "weights": weights, "depth": depth, "learning_rate": rate}
        tried = [
            TreeSettings.model_validate({"loss": loss, **shared, "rounds": rounds})
            for rounds in grid.rounds
        ]
        forecasts_Bps = forecast_left_out(x, bandwidth_Bps, groups, tried, grid, formula)
        relative_errors = np.abs(forecasts_Bps / bandwidth_Bps - 1).mean(axis=1)
        errors |= zip(tried, (float(100 * error) for error in relative_errors), strict=True)
    best = min(errors, key=errors.__getitem__)
    everything = np.ones(len(x), dtype=bool)
    booster = _train(x, bandwidth_Bps, formula(everything), best, grid.seed)
    scale_Bps, least_Bps = _scale(bandwidth_Bps)
    return Trees(
        settings=best,
        scale_Bps=scale_Bps,
        least_Bps=least_Bps,
        mape_percent=errors[best],
        rows=len(bandwidth_Bps),
        booster=booster.save_raw("json").decode(),
    )


def forecast_left_out(
    x: Floats,
    bandwidth_Bps: Floats,
    groups: Ints,
    tried: Sequence[TreeSettings],
    grid: Grid,
    formula: Formula,
) -> Floats:
    """Return bandwidths, [settings, rows], each forecast by trees that saw nothing of its group.

    Args:
        x: as `tune_trees`; the same in the others.
        bandwidth_Bps: what trees learn.
        groups: those of one group share a fold.
        tried: settings that differ in rounds only.
        grid: how many folds, and their seed.
        formula: fitted to what trees see.
    """
    most = max(tried, key=lambda settings: settings.rounds)
    forecasts_Bps = np.zeros((len(tried), len(x)))
    for test in folds(groups, grid.folds, grid.seed):
        train_Bps, formula_Bps = bandwidth_Bps[~test], formula(~test)
        scale_Bps, least_Bps = _scale(train_Bps)
        booster = _train(x[~test], train_Bps, formula_Bps[~test], most, grid.seed)
        for i, settings in enumerate(tried):
            raw = booster.predict(_matrix(x[test]), iteration_range=(0, settings.rounds))
            forecasts_Bps[i, test] = _bandwidth(
                settings, scale_Bps, least_Bps, raw, formula_Bps[test]
            )
    return forecasts_Bps


def folds(groups: Ints, count: int, seed: int) -> Iterator[Bools]:
    """Yield which rows to test on: every group in exactly one fold, shuffled.

    With fewer groups than folds, each group is a fold.
    """
    names, of_row = np.unique(groups, return_inverse=True)
    fold = np.random.default_rng(seed).permutation(len(names)) % count
    for i in range(min(count, len(names))):
        yield fold[of_row] == i


def _train(
    x: Floats, bandwidth_Bps: Floats, formula_Bps: Floats, settings: TreeSettings, seed: int
) -> "xgboost.Booster":
    typical_Bps = np.median(bandwidth_Bps)
    relative = bandwidth_Bps / (formula_Bps if settings.label == "ratio" else typical_Bps)
    label = relative if settings.label == "bandwidth" else np.log(relative)
    weights = typical_Bps / bandwidth_Bps if settings.weights == "seconds" else None
    parameters = {
        # By default a leaf has a weight of 1, which several rows of fast transfers have together.
        "min_child_weight": 1 if weights is None else 0,
        "objective": settings.loss,
        "max_depth": settings.depth,
        "learning_rate": settings.learning_rate,
        # XGBoost's default, and what the paper's rounding to powers of two goes with.
        "max_bin": 256,
        "tree_method": "hist",
        # One thread adds up in one order: the same fit on every machine.
        "nthread": 1,
        "seed": seed,
    }
    import xgboost

    matrix = _matrix(x, label, weights)
    booster = xgboost.Booster(parameters, [matrix])
    # `xgboost.train` writes and reads all trees at its end.
    for i in range(settings.rounds):
        booster.update(matrix, i)
    return booster


def _matrix(
    x: Floats, label: Floats | None = None, weights: Floats | None = None
) -> "xgboost.DMatrix":
    """Return rows for XGBoost, made by one thread: several wait for each other longer than that."""
    import xgboost

    return xgboost.DMatrix(x, label, weight=weights, nthread=1)


def _remembered(formula: Formula) -> Formula:
    """Return a formula that is fitted once to each choice of rows: all settings share the folds."""
    known: dict[bytes, Floats] = {}

    def fitted(train: Bools) -> Floats:
        if (key := train.tobytes()) not in known:
            known[key] = formula(train)
        return known[key]

    return fitted


@lru_cache(maxsize=8)
def _booster(text: str) -> "xgboost.Booster":
    """Return XGBoost's trees, read once: an answer asks them for many options, one at a time."""
    import xgboost  # takes a second to load

    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(bytearray(text, "utf-8"))
    return booster


def _scale(bandwidth_Bps: Floats) -> tuple[float, float]:
    """Return the bandwidth that others count in, and the smallest, for `Trees`."""
    return float(np.median(bandwidth_Bps)), float(bandwidth_Bps.min())


def _bandwidth(
    settings: TreeSettings,
    scale_Bps: float,
    least_Bps: float,
    raw: NDArray[np.float32],
    formula_Bps: Floats,
) -> Floats:
    exact = raw.astype(np.float64)
    if settings.label == "ratio":
        return np.exp(exact) * formula_Bps
    relative = exact if settings.label == "bandwidth" else np.exp(exact)
    bandwidth: Floats = np.maximum(relative * scale_Bps, least_Bps)
    return bandwidth
