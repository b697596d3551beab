"""How a node type's watched metrics changed over time, beside what was expected of each."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import polars as pl
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure

from reports.plots import SERIES, blank, styled
from reports.svg import INK

Span = tuple[datetime, datetime]
CALM_PERCENT = 10.0
"""What the axis shows at least, so that noise does not look like news."""
_HEADROOM = 1.35
"""For the words at the top."""
_LEVELS = 3
"""Heights of words, so that changes one after the other do not write over each other."""


@styled
def changes(
    probes: pl.DataFrame, profiled: Sequence[datetime], metrics: Sequence[str], span: Span
) -> Figure:
    """Plot by how many per cent each metric was worse than expected, over time.

    Args:
        probes: watched_at, what, change_percent, outcome, alarm and confirmed, in order of time.
        profiled: when visits began.
        metrics: all there are, in the order of their colours.
        span: of time, for all pictures of a page.
    """
    figure, axes = blank("")
    figure.set_size_inches(6.0, 2.8)
    axes.axhline(0, color=INK, alpha=0.35, linewidth=0.8)
    for metric, colour in colours(metrics).items():
        rows = probes.filter(pl.col("what") == metric).drop_nulls("change_percent")
        axes.plot(
            rows["watched_at"].to_list(), rows["change_percent"], ".-",
            color=colour, linewidth=1.1, markersize=3, gid=f"metric {metric}",
        )  # fmt: skip
        _mark_alarms(axes, rows.filter("alarm"), colour)
    _set_limits(axes, probes["change_percent"], span)
    for place, (at, words) in enumerate(turns(probes)):
        _mark_turn(axes, at, words, place, span)
    for at in profiled:
        axes.axvline(float(date2num(at)), ymax=0.06, color=INK, linewidth=1.6, gid="visit")
    axes.set_ylabel("worse than expected, %")
    locator = AutoDateLocator(minticks=3, maxticks=7)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    return figure


def colours(metrics: Sequence[str]) -> dict[str, str]:
    """Return the colour of each metric."""
    return {metric: SERIES[place % len(SERIES)] for place, metric in enumerate(metrics)}


def turns(probes: pl.DataFrame) -> Iterator[tuple[datetime, str]]:
    """Yield when a confirmed change began or ended, and what changed, in words."""
    confirmed = probes.filter("confirmed").sort("watched_at", maintain_order=True)
    for (at,), rows in confirmed.group_by("watched_at", maintain_order=True):
        outcome = "as before" if "ended" in rows["outcome"] else rows["outcome"][0]
        others = f" and {rows.height - 1} more" if rows.height > 1 else ""
        assert isinstance(at, datetime)
        yield at, f"{outcome}: {rows['what'][0]}{others}"


def _mark_alarms(axes: Axes, alarms: pl.DataFrame, colour: str) -> None:
    """Mark confirmed alarms with a filled circle, others with a hollow one."""
    for is_confirmed in (True, False):
        rows = alarms.filter(pl.col("confirmed") == is_confirmed)
        if not rows.is_empty():
            axes.plot(
                rows["watched_at"].to_list(), rows["change_percent"], "o",
                color=colour, markersize=7, markeredgewidth=1.6,
                markerfacecolor=colour if is_confirmed else "none",
                gid="confirmed" if is_confirmed else "not confirmed",
            )  # fmt: skip


def _mark_turn(axes: Axes, at: datetime, words: str, place: int, span: Span) -> None:
    x = float(date2num(at))
    axes.axvline(x, color=INK, linewidth=1, linestyle=(0, (4, 3)), alpha=0.7, gid="turn")
    is_late = at - span[0] > (span[1] - span[0]) * 0.55
    axes.annotate(
        words, (x, 1), xycoords=axes.get_xaxis_transform(), parse_math=False,
        xytext=(-4 if is_late else 4, -4 - 12 * (place % _LEVELS)), textcoords="offset points",
        ha="right" if is_late else "left", va="top", fontsize=9,
    )  # fmt: skip


def _set_limits(axes: Axes, changes_percent: pl.Series, span: Span) -> None:
    known = [one for one in changes_percent if one is not None]
    low, high = min([-CALM_PERCENT, *known]), max([CALM_PERCENT, *known])
    axes.set_ylim(low * 1.15, high * _HEADROOM)
    margin = (span[1] - span[0]) * 0.03
    axes.set_xlim(span[0] - margin, span[1] + margin)  # type: ignore[arg-type]
