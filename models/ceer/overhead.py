"""What a step takes beside its operations, S_k: linear in parameters (sections IV-A and IV-C)."""

from collections.abc import Collection, Mapping
from math import hypot
from typing import Literal

import polars as pl
from pydantic import Field

from models.ceer import overhead_forms
from models.ceer.observed import STEP, operation_sums
from models.ceer.overhead_forms import ADDED, ALONE, LARGE_MESSAGE_BYTES, LINE, Fit, Form
from warehouse.records import BadInput, Record

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
`warehouse/queries/ceer_steps.sql` makes such rows of a history.
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


class Overhead(Record):
    """S_k of one node type, number of devices and link.

    seconds = intercept_s + per_parameter_s · parameters + per_operation_s · sum of operations (s).
    The last is 0 in the paper; below 0, it is the share of the operations' time that overlaps.
    Each parameter takes per_large_parameter_s longer where a ring of the devices has messages above
    `LARGE_MESSAGE_BYTES`, 0 in the paper.
    With `alone`, S of one device, these seconds are what several devices add to it.
    `r_squared` is that of the seconds. `error` is the root mean square error of S of DNNs that were
    left out, relative to their steps; None for fewer than three.
    """

    node_type: str
    devices: int = Field(ge=1)
    link_mbps: float | None
    intercept_s: float
    per_parameter_s: float
    per_operation_s: float = 0.0
    per_large_parameter_s: float = 0.0
    r_squared: float | None
    dnns: int = Field(ge=1)
    error: float | None
    alone: "Overhead | None" = None

    def predict_s(self, parameter_count: float, operations_s: float) -> float:
        """Return S_k in seconds; below 0 where operations overlap by more than is lost.

        No device makes the others faster: where a line would have it so, nothing is added.
        """
        seconds = (
            self.intercept_s
            + self.per_parameter_s * parameter_count
            + self.per_operation_s * operations_s
        )
        if overhead_forms.message_bytes(parameter_count, float(self.devices)) > LARGE_MESSAGE_BYTES:
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
        BadInput: columns are missing, a time is not above 0, or no step has a profile.

    Source: Hafeez, Gandhi, Ceer, sections IV-A (equation 2) and IV-C.
    """
    missing = [name for name in STEPS if name not in steps.columns]
    good = ((pl.col("step_s") > 0) & (pl.col("parameter_count") > 0)).fill_null(False)
    bad = 0 if missing else steps.filter(~good).height
    if missing or bad:
        found = f"no {', '.join(missing)}"
        found = found if missing else f"{bad} rows with step_s or parameter_count not above 0"
        raise BadInput(f"steps to fit: expected {', '.join(STEPS)}, found {found}; measure again")
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


def fit(
    measured: pl.DataFrame, *, forms: Literal["paper", "own"], relative: bool
) -> tuple[Overhead, ...]:
    """Fit S of each node type, number of devices and link.

    Args:
        measured: as `overheads` returns it.
        forms: `paper`: S_k is a line in parameters. `own`: S_1 grows from nothing with parameters,
            with the sum of operations or with both, or is a line. To it is added T_k − T_1, fitted
            to all k and node types of a link at once: it grows with parameters, is a line, grows
            with the traffic of a ring too, or faster where messages are large, and differs from
            node type to node type by a factor, and says how much longer steps take on numbers of
            devices between those that were measured. Data parallelism on one device, where it was
            measured, adds to T_1 too. Forms are those that predict left-out DNNs best. Where no
            step was profiled on one device, as in the paper.
        relative: errors count relative to the step; else in seconds, as in the paper.
    """
    setups = _by_setup(measured)
    if forms == "paper":
        return tuple(_fitted(setup, rows, LINE, relative) for setup, rows in setups.items())
    single = _by_setup(measured.filter(~pl.col("distributed")))
    form = overhead_forms.chosen(list(single.values()), ALONE, relative) or LINE
    alone = {setup: _fitted(setup, rows, form, relative) for setup, rows in single.items()}
    found = alone | _several(measured, {one.node_type: one for one in alone.values()}, relative)
    for setup, rows in setups.items():
        if setup not in found:
            found[setup] = _fitted(setup, rows, LINE, relative)
    return tuple(found[setup] for setup in sorted(found, key=_place))


def _by_setup(measured: pl.DataFrame) -> dict[Setup, pl.DataFrame]:
    parts = measured.sort(_SETUP).partition_by(_SETUP, maintain_order=True)
    return {rows.select(_SETUP).row(0): rows for rows in parts}


def _place(setup: Setup) -> tuple[str, int, float]:
    node_type, devices, link_mbps = setup
    return node_type, devices, link_mbps or 0.0


def _several(
    measured: pl.DataFrame, alone: Mapping[str, Overhead], relative: bool
) -> dict[Setup, Overhead]:
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
    form = overhead_forms.chosen(links, ADDED, relative) or ADDED[0]
    found = {}
    for link in links:
        fitted = overhead_forms.fit(link, form, relative)
        error = overhead_forms.left_out_error(link, form, relative)
        for setup in between(link.select(_SETUP).unique(maintain_order=True).rows()):
            first, more = alone[setup[0]], _overhead(setup, link, fitted, error)
            known = first.error is not None and more.error is not None
            both = hypot(first.error or 0.0, more.error or 0.0) if known else None
            found[setup] = more.model_copy(update={"alone": first, "error": both})
    return found


def _fitted(setup: Setup, rows: pl.DataFrame, form: Form, relative: bool) -> Overhead:
    found = overhead_forms.fit(rows, form, relative)
    return _overhead(setup, rows, found, overhead_forms.left_out_error(rows, form, relative))


def _overhead(setup: Setup, rows: pl.DataFrame, found: Fit, error: float | None) -> Overhead:
    """Return what a fit to `rows` says of one setup among theirs."""
    node_type, devices, link_mbps = setup
    factor, sent = found.factors[node_type], overhead_forms.traffic(float(devices))
    seconds = {term: factor * each_s for term, each_s in found.seconds.items()}
    overhead_s = rows["overhead_s"].to_numpy()
    variation = float(((overhead_s - overhead_s.mean()) ** 2).sum())
    left = float(((overhead_s - found.predict(rows)) ** 2).sum())
    return Overhead(
        node_type=node_type,
        devices=devices,
        link_mbps=link_mbps,
        intercept_s=seconds.get("1", 0.0),
        per_parameter_s=seconds.get("parameters", 0.0) + sent * seconds.get("traffic", 0.0),
        per_operation_s=seconds.get("operations", 0.0),
        per_large_parameter_s=sent * seconds.get("large", 0.0),
        r_squared=1 - left / variation if variation > 0 else None,
        dnns=rows["dnn"].n_unique(),
        error=error,
    )
