"""The fleet's page: tables and plots in one HTML file, to be read without a network."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure

from fleet.page import DAYS, FleetPage
from reports.html import Column, caption_figure, grid, page, table, text_column
from reports.plots import INK, blank, coloured, in_page, styled
from reports.wording import formatted, percent, signed, span
from studies.messages import count
from warehouse.durable_files import write_text

# Tables of the fleet's page: its members, its alarms, its probes, and what is stale.


MOST_ROWS = 50
"""Rows of a table that grows; the rest is counted, and a command lists it."""
_NOTHING = '<p class="soft">{}</p>'
_TIME = "{:%Y-%m-%d %H:%M}".format


_STATUS = (
    text_column("node type", "node_type"),
    text_column("last profiled", "last_profiled"),
    text_column("drift"),
    text_column("next visit", "next"),
    Column("minutes", "month_minutes", "{:.1f}".format),
    Column("dollars", "month_usd", formatted("{:.4f}")),
    text_column("state"),
)
_ALARMS = (
    text_column("node type", "name"),
    text_column("when", "watched_at", _TIME),
    text_column("what"),
    text_column("how", "outcome", lambda outcome: "as before" if outcome == "ended" else outcome),
    Column("change", "change_percent", signed),
    Column("z", "robust_z", lambda z: formatted("{:+.1f}")(z).replace("-", "−")),
    text_column("confirmed", format=lambda is_confirmed: "yes" if is_confirmed else "no"),
    text_column(
        "probe, second probe",
        lambda row: "\n".join(filter(None, (row["watched"], row["confirmed_by"]))),
    ),
)
_STALE = (
    text_column("node type", "name"),
    text_column("changed", "stale_since", _TIME),
    text_column("what"),
    Column("change", "change_percent", signed),
    Column("stale runs", "runs"),
    Column("stale fits", "fits"),
    text_column("what mends it", "mends"),
)
_STALE_RUNS = (
    text_column("node type", "name"),
    text_column("measured", "started_at", _TIME),
    text_column("probe"),
    text_column("study"),
    text_column("run", "run_id"),
)
_STALE_FITS = (
    text_column("node type", "name"),
    text_column("fitted", "created_at", _TIME),
    text_column("system"),
    Column("of them stale runs", "stale_runs"),
    text_column("fit", "fit_id"),
)


def status(rows: pl.DataFrame) -> str:
    """Return the table of members, as `stepcast fleet status` prints it."""
    if rows.is_empty():
        return ""
    note = '<p class="soft">Minutes and dollars are those of this month.</p>'
    return f"{_first_rows(_STATUS, rows, 'node type')}{note}"


def _first_rows(columns: Sequence[Column], rows: pl.DataFrame, what: str) -> str:
    """Return a table of the first rows, and the others folded away."""
    first, others = rows.head(MOST_ROWS), rows.slice(MOST_ROWS)
    if others.is_empty():
        return table(columns, first)
    title = count(others.height, f"more {what}")
    folded = f"<details><summary>{title}</summary>{table(columns, others)}</details>"
    return f"{table(columns, first)}{folded}"


def alarms(rows: pl.DataFrame) -> str:
    """Return the table of alarms, the newest first."""
    if rows.is_empty():
        return _NOTHING.format("None has been raised.")
    return (
        "<p>Change: how much worse than expected. z: the same in standard deviations. "
        "<code>stepcast history RUN</code> shows how a probe was made.</p>"
        f"{table(_ALARMS, rows.head(MOST_ROWS))}{_rest(rows.height, 'alarm', 'alarms')}"
    )


def probes_table(rows: pl.DataFrame, metrics: Sequence[str]) -> str:
    """Return a table of the probes in a picture, the newest first, folded away."""
    probes = _by_probe(rows)
    columns = (
        text_column("when", "watched_at", _TIME),
        text_column("run"),
        *(Column(metric, format=signed) for metric in metrics if metric in rows["what"]),
    )
    title = f"{count(len(probes), 'probe')}: runs, and the change of each metric"
    return f"<details><summary>{title}</summary>{table(columns, probes[::-1])}</details>"


def _by_probe(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the time and run of each probe, and the change of each metric by its name."""
    changes = rows.pivot(
        "what",
        index=["watched_at", "watched"],
        values="change_percent",
        aggregate_function="last",
        maintain_order=True,
    )
    return changes.rename({"watched": "run"}).to_dicts()


def stale_section(fleet: FleetPage) -> str:
    """Return what is from before its type changed, and what mends that."""
    if fleet.stale.is_empty():
        return _NOTHING.format("Nothing: no type has changed after it was profiled.")
    return (
        "<p>Runs and fits from before a type changed. They stay on record as they were measured; "
        "profiling the type anew, and forecasting anew, replaces them.</p>"
        f"{_first_rows(_STALE, fleet.stale, 'node type')}"
        f"{_folded(fleet.stale_runs, 'run', 'run_id', _STALE_RUNS)}"
        f"{_folded(fleet.stale_fits, 'fit', 'fit_id', _STALE_FITS)}"
    )


def _folded(rows: pl.DataFrame, what: str, key: str, columns: Sequence[Column]) -> str:
    """Return a table of stale runs or fits, folded away; nothing without any."""
    if rows.is_empty():
        return ""
    title = count(rows[key].n_unique(), f"stale {what}")
    shown = table(columns, rows.head(MOST_ROWS))
    rest = _rest(rows.height, what, f"stale_{what}s")
    return f"<details><summary>{title}</summary>{shown}{rest}</details>"


