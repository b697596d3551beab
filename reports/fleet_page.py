"""The fleet's page: tables and plots in one HTML file, to be read without a network."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure

from fleet.page import DAYS, FleetPage
from reports.html import Cell, caption_figure, fill_template, grid, table
from reports.plots import SERIES, blank, styled
from reports.svg import INK, in_page
from reports.wording import DASH, percent, span
from studies.messages import count
from warehouse.durable_files import write_text

# Tables of the fleet's page: its members, its alarms, its probes, and what is stale.


MOST_ROWS = 50
"""Rows of a table that grows; the rest is counted, and a command lists it."""
_NOTHING = '<p class="soft">{}</p>'
_Row = Mapping[str, Any]


def status(rows: pl.DataFrame) -> str:
    """Return the table of members, as `stepcast fleet status` prints it."""
    head = ("node type", "last profiled", "drift", "next visit", "minutes", "dollars", "state")
    body = [
        [
            *(_text(row[name]) for name in ("node_type", "last_profiled", "drift", "next")),
            Cell(f"{row['month_minutes']:.1f}"),
            Cell(DASH if row["month_usd"] is None else f"{row['month_usd']:.4f}"),
            _text(row["state"]),
        ]
        for row in rows.to_dicts()
    ]
    note = '<p class="soft">Minutes and dollars are those of this month.</p>'
    return table(head, body) + note if body else ""


def alarms(rows: pl.DataFrame) -> str:
    """Return the table of alarms, the newest first."""
    if rows.is_empty():
        return _NOTHING.format("None has been raised.")
    head = ("node type", "when", "what", "how", "change", "z", "confirmed", "probe, second probe")
    body = [
        [
            _text(row["name"]),
            _time(row["watched_at"]),
            _text(row["what"]),
            _text("as before" if row["outcome"] == "ended" else row["outcome"]),
            Cell(percent(row["change_percent"], signed=True)),
            Cell(DASH if row["robust_z"] is None else f"{row['robust_z']:+.1f}".replace("-", "−")),
            _text("yes" if row["confirmed"] else "no"),
            _text("\n".join(filter(None, (row["watched"], row["confirmed_by"])))),
        ]
        for row in rows.head(MOST_ROWS).to_dicts()
    ]
    shown = (
        "<p>Change: how much worse than expected. z: the same in standard deviations. "
        "<code>stepcast show RUN</code> shows a probe: its command, settings, host and price.</p>"
    )
    return shown + table(head, body) + _rest(rows.height, "alarm", "stepcast query alarms")


def probes_table(rows: pl.DataFrame, metrics: Sequence[str]) -> str:
    """Return a table of the probes in a picture, the newest first, folded away."""
    known = [metric for metric in metrics if metric in rows["what"]]
    body = [
        [
            _time(at),
            _text(run_id),
            *(Cell(percent(of.get(metric), signed=True)) for metric in known),
        ]
        for at, run_id, of in _by_probe(rows)
    ]
    title = f"{count(len(body), 'probe')}: runs, and the change of each metric"
    shown = table(("when", "run", *known), body[::-1])
    return f"<details><summary>{title}</summary>{shown}</details>"


def _by_probe(rows: pl.DataFrame) -> list[tuple[datetime, str, Mapping[str, float | None]]]:
    found: dict[str, tuple[datetime, str, dict[str, float | None]]] = {}
    columns = ("watched_at", "watched", "what", "change_percent")
    for at, run_id, what, change in rows.select(columns).iter_rows():
        found.setdefault(run_id, (at, run_id, {}))[2][what] = change
    return list(found.values())


def stale_section(page: FleetPage) -> str:
    """Return what is from before its type changed, and what mends that."""
    if page.stale.is_empty():
        return _NOTHING.format("Nothing: no type has changed after it was profiled.")
    head = ("node type", "changed", "what", "change", "stale runs", "stale fits", "what mends it")
    body = [
        [
            _text(row["name"]),
            _time(row["stale_since"]),
            _text(row["what"]),
            Cell(percent(row["change_percent"], signed=True)),
            Cell(str(row["runs"])),
            Cell(str(row["fits"])),
            _text(row["mends"]),
        ]
        for row in page.stale.to_dicts()
    ]
    note = (
        "<p>Runs and fits from before a type changed. They stay on record as they were measured; "
        "profiling the type anew, and forecasting anew, replaces them.</p>"
    )
    return note + table(head, body) + _stale_runs(page.stale_runs) + _stale_fits(page.stale_fits)


def _stale_runs(rows: pl.DataFrame) -> str:
    body = [
        [
            _text(row["name"]),
            _time(row["started_at"]),
            _text(row["probe"]),
            _text(row["study"]),
            _text(row["run_id"]),
        ]
        for row in rows.head(MOST_ROWS).to_dicts()
    ]
    shown = table(("node type", "measured", "probe", "study", "run"), body)
    rest = _rest(rows.height, "run", "stepcast query stale_runs")
    title = count(rows["run_id"].n_unique(), "stale run")
    return f"<details><summary>{title}</summary>{shown}{rest}</details>"


def _stale_fits(rows: pl.DataFrame) -> str:
    if rows.is_empty():
        return ""
    body = [
        [
            _text(row["name"]),
            _time(row["created_at"]),
            _text(row["system"]),
            Cell(str(row["stale_runs"])),
            _text(row["fit_id"]),
        ]
        for row in rows.head(MOST_ROWS).to_dicts()
    ]
    shown = table(("node type", "fitted", "system", "of them stale runs", "fit"), body)
    rest = _rest(rows.height, "fit", "stepcast query stale_fits")
    title = count(rows["fit_id"].n_unique(), "stale fit")
    return f"<details><summary>{title}</summary>{shown}{rest}</details>"


def _rest(rows: int, what: str, command: str) -> str:
    """Return how many rows are not shown, and what lists them."""
    if rows <= MOST_ROWS:
        return ""
    more = count(rows - MOST_ROWS, f"older {what}")
    return f'<p class="soft">And {more}: <code>{command}</code></p>'


def _text(value: str | None) -> Cell:
    return Cell(DASH if value is None else value, is_number=False)


def _time(at: datetime) -> Cell:
    return Cell(f"{at:%Y-%m-%d %H:%M}", is_number=False)


# How a node type's watched metrics changed over time, beside what was expected of each.


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
    for place, (at, words) in enumerate(change_times(probes)):
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


def change_times(probes: pl.DataFrame) -> Iterator[tuple[datetime, str]]:
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


FILE = "fleet.html"
"""Name of the page in a home."""
_SIGNS = (
    ('<circle cx="11" cy="6" r="4.5" fill="currentColor"/>', "alarm, confirmed by a second probe"),
    (
        '<circle cx="11" cy="6" r="4" fill="none" stroke="currentColor" stroke-width="1.6"/>',
        "alarm, not confirmed",
    ),
    (
        '<path d="M11 0V12" stroke="currentColor" stroke-dasharray="3 2"/>',
        "a change, or its end",
    ),
    ('<path d="M11 5V12" stroke="currentColor" stroke-width="2"/>', "profiled"),
)


def write(page: FleetPage, path: Path) -> Path:
    """Write the page, whole or not at all, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, render(page))
    return path


