"""Several devices: how much shorter epochs are, and S (sections III-D and IV-C, Figs. 6 and 7)."""

import polars as pl

from forecasting.findings.devices import Beside, Devices
from reports import ceer_plots
from reports.figure_html import captioned, grid
from reports.wording import span


def section(devices: Devices | None) -> str:
    """Return figures of the steps of DNNs that predictors saw; nothing without any."""
    if devices is None:
        return ""
    figures = [
        *((f"{dnn} on several devices", _scaling(one)) for dnn, one in devices.relative.items()),
        *((_title(one), _overheads(one)) for one in devices.beside),
    ]
    return f"<h2>Several devices in a node</h2>{grid(figures)}"


def _title(beside: Beside) -> str:
    if beside.devices == 1:
        return "S of one device"
    speed = "" if beside.link_mbps is None else f", {beside.link_mbps:g} Mb/s"
    return f"S of {beside.devices} devices{speed}"


def _scaling(rows: pl.DataFrame) -> str:
    means = rows.group_by("devices").agg(pl.col("relative_time").mean()).sort("devices")
    said = ", ".join(f"{k}: {part:.2f}" for k, part in means.iter_rows())
    return captioned(
        ceer_plots.scaling(rows),
        f"Epoch on several devices relative to one; in the mean {said}",
        f"Mean over node types, {said}.",
    )


def _overheads(beside: Beside) -> str:
    said = f"R² {span(beside.r_squared, '{:.2f}')}"
    return captioned(
        ceer_plots.overheads(beside.rows, beside.lines),
        f"What a step takes beside its operations, by parameters; {said}",
        f"Steps less the sum of their operations; lines of least squares: {said}.",
    )
