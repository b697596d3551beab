"""The fleet's page: one HTML file with everything in it, to be read without a network."""

from collections.abc import Iterator
from html import escape
from pathlib import Path

import polars as pl

from fleet.page import DAYS, FleetPage
from reports import fleet_tables
from reports.figure_html import captioned, grid
from reports.fleet_plot import Span, changes, colours, turns
from reports.page import filled
from reports.svg import in_page
from reports.wording import percent, span
from studies.words import count
from warehouse.durable import write_text

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
    return filled(
        "fleet.html",
        sentence=escape(sentence(page)),
        at=f"{page.at:%Y-%m-%d %H:%M}",
        status=fleet_tables.status(page.status),
        days=str(DAYS),
        legend=_legend(page),
        pictures=grid([(name, _picture(name, page)) for name in page.names]),
        alarms=fleet_tables.alarms(page.alarms),
        stale=fleet_tables.stale(page),
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
    points = fleet_tables.probes(probes, page.metrics)
    if probes["change_percent"].is_null().all():
        watched = count(probes["watched"].n_unique(), "probe")
        return f'<p class="soft">{watched}: too few to judge by as yet.</p>{points}'
    profiled = page.profiled.filter(pl.col("name") == name)["profiled_at"].to_list()
    drawn = changes(probes, profiled, page.metrics, _span(page))
    described = "; ".join(_described(name, probes, len(profiled), page))
    return captioned(drawn, described, "") + points


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
    for at, words in turns(probes):
        yield f"{words} from {at:%Y-%m-%d %H:%M} on"
    unconfirmed = probes.filter("alarm", ~pl.col("confirmed")).height
    if unconfirmed:
        yield f"{count(unconfirmed, 'alarm')} not confirmed"
