"""Steps on GPUs that others timed, from sums of operations: do these hold, and with which S?

Ceer's step is the sum of its operations, and S beside it. Here the operations are as they were
timed; what is forecast are steps of a family of networks that S was not fitted to.

Source: Hafeez, Gandhi, Ceer, sections IV-A and IV-C.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from models.ceer.public_rows import NONE, nothing
from warehouse.records import BadInput

Floats = NDArray[np.float64]
Beside = Literal["nothing", "parameters", "launches"]
PARAMETERS: Mapping[str, int] = {
    "bert": 109_482_240,
    "bert_large": 335_141_888,
    "gpt2_med": 354_823_168,
    "gpt2_large": 774_030_080,
    "gpt2_xl": 1_557_611_200,
    "opt_13": 1_315_758_080,
}
"""Trained parameters of the networks, as their publishers count them."""


@dataclass(frozen=True)
class Sums:
    """A sum of operations, and S of each device: weights of the terms that `beside` has.

    Attributes:
        beside: `nothing`: S is 0; `parameters`: a constant and so much for each parameter, as
            published; `launches`: so much for each operation, by which timing it alone is longer.
        weights: seconds of each term, by device.
    """

    beside: Beside
    weights: Mapping[str, tuple[float, ...]]

    def predict(self, subjects: pl.DataFrame) -> pl.DataFrame:
        """Return subject_id, value (seconds), low and high (NULL) of subjects on known devices.

        Args:
            subjects: subject_id and the columns that `fit_sums` is given, without value.
        """
        known = subjects.filter(pl.col("node_type").is_in(list(self.weights)))
        if self.beside == "parameters":
            known = known.filter(pl.col("dnn").is_in(list(PARAMETERS)))
        if known.is_empty():
            return nothing(subjects)
        sums, terms = _sum_s(known), _terms(known, self.beside)
        weights = np.array([self.weights[name] for name in known["node_type"]])
        found = np.maximum(sums + (terms * weights).sum(axis=1), 1e-6)
        return known.select("subject_id", value=pl.Series(found), low=NONE, high=NONE)

    def parameters_json(self) -> str:
        """Return what stands beside sums, and the weights by device."""
        return json.dumps({"beside": self.beside, "weights": self.weights}, sort_keys=True)


def fit_sums(beside: Beside) -> Callable[[pl.DataFrame], Sums]:
    """Return what fits S to steps, by relative error.

    The rows have value (seconds of a step), node_type, dnn, operations, forward_s, backward_s (NULL
    for inference) and bookkeeping_s.
    """

    def fit(rows: pl.DataFrame) -> Sums:
        if beside == "parameters":
            rows = rows.filter(pl.col("dnn").is_in(list(PARAMETERS)))
        devices = rows.partition_by("node_type", as_dict=True)
        if not devices:
            raise BadInput("expected timed steps of networks whose parameters are known; none here")
        return Sums(beside, {str(name): _weights(one, beside) for (name,), one in devices.items()})

    return fit


def _weights(rows: pl.DataFrame, beside: Beside) -> tuple[float, ...]:
    measured_s = rows["value"].to_numpy()
    terms = _terms(rows, beside) / measured_s[:, None]
    found, *_ = np.linalg.lstsq(terms, 1 - _sum_s(rows) / measured_s, rcond=None)
    return tuple(found.tolist())


def _terms(rows: pl.DataFrame, beside: Beside) -> Floats:
    """Return what S is made of: [steps, terms]; parameters in billions, launches in thousands."""
    if beside == "nothing":
        return np.zeros((len(rows), 0))
    if beside == "launches":
        return rows.select(pl.col("operations").cast(pl.Float64) / 1e3).to_numpy()
    counts = rows["dnn"].replace_strict(PARAMETERS, return_dtype=pl.Float64)
    return np.column_stack([np.ones(len(rows)), counts.to_numpy() / 1e9])


def _sum_s(rows: pl.DataFrame) -> Floats:
    """Return seconds of the operations of steps, bookkeeping of the profiler left out."""
    total = (
        pl.col("forward_s")
        + pl.col("backward_s").cast(pl.Float64).fill_null(0.0)
        - pl.col("bookkeeping_s")
    )
    return rows.select(total).to_series().to_numpy()
