"""Several devices: how much shorter epochs are, and S (sections III-D and IV-C, Figs. 6 and 7)."""

import polars as pl

from forecasting.ceer_study import Measured
from models.ceer import overhead
from models.ceer.analysis import scaling
from reports import ceer_plots
from reports.figure_html import captioned, grid
from reports.wording import span

_SETUP = ("devices", "link_mbps")


def section(measured: Measured) -> str:
    """Return figures of the steps of DNNs that predictors saw; nothing without any."""
    operations, steps = measured.fitted
    if steps.is_empty():
        return ""
    relative = scaling(steps)
    several = relative.filter(pl.col("devices").max().over("dnn") > 1)
    figures = [
        (f"{dnn} on several devices", _scaling(one))
        for (dnn,), one in several.group_by("dnn", maintain_order=True)
    ]
    rows = overhead.overheads(steps, operations)
    figures += [
        (_title(*one.select(_SETUP).row(0)), _overheads(one))
        for one in rows.sort(_SETUP).partition_by(_SETUP, maintain_order=True)
    ]
    return f"<h2>Devices</h2>{grid(figures)}"


def _title(devices: int, link_mbps: float | None) -> str:
    if devices == 1:
        return "S of one device"
    return f"S of {devices} devices" + ("" if link_mbps is None else f", {link_mbps:g} Mb/s")


def _scaling(rows: pl.DataFrame) -> str:
    means = rows.group_by("devices").agg(pl.col("relative_time").mean()).sort("devices")
    said = ", ".join(f"{k}: {part:.2f}" for k, part in means.iter_rows())
    return captioned(
        ceer_plots.scaling(rows),
        f"Epoch on several devices relative to one; in the mean {said}",
        f"Mean over node types, {said}.",
    )


def _overheads(rows: pl.DataFrame) -> str:
    fits = overhead.fit(rows, forms="paper", relative=False)
    lines = {one.node_type: (one.intercept_s, one.per_parameter_s) for one in fits}
    said = f"R² {span((one.r_squared for one in fits), '{:.2f}')}"
    return captioned(
        ceer_plots.overheads(rows, lines),
        f"What a step takes beside its operations, by parameters; {said}",
        f"Steps less the sum of their operations; lines of least squares: {said}.",
    )
