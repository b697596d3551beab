"""Forms of S, and which of them predicts the steps of DNNs that it has not seen."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

Array = NDArray[np.float64]
Number = TypeVar("Number", float, Array)
Form = tuple[str, ...]
"""Terms of a sum: `1`, `parameters`, `operations` (their seconds), `traffic`, `large`.

`traffic` is the part of the parameters that a ring of k devices has each send twice, (k − 1)/k;
`large` is the same where its messages are, else 0.
"""

LARGE_MESSAGE_BYTES = 50_000_000
"""Protocol Buffers set aside so much for a string that arrives; a longer one is copied as it grows.

TensorFlow's ring sends a k-th of all gradients, of 4 bytes each, as one such string.
"""
LINE: Form = ("1", "parameters")
"""The paper's."""
ALONE: Sequence[Form] = (("parameters",), ("operations",), LINE, ("parameters", "operations"))
"""Of one device, from simple to complex."""
ADDED: Sequence[Form] = (
    ("parameters",),
    LINE,
    ("1", "traffic"),
    ("parameters", "traffic"),
    ("parameters", "traffic", "large"),
    ("1", "operations", "traffic"),
)
"""Of what data parallelism adds to it: gradients are packed, however many devices there are;
travel; take longer to arrive where messages are large; and operations take longer meanwhile."""
_PARAMETER_BYTES = 4.0
_FEWEST = 3
_PREFERENCE = 0.05
_EXACT = 1e-9
_TURNS = 100


class Fit(NamedTuple):
    """Seconds of each term, and how much longer than in the mean a node type takes for all."""

    seconds: Mapping[str, float]
    factors: Mapping[str, float]

    def predict(self, rows: pl.DataFrame) -> Array:
        """Return S of each row, seconds; of node types that were not seen as in the mean."""
        factors = np.array([self.factors.get(name, 1.0) for name in rows["node_type"]])
        terms = _design(rows, tuple(self.seconds))
        return np.asarray(factors * (terms @ np.array(list(self.seconds.values()))))


def traffic(devices: Number) -> Number:
    """Return which part of its gradients each of k devices of a ring sends, twice."""
    return (devices - 1) / devices


def message_bytes(parameters: Number, devices: Number) -> Number:
    """Return the size of each message of a ring of k devices."""
    return _PARAMETER_BYTES * parameters / devices


def chosen(groups: Sequence[pl.DataFrame], offered: Sequence[Form], relative: bool) -> Form | None:
    """Return the form that predicts left-out DNNs best over all groups of rows.

    The first one is taken that no later one betters by more than 5 %. One for all groups, as each
    has too few DNNs to choose by; None if all have fewer than three.
    """
    errors = {form: [left_out_error(rows, form, relative) for rows in groups] for form in offered}
    tried = {
        form: float(np.sqrt(np.mean([one**2 for one in each if one is not None])))
        for form, each in errors.items()
        if any(one is not None for one in each)
    }
    enough = min(tried.values(), default=0.0) / (1 - _PREFERENCE) + _EXACT
    return next((form for form, error in tried.items() if error <= enough), None)


def fit(rows: pl.DataFrame, form: Form, relative: bool) -> Fit:
    """Fit terms by least squares, the same for all node types but for a factor of each.

    Args:
        rows: `models.ceer.overhead.overheads`.
        form: the terms; those that rows cannot tell apart are left out.
        relative: errors count relative to the step; else in seconds.
    """
    terms = _told_apart(rows, form)
    columns, overhead_s = _design(rows, terms), rows["overhead_s"].to_numpy()
    weights = 1 / rows["step_s"].to_numpy() if relative else np.ones(rows.height)
    node = rows["node_type"].rank("dense").to_numpy() - 1
    factors = np.ones(node.max() + 1)
    for _ in range(_TURNS):
        solved = _solve(columns * (factors[node] * weights)[:, np.newaxis], overhead_s * weights)
        before, factors = factors, _factors(node, columns @ solved * weights, overhead_s * weights)
        if np.abs(factors - before).max() < _EXACT:
            break
    names = rows["node_type"].unique().sort().to_list()
    return Fit(
        dict(zip(terms, solved.tolist(), strict=True)),
        dict(zip(names, factors.tolist(), strict=True)),
    )


def _factors(node: NDArray[np.int64], mean_s: Array, seconds: Array) -> Array:
    """Return by what each node type multiplies what it takes in the mean; 1 in their mean."""
    there = np.bincount(node, mean_s**2)
    found = np.bincount(node, mean_s * seconds)
    factors = np.divide(found, there, out=np.ones_like(there), where=there > 0).clip(min=0)
    return np.asarray(factors / factors.mean() if factors.any() else np.ones_like(there))


def left_out_error(rows: pl.DataFrame, form: Form, relative: bool) -> float | None:
    """Return the root mean square error of DNNs that were left out, relative to their steps.

    None for fewer than three DNNs.
    """
    folds = rows.partition_by("dnn", maintain_order=True)
    if len(folds) < _FEWEST:
        return None
    wrong: list[float] = []
    for unseen in folds:
        seen = rows.filter(pl.col("dnn") != unseen["dnn"][0])
        left_out_s = pl.Series(fit(seen, form, relative).predict(unseen))
        wrong += ((left_out_s - unseen["overhead_s"]) / unseen["step_s"]).to_list()
    return float(np.sqrt(np.mean(np.square(wrong))))


def _told_apart(rows: pl.DataFrame, form: Form) -> Form:
    large = np.count_nonzero(_design(rows, ("large",)))
    if "large" in form and large in (0, rows.height):
        return tuple(term for term in form if term != "large")
    if form[0] == "1" and not np.ptp(_design(rows, form[1:])):
        return form[:1]
    return form


def _design(rows: pl.DataFrame, terms: Form) -> Array:
    parameters = rows["parameter_count"].to_numpy().astype(np.float64)
    devices = rows["devices"].to_numpy().astype(np.float64)
    sent = parameters * traffic(devices)
    column = {
        "1": np.ones(rows.height),
        "parameters": parameters,
        "operations": rows["operations_s"].to_numpy(),
        "traffic": sent,
        "large": np.where(message_bytes(parameters, devices) > LARGE_MESSAGE_BYTES, sent, 0.0),
    }
    return np.column_stack([column[term] for term in terms])


def _solve(columns: Array, seconds: Array) -> Array:
    # Parameters are millions, seconds are parts of one: scaled, they are as exact as can be.
    size = np.abs(columns).max(axis=0)
    size[size == 0] = 1
    return np.asarray(np.linalg.lstsq(columns / size, seconds)[0] / size)
