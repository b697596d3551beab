"""Steps of networks of which a public file says sizes and no graph: PredictDDL without operations.

A step is a sum of operations, activations and parameters, with coefficients of 0 or more for each
layout and version, times what boosted trees say of a network's ratios of these: `fitted.py` with
what the file's own columns have. Log-linear regression on the same columns stands beside it.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from models.predictddl.model import LinearWork
from warehouse.records import BadInput

Floats = NDArray[np.float64]
SIZES = ("parameter_count", "macs", "activations", "batch_size")
_SETUP = ("layout", "torch")
_TREES: dict[str, float | int | str] = {
    "objective": "reg:absoluteerror",
    "max_depth": 4,
    "eta": 0.05,
    "lambda": 3.0,
    "subsample": 0.8,
    "seed": 0,
    "nthread": 1,
    "base_score": 0.0,
}
_ROUNDS = 200


@dataclass(frozen=True)
class Sizes:
    """What forecasts a step from sizes of a network.

    Attributes:
        kind: `work`: ours; `log_linear`: the regression on logarithms.
        step_s: seconds of each row.
        parameters: of the fit, as can be written down.
    """

    kind: str
    step_s: Callable[[pl.DataFrame], Floats]
    parameters: dict[str, Any]

    def predict(self, subjects: pl.DataFrame) -> pl.DataFrame:
        """Return subject_id, value (seconds), low and high (NULL) of subjects with all sizes.

        Args:
            subjects: subject_id, `SIZES`, layout and torch.
        """
        known = _sized(subjects)
        none = pl.lit(None, pl.Float64)
        values = pl.Series("value", self.step_s(known) if len(known) else [], pl.Float64)
        return known.select("subject_id", value=values, low=none, high=none)

    def parameters_json(self) -> str:
        """Return the coefficients; trees are made again of the same rows."""
        return json.dumps({"kind": self.kind, **self.parameters}, sort_keys=True)


def fit_sizes(kind: str) -> Callable[[pl.DataFrame], Sizes]:
    """Return what fits steps (seconds) to sizes: `work` or `log_linear`."""
    return {"work": _fit_work, "log_linear": _fit_log_linear}[kind]


def _fit_work(rows: pl.DataFrame) -> Sizes:
    import xgboost

    seen = _checked(rows)
    linear = {
        setup: LinearWork.fit(list(_terms(part)[:, None, :]), part["value"].to_numpy())
        for setup, part in seen.partition_by(*_SETUP, as_dict=True).items()
    }
    every = LinearWork.fit(list(_terms(seen)[:, None, :]), seen["value"].to_numpy())

    def by_work(some: pl.DataFrame) -> Floats:
        setups = some.select(_SETUP).rows()
        of_setups = [linear.get(setup, every).coefficients for setup in setups]
        work: Floats = np.maximum((_terms(some) * np.array(of_setups)).sum(axis=1), 1e-6)
        return work

    left = np.log(seen["value"].to_numpy()) - np.log(by_work(seen))
    trees = xgboost.train(_TREES, xgboost.DMatrix(_ratios(seen), left), _ROUNDS)

    def step_s(some: pl.DataFrame) -> Floats:
        more = np.asarray(trees.predict(xgboost.DMatrix(_ratios(some))), np.float64)
        seconds: Floats = by_work(some) * np.exp(more)
        return seconds

    coefficients = {
        "/".join(map(str, setup)): fit.coefficients.tolist() for setup, fit in linear.items()
    }
    return Sizes("work", step_s, {"coefficients": coefficients})


def _fit_log_linear(rows: pl.DataFrame) -> Sizes:
    seen = _checked(rows)
    setups = seen.select(_SETUP).unique().sort(_SETUP).rows()

    def design(some: pl.DataFrame) -> Floats:
        sizes = np.log(some.select(SIZES).to_numpy().astype(np.float64))
        is_of = [[float(row == setup) for setup in setups] for row in some.select(_SETUP).rows()]
        return np.hstack([sizes, np.array(is_of)])

    weights, *_ = np.linalg.lstsq(design(seen), np.log(seen["value"].to_numpy()), rcond=None)

    def step_s(some: pl.DataFrame) -> Floats:
        seconds: Floats = np.exp(design(some) @ weights)
        return seconds

    return Sizes("log_linear", step_s, {"weights": weights.tolist()})


def _terms(rows: pl.DataFrame) -> Floats:
    """Return operations, activations and parameters of a step in billions, and one."""
    batch = pl.col("batch_size")
    terms = rows.select(
        operations=batch * pl.col("macs") / 1e9,
        activations=batch * pl.col("activations") / 1e9,
        parameters=pl.col("parameter_count") / 1e9,
        start=pl.lit(1.0),
    )
    return terms.to_numpy().astype(np.float64)


def _ratios(rows: pl.DataFrame) -> Floats:
    """Return logarithms of ratios of sizes, and the setup."""
    sizes = np.log(rows.select(SIZES).to_numpy().astype(np.float64))
    parameters, macs, activations, batch = sizes.T
    is_last = (rows["layout"] == "nhwc").to_numpy().astype(np.float64)
    version = rows["torch"].cast(pl.Float64).to_numpy()
    columns = [activations - macs, parameters - macs, macs, activations, batch, is_last, version]
    return np.column_stack(columns)


def _sized(rows: pl.DataFrame) -> pl.DataFrame:
    sized = pl.all_horizontal(pl.col(name) > 0 for name in SIZES)
    return rows.filter(sized.fill_null(value=False))


def _checked(rows: pl.DataFrame) -> pl.DataFrame:
    seen = _sized(rows)
    if len(seen) < 8:
        raise BadInput(f"expected eight timed networks with all sizes or more, found {len(seen)}")
    return seen
