"""Timelines of workers as a picture, as Figures 4 and 15 of ICPE'20."""

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from models.async_sgd.timeline import Timeline
from reports.plots import PREDICTED, RESOURCES, styled

_NAMES = {"downlink": "downlink", "worker": "compute", "uplink": "uplink", "ps": "server"}
_ROW_INCHES, _FRAME_INCHES, _WIDTH_INCHES = 0.21, 0.75, 11.0


@styled
def timelines(timeline: Timeline, title: str = "") -> Figure:
    """Plot what workers are predicted to do when.

    Each worker has a row of steps and one for each resource in use, darker where more runs at once.
    """
    rows = _rows(timeline)
    inches = len(rows) * _ROW_INCHES + _FRAME_INCHES
    figure = Figure(figsize=(_WIDTH_INCHES, inches + 0.4), layout="constrained")
    figure.suptitle(title, fontsize=12)
    axes = figure.subplots()
    axes.set_title("predicted", fontsize=10, loc="left")
    _draw(axes, timeline, rows)
    axes.set_xlabel("milliseconds")
    axes.set_xlim(left=0)
    return figure


Row = tuple[int, str | None]
"""A worker and a resource; None are its steps."""


def _rows(timeline: Timeline) -> list[Row]:
    used = set(timeline.intervals["resource"])
    resources = [resource for resource in RESOURCES if resource in used]
    return [(worker, row) for worker in timeline.workers for row in (None, *resources)]


def _draw(axes: Axes, timeline: Timeline, rows: list[Row]) -> None:
    for place, (worker, resource) in enumerate(rows):
        if resource is None:
            _draw_steps(axes, timeline, worker, place)
            continue
        spans = timeline.intervals.filter(
            pl.col("worker") == worker, pl.col("resource") == resource
        )
        axes.broken_barh(
            _bars(spans), (place - 0.4, 0.8), color=RESOURCES[resource], alpha=0.5, lw=0
        )
    axes.set_yticks(range(len(rows)), labels=[_label(row) for row in rows], fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")


def _draw_steps(axes: Axes, timeline: Timeline, worker: int, place: int) -> None:
    steps = timeline.steps.filter(pl.col("worker") == worker).sort("start_us")
    axes.broken_barh(_bars(steps), (place - 0.4, 0.8), facecolor=PREDICTED, edgecolor="white", lw=1)
    for step, start_us, end_us in steps.select("step", "start_us", "end_us").iter_rows():
        axes.text(
            (start_us + end_us) / 2e3,
            place,
            str(step),
            ha="center",
            va="center",
            fontsize=7,
            color="white",
        )


def _bars(spans: pl.DataFrame) -> list[tuple[float, float]]:
    """Return (start, length) in milliseconds of spans that take time."""
    length_us = pl.col("end_us") - pl.col("start_us")
    bars = spans.filter(length_us > 0).select(pl.col("start_us") / 1e3, length_ms=length_us / 1e3)
    return [(start, length) for start, length in bars.iter_rows()]


def _label(row: Row) -> str:
    worker, resource = row
    return f"worker {worker}: steps" if resource is None else _NAMES[resource]
