"""What a step takes beside its operations, S_k: linear in parameters (sections IV-A and IV-C)."""

from collections.abc import Collection, Mapping, Sequence
from math import hypot
from typing import NamedTuple, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from models.ceer.operations import STEP, operation_sums
from warehouse.records import BadInput, Record

# Forms of S, and which of them predicts the steps of DNNs that it has not seen.


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


class OverheadFit(NamedTuple):
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


def choose_form(groups: Sequence[pl.DataFrame], offered: Sequence[Form]) -> Form | None:
    """Return the form that predicts left-out DNNs best over all groups of rows.

    The first one is taken that no later one betters by more than 5 %. One for all groups, as each
    has too few DNNs to choose by; None if all have fewer than three.
    """
    errors = {form: [left_out_error(rows, form, True) for rows in groups] for form in offered}
    tried = {
        form: float(np.sqrt(np.mean([error**2 for error in each if error is not None])))
        for form, each in errors.items()
        if any(error is not None for error in each)
    }
    enough = min(tried.values(), default=0.0) / (1 - _PREFERENCE) + _EXACT
    return next((form for form, error in tried.items() if error <= enough), None)


def fit_form(rows: pl.DataFrame, form: Form, relative: bool) -> OverheadFit:
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
        weighted = columns * (factors[node] * weights)[:, np.newaxis]
        # Parameters are millions, seconds are parts of one: scaled, they are as exact as can be.
        size = np.abs(weighted).max(axis=0)
        size[size == 0] = 1
        solved = np.linalg.lstsq(weighted / size, overhead_s * weights)[0] / size
        before, factors = factors, _factors(node, columns @ solved * weights, overhead_s * weights)
        if np.abs(factors - before).max() < _EXACT:
            break
    names = rows["node_type"].unique().sort().to_list()
    return OverheadFit(
        dict(zip(terms, solved.tolist(), strict=True)),
        dict(zip(names, factors.tolist(), strict=True)),
    )


def _factors(node: NDArray[np.int64], mean_s: Array, seconds: Array) -> Array:
    """Return by what each node type multiplies what it takes in the mean; 1 in their mean."""
    square_sums = np.bincount(node, mean_s**2)
    product_sums = np.bincount(node, mean_s * seconds)
    factors = np.divide(
        product_sums, square_sums, out=np.ones_like(square_sums), where=square_sums > 0
    ).clip(min=0)
    return np.asarray(factors / factors.mean() if factors.any() else np.ones_like(square_sums))


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
        left_out_s = pl.Series(fit_form(seen, form, relative).predict(unseen))
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


STEPS = pl.Schema(
    {
        "dnn": pl.String,
        "image_size": pl.Int64,
        "batch_size": pl.Int64,
        "node_type": pl.String,
        "devices": pl.Int64,
        "distributed": pl.Boolean,
        "link_mbps": pl.Float64,
        "parameter_count": pl.Int64,
        "step_s": pl.Float64,
    }
)
"""Measured untraced steps: `batch_size` is per device, `link_mbps` NULL where links are not shaped.

`distributed`: by the framework's data parallelism, which one device can run too; else it is the
step whose operations were profiled.
"""
Setup = tuple[str, int, float | None]
_SETUP = ("node_type", "devices", "link_mbps")


def between(setups: Collection[Setup]) -> list[Setup]:
    """Return setups of several devices, with those of every number between measured ones.

    Args:
        setups: of several devices, that were measured.
    """
    counts: dict[tuple[str, float | None], list[int]] = {}
    for node_type, devices, link_mbps in setups:
        counts.setdefault((node_type, link_mbps), []).append(devices)
    return [
        (node_type, devices, link_mbps)
        for (node_type, link_mbps), measured in counts.items()
        for devices in range(min(measured), max(measured) + 1)
    ]


class DeviceOverhead(Record):
    """S_k of one node type, number of devices and link.

    seconds = intercept_s + per_parameter_s · parameters + per_operation_s · sum of operations (s).
    The last is 0 in the paper; below 0, it is the share of the operations' time that overlaps.
    Each parameter takes per_large_parameter_s longer where a ring of the devices has messages above
    `LARGE_MESSAGE_BYTES`, 0 in the paper.
    With `alone`, S of one device, these seconds are what several devices add to it.
    `error` is the root mean square error of S of DNNs that were
    left out, relative to their steps; None for fewer than three.
    """

    node_type: str
    devices: int = Field(ge=1)
    link_mbps: float | None
    intercept_s: float
    per_parameter_s: float
    per_operation_s: float = 0.0
    per_large_parameter_s: float = 0.0
    error: float | None
    alone: "DeviceOverhead | None" = None

    def predict_s(self, parameter_count: float, operations_s: float) -> float:
        """Return S_k in seconds; below 0 where operations overlap by more than is lost.

        No device makes the others faster: where a line would have it so, nothing is added.
        """
        seconds = (
            self.intercept_s
            + self.per_parameter_s * parameter_count
            + self.per_operation_s * operations_s
        )
        if message_bytes(parameter_count, float(self.devices)) > LARGE_MESSAGE_BYTES:
            seconds += self.per_large_parameter_s * parameter_count
        if self.alone is None:
            return seconds
        return self.alone.predict_s(parameter_count, operations_s) + max(seconds, 0.0)