def _rest(rows: int, what: str, query: str) -> str:
    """Return how many rows are not shown, and the query that lists them."""
    if rows <= MOST_ROWS:
        return ""
    more = count(rows - MOST_ROWS, f"older {what}")
    return f'<p class="soft">And {more}: <code>stepcast query {query}</code></p>'


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
    figure, axes = blank()
    figure.set_size_inches(6.0, 2.8)
    figure.set_layout_engine(None)  # laying out takes as long as drawing
    figure.subplots_adjust(left=0.11, right=0.99, bottom=0.12, top=0.98)
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
    axes.vlines(
        date2num(list(profiled)), 0, 0.06, INK, linewidth=1.6,
        transform=axes.get_xaxis_transform(), gid="visits",
    )  # fmt: skip
    axes.set_ylabel("worse than expected, %")
    locator = AutoDateLocator(minticks=3, maxticks=7)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    return figure


def colours(metrics: Sequence[str]) -> dict[str, str]:
    """Return the colour of each metric."""
    return {metric: colour for colour, metric in coloured(metrics)}


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
    known = changes_percent.drop_nulls()
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


def write(fleet: FleetPage, path: Path) -> Path:
    """Write the page, whole or not at all, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, render(fleet))
    return path


def render(fleet: FleetPage) -> str:
    """Return the page as HTML."""
    header = (
        f'<h1>The fleet</h1>\n<p class="lead">{escape(sentence(fleet))}</p>\n'
        f'<p class="soft">As of {fleet.at:%Y-%m-%d %H:%M}. All times are UTC. '
        "<code>stepcast fleet status --page</code> draws this page again; so does each watch and "
        "each visit.</p>"
    )
    main = (
        f"{status(fleet.status)}\n<h2>How each type changed</h2>\n"
        "<p>By how much each watched figure was worse than expected, relative to the speed of the "
        f"host: above 0 is slower. The last {DAYS} days.</p>\n{_legend(fleet)}\n"
        f"{grid([(name, _picture(name, fleet)) for name in fleet.names])}\n{_not_drawn(fleet)}\n"
        f'<h2>Alarms</h2>\n<div class="lines">{alarms(fleet.alarms)}</div>\n'
        f"<h2>What is stale</h2>\n{stale_section(fleet)}"
    )
    return page("the fleet", header, main)


def _not_drawn(fleet: FleetPage) -> str:
    """Return how many node types have no picture, and what shows one of them."""
    if not fleet.not_drawn:
        return ""
    return (
        f'<p class="soft">And {count(fleet.not_drawn, "more node type")}: '
        "<code>stepcast query judgements --param node_type=TYPE</code></p>"
    )


def sentence(fleet: FleetPage) -> str:
    """Return how many members there are, how many have changed, and what is due."""
    if fleet.status.is_empty():
        return "The fleet has no members; `stepcast fleet add` adds one."
    since = "has changed since it was" if fleet.changed == 1 else "have changed since they were"
    visits = count(fleet.visits_due, "visit")
    watches = f"{fleet.watches_due} watch{'' if fleet.watches_due == 1 else 'es'}"
    due = [*([visits] if fleet.visits_due else []), *([watches] if fleet.watches_due else [])]
    verb = "is" if fleet.visits_due + fleet.watches_due == 1 else "are"
    clause = f"{' and '.join(due)} {verb}" if due else "nothing is"
    members = count(fleet.status.height, "node type")
    return f"{members}; {fleet.changed or 'none'} {since} profiled; {clause} due."


def _legend(fleet: FleetPage) -> str:
    """Return what colours and signs of the pictures mean."""
    lines = [
        (f'<path d="M0 6H22" style="stroke: {in_page(colour)}" stroke-width="3"/>', metric)
        for metric, colour in colours(fleet.metrics).items()
    ]
    items = (
        '<li><svg width="22" height="12" viewBox="0 0 22 12" aria-hidden="true">'
        f"{drawn}</svg> {escape(words)}</li>"
        for drawn, words in (*lines, *_SIGNS)
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


def _picture(name: str, fleet: FleetPage) -> str:
    """Return the picture of a type with its probes in a table, or why there is none."""
    probes = fleet.probes.filter(pl.col("name") == name)
    if probes.is_empty():
        return f'<p class="soft">It has not been watched in these {DAYS} days.</p>'
    points = probes_table(probes, fleet.metrics)
    if probes["change_percent"].is_null().all():
        watched = count(probes["watched"].n_unique(), "probe")
        return f'<p class="soft">{watched}: too few to judge by as yet.</p>{points}'
    profiled = fleet.profiled.filter(pl.col("name") == name)["profiled_at"].to_list()
    drawn = changes(probes, profiled, fleet.metrics, _span(fleet))
    described = "; ".join(_described(name, probes, len(profiled), fleet))
    return caption_figure(drawn, described, "") + points


def _span(fleet: FleetPage) -> Span:
    """Return the time that all pictures show, so that they can be compared."""
    times = [*fleet.probes["watched_at"], *fleet.profiled["profiled_at"], fleet.at]
    return min(times), max(times)


def _described(name: str, probes: pl.DataFrame, profiled: int, fleet: FleetPage) -> Iterator[str]:
    """Yield what a picture shows, for those who cannot see it."""
    yield f"By how much each metric of {name} was worse than expected, over time"
    yield f"{count(probes['watched'].n_unique(), 'probe')}, {count(profiled, 'visit')}"
    for metric in fleet.metrics:
        of = probes.filter(pl.col("what") == metric)["change_percent"].drop_nulls()
        if len(of):
            ends = span(of, "{:+.1f}")
            yield f"{metric}: {ends} %, last {percent(of[-1], signed=True)}"
    for at, words in change_times(probes):
        yield f"{words} from {at:%Y-%m-%d %H:%M} on"
    unconfirmed = probes.filter("alarm", ~pl.col("confirmed")).height
    if unconfirmed:
        yield f"{count(unconfirmed, 'alarm')} not confirmed"