def render(page: FleetPage) -> str:
    """Return the page as HTML."""
    return fill_template(
        "fleet.html",
        sentence=escape(sentence(page)),
        at=f"{page.at:%Y-%m-%d %H:%M}",
        status=status(page.status),
        days=str(DAYS),
        legend=_legend(page),
        pictures=grid([(name, _picture(name, page)) for name in page.names]),
        alarms=alarms(page.alarms),
        stale=stale_section(page),
    )


def sentence(page: FleetPage) -> str:
    """Return how many members there are, how many have changed, and what is due."""
    if page.status.is_empty():
        return "The fleet has no members; `stepcast fleet add` adds one."
    since = "has changed since it was" if page.changed == 1 else "have changed since they were"
    visits = count(page.visits_due, "visit")
    watches = f"{page.watches_due} watch{'' if page.watches_due == 1 else 'es'}"
    due = [*([visits] if page.visits_due else []), *([watches] if page.watches_due else [])]
    verb = "is" if page.visits_due + page.watches_due == 1 else "are"
    told = f"{' and '.join(due)} {verb}" if due else "nothing is"
    members = count(page.status.height, "node type")
    return f"{members}; {page.changed or 'none'} {since} profiled; {told} due."


def _legend(page: FleetPage) -> str:
    """Return what colours and signs of the pictures mean."""
    lines = [
        (f'<path d="M0 6H22" style="stroke: {in_page(colour)}" stroke-width="3"/>', metric)
        for metric, colour in colours(page.metrics).items()
    ]
    items = (
        '<li><svg width="22" height="12" viewBox="0 0 22 12" aria-hidden="true">'
        f"{drawn}</svg> {escape(words)}</li>"
        for drawn, words in (*lines, *_SIGNS)
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


def _picture(name: str, page: FleetPage) -> str:
    """Return the picture of a type with its probes in a table, or why there is none."""
    probes = page.probes.filter(pl.col("name") == name)
    if probes.is_empty():
        return f'<p class="soft">It has not been watched in these {DAYS} days.</p>'
    points = probes_table(probes, page.metrics)
    if probes["change_percent"].is_null().all():
        watched = count(probes["watched"].n_unique(), "probe")
        return f'<p class="soft">{watched}: too few to judge by as yet.</p>{points}'
    profiled = page.profiled.filter(pl.col("name") == name)["profiled_at"].to_list()
    drawn = changes(probes, profiled, page.metrics, _span(page))
    described = "; ".join(_described(name, probes, len(profiled), page))
    return caption_figure(drawn, described, "") + points


def _span(page: FleetPage) -> Span:
    """Return the time that all pictures show, so that they can be compared."""
    times = [*page.probes["watched_at"], *page.profiled["profiled_at"], page.at]
    return min(times), max(times)


def _described(name: str, probes: pl.DataFrame, profiled: int, page: FleetPage) -> Iterator[str]:
    """Yield what a picture shows, for those who cannot see it."""
    yield f"By how much each metric of {name} was worse than expected, over time"
    yield f"{count(probes['watched'].n_unique(), 'probe')}, {count(profiled, 'visit')}"
    for metric in page.metrics:
        of = probes.filter(pl.col("what") == metric)["change_percent"].drop_nulls()
        if len(of):
            ends = span(of, "{:+.1f}")
            yield f"{metric}: {ends} %, last {percent(of[-1], signed=True)}"
    for at, words in change_times(probes):
        yield f"{words} from {at:%Y-%m-%d %H:%M} on"
    unconfirmed = probes.filter("alarm", ~pl.col("confirmed")).height
    if unconfirmed:
        yield f"{count(unconfirmed, 'alarm')} not confirmed"