def overheads(steps: pl.DataFrame, observed: pl.DataFrame) -> pl.DataFrame:
    """Return `STEPS` with operations_s and overhead_s of every step whose operations were profiled.

    S_1 = T_1 − Σ operations, and S_k = S_1 + (T_k − T_1) at the same batch per device, which is
    T_k − Σ operations: S_k plus the measured operations is the measured step, exactly. Repeated
    measurements of a step count with their mean.

    Raises:
        BadInput: a time is not above 0, or no step has a profile.

    Source: Hafeez, Gandhi, Ceer, sections IV-A (equation 2) and IV-C.
    """
    good = ((pl.col("step_s") > 0) & (pl.col("parameter_count") > 0)).fill_null(False)
    if bad := steps.filter(~good).height:
        raise BadInput(
            f"steps to fit: expected step_s and parameter_count above 0, found {bad} rows without; "
            "measure again"
        )
    repeated = [name for name in STEPS if name != "step_s"]
    joined = (
        steps.select([pl.col(name).cast(kind) for name, kind in STEPS.items()])
        .group_by(repeated)
        .agg(pl.col("step_s").mean())
        .join(operation_sums(observed), on=STEP)
        .with_columns((pl.col("step_s") - pl.col("operations_s")).alias("overhead_s"))
        .sort(pl.all())
    )
    if joined.is_empty():
        raise BadInput(
            f"steps to fit: expected profiled operations of the same dnn, image_size, batch_size "
            f"and node_type, found none for {steps.height} steps; profile one of these steps"
        )
    return joined


def fit(measured: pl.DataFrame, published: bool) -> tuple[DeviceOverhead, ...]:
    """Fit S of each node type, number of devices and link.

    Args:
        measured: as `overheads` returns it.
        published: S_k is a line in parameters, and errors count in seconds. Else they count
            relative to the step, S_1 grows from nothing with parameters,
            with the sum of operations or with both, or is a line. To it is added T_k − T_1, fitted
            to all k and node types of a link at once: it grows with parameters, is a line, grows
            with the traffic of a ring too, or faster where messages are large, and differs from
            node type to node type by a factor, and says how much longer steps take on numbers of
            devices between those that were measured. Data parallelism on one device, where it was
            measured, adds to T_1 too. Forms are those that predict left-out DNNs best. Where no
            step was profiled on one device, as in the paper.
    """
    setups = _by_setup(measured)
    if published:
        return tuple(_fitted(setup, rows, LINE, False) for setup, rows in setups.items())
    single = _by_setup(measured.filter(~pl.col("distributed")))
    form = choose_form(list(single.values()), ALONE) or LINE
    alone = {setup: _fitted(setup, rows, form, True) for setup, rows in single.items()}
    fitted = alone | _several(
        measured, {overhead.node_type: overhead for overhead in alone.values()}
    )
    for setup, rows in setups.items():
        if setup not in fitted:
            fitted[setup] = _fitted(setup, rows, LINE, True)
    return tuple(
        fitted[setup] for setup in sorted(fitted, key=lambda setup: (*setup[:2], setup[2] or 0.0))
    )


def _by_setup(measured: pl.DataFrame) -> dict[Setup, pl.DataFrame]:
    parts = measured.sort(_SETUP).partition_by(_SETUP, maintain_order=True)
    return {rows.select(_SETUP).row(0): rows for rows in parts}


def _several(
    measured: pl.DataFrame, alone: Mapping[str, DeviceOverhead]
) -> dict[Setup, DeviceOverhead]:
    """Return S_1 with what data parallelism adds, of each setup with DNNs that were profiled too.

    And of every number of devices between those: what they add grows with what travels, which is
    the same part of the parameters for all links and node types.
    """
    steps = measured.filter(~pl.col("distributed")).select(*STEP, alone_s="overhead_s")
    rows = (
        measured.filter("distributed")
        .join(steps, on=STEP)
        .with_columns(pl.col("overhead_s") - pl.col("alone_s"))
        .sort(pl.all())
    )
    links = rows.partition_by("link_mbps", maintain_order=True)
    form = choose_form(links, ADDED) or ADDED[0]
    combined = {}
    for link in links:
        fitted, error = fit_form(link, form, True), left_out_error(link, form, True)
        for setup in between(link.select(_SETUP).unique(maintain_order=True).rows()):
            first, more = alone[setup[0]], _overhead(setup, link, fitted, error)
            known = first.error is not None and more.error is not None
            combined_error = hypot(first.error or 0.0, more.error or 0.0) if known else None
            combined[setup] = more.model_copy(update={"alone": first, "error": combined_error})
    return combined


def _fitted(setup: Setup, rows: pl.DataFrame, form: Form, relative: bool) -> DeviceOverhead:
    fitted = fit_form(rows, form, relative)
    return _overhead(setup, rows, fitted, left_out_error(rows, form, relative))


def _overhead(
    setup: Setup, rows: pl.DataFrame, fitted: OverheadFit, error: float | None
) -> DeviceOverhead:
    """Return what a fit to `rows` says of one setup among theirs."""
    node_type, devices, link_mbps = setup
    factor, sent = fitted.factors[node_type], traffic(float(devices))
    seconds = {term: factor * each_s for term, each_s in fitted.seconds.items()}
    return DeviceOverhead(
        node_type=node_type,
        devices=devices,
        link_mbps=link_mbps,
        intercept_s=seconds.get("1", 0.0),
        per_parameter_s=seconds.get("parameters", 0.0) + sent * seconds.get("traffic", 0.0),
        per_operation_s=seconds.get("operations", 0.0),
        per_large_parameter_s=sent * seconds.get("large", 0.0),
        error=error,
    )
