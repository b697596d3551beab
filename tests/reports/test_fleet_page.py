"""The fleet's page: one calm sentence, pictures, alarms, and what mends what is stale."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest

from fleet.page import FleetPage
from fleet.readings import WORDS
from reports import fleet_page
from reports.fleet_page import change_times, changes
from tests.reports.pages import cells, headings

TYPE = "emu.avx2.s15"
BEGAN = datetime(2030, 1, 1, 2, tzinfo=UTC)
DAY = timedelta(days=1)
METRICS = tuple(WORDS.values())
STEP, STEP_CPU, MEMORY = METRICS[0], METRICS[1], METRICS[3]
STATUS = {
    "node_type": TYPE,
    "last_profiled": "2030-01-01 02:10",
    "drift": "confirmed: time of a step +30.0 % (01-08)",
    "next": "now",
    "month_minutes": 12.5,
    "month_usd": None,
    "state": "it has drifted",
}


def probe(day: int, what: str, percent: float | None, **changed: object) -> dict[str, object]:
    """Return a row of a probe; `outcome` makes it an alarm."""
    row: dict[str, object] = {
        "name": TYPE,
        "watched_at": BEGAN + day * DAY,
        "what": what,
        "change_percent": percent,
        "robust_z": None if percent is None else percent / 2,
        "outcome": "too_few" if percent is None else "same",
        "alarm": "outcome" in changed,
        "confirmed": False,
        "watched": f"watch-{day}",
        "confirmed_by": f"again-{day}" if "outcome" in changed else None,
    }
    return row | changed


PROBES = pl.DataFrame(
    [
        probe(1, STEP, None),
        *(probe(day, what, 1.0) for day in range(2, 7) for what in (STEP, STEP_CPU)),
        probe(7, MEMORY, 20.0, outcome="slower"),
        probe(8, STEP, 30.0, outcome="slower", confirmed=True),
        probe(8, STEP_CPU, 29.0, outcome="slower", confirmed=True),
        probe(9, STEP, 0.5, outcome="ended", confirmed=True),
    ],
    infer_schema_length=None,
)
STALE = {
    "name": [TYPE],
    "stale_since": [BEGAN + 8 * DAY],
    "what": [STEP],
    "change_percent": [30.0],
    "runs": [1],
    "fits": [1],
    "mends": [f"stepcast fleet run {TYPE}"],
}
RUNS = {
    "name": [TYPE],
    "run_id": ["links-1"],
    "probe": ["links"],
    "study": [f"fleet.{TYPE}"],
    "started_at": [BEGAN],
}
FITS = {
    "name": [TYPE],
    "fit_id": ["fit-1"],
    "system": ["async_sgd"],
    "created_at": [BEGAN],
    "stale_runs": [1],
}
PAGE = FleetPage(
    at=BEGAN + 10 * DAY,
    names=(TYPE,),
    metrics=METRICS,
    status=pl.DataFrame(
        [STATUS],
        {
            **dict.fromkeys(STATUS, pl.String()),
            "month_minutes": pl.Float64(),
            "month_usd": pl.Float64(),
        },
    ),
    changed=1,
    visits_due=1,
    watches_due=0,
    probes=PROBES,
    alarms=PROBES.filter("alarm").reverse(),
    profiled=pl.DataFrame({"name": [TYPE], "profiled_at": [BEGAN], "runs": [2]}),
    stale=pl.DataFrame(STALE),
    stale_runs=pl.DataFrame(RUNS),
    not_drawn=0,
    stale_fits=pl.DataFrame(FITS),
)


class Loads(HTMLParser):
    """Keeps the attributes that make a browser load something."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in {"src", "href", "srcset"}]


@pytest.mark.parametrize(
    ("changed", "visits", "watches", "said"),
    [
        (0, 0, 0, "none have changed since they were profiled; nothing is due."),
        (1, 1, 0, "1 has changed since it was profiled; 1 visit is due."),
        (2, 0, 1, "2 have changed since they were profiled; 1 watch is due."),
        (2, 2, 3, "2 have changed since they were profiled; 2 visits and 3 watches are due."),
    ],
)
def test_one_sentence_says_how_things_are(
    changed: int, visits: int, watches: int, said: str
) -> None:
    page = replace(PAGE, changed=changed, visits_due=visits, watches_due=watches)
    assert fleet_page.sentence(page) == f"1 node type; {said}"


def test_the_page_needs_nothing_else_and_is_written_whole(tmp_path: Path) -> None:
    path = fleet_page.write(PAGE, tmp_path / "new" / fleet_page.FILE)
    html = path.read_text()
    assert [path] == list(path.parent.iterdir()), "nothing temporary is left"
    assert all(link.startswith("#") for link in Loads(html).found)
    assert "@import" not in html
    assert not re.search(r"url\((?!#)", html)
    assert headings(html) == ["How each type changed", TYPE, "Alarms", "What is stale"]


def test_tables_lead_to_runs_and_to_what_mends() -> None:
    rows = cells(fleet_page.render(PAGE))
    assert [TYPE, "2030-01-01 02:10", STATUS["drift"], "now", "12.5", "—", "it has drifted"] in rows
    alarms = [row for row in rows if len(row) == 8][1:]
    assert [row[3] for row in alarms] == ["as before", "slower", "slower", "slower"]
    assert alarms[1] == [
        TYPE,
        "2030-01-09 02:00",
        STEP_CPU,
        "slower",
        "+29.0 %",
        "+14.5",
        "yes",
        "watch-8\nagain-8",
    ]
    assert alarms[3][6:] == ["no", "watch-7\nagain-7"]
    stale = [TYPE, "2030-01-09 02:00", STEP, "+30.0 %", "1", "1", f"stepcast fleet run {TYPE}"]
    assert stale in rows
    assert [TYPE, "2030-01-01 02:00", "links", f"fleet.{TYPE}", "links-1"] in rows
    assert [TYPE, "2030-01-01 02:00", "async_sgd", "1", "fit-1"] in rows


def test_every_point_of_a_picture_is_in_its_table() -> None:
    rows = cells(fleet_page.probes_table(PROBES, METRICS))
    assert rows[0] == ["when", "run", STEP, STEP_CPU, MEMORY]
    assert [row[1] for row in rows[1:]] == [f"watch-{day}" for day in range(9, 0, -1)]
    assert rows[2] == ["2030-01-09 02:00", "watch-8", "+30.0 %", "+29.0 %", "—"]
    assert rows[-1] == ["2030-01-02 02:00", "watch-1", "—", "—", "—"]


def test_the_picture_says_in_words_what_it_shows() -> None:
    html = fleet_page.render(PAGE)
    (described,) = re.findall(r'<svg role="img".*?<title>(.*?)</title>', html, re.DOTALL)
    for words in (
        f"{STEP}: +0.5 to +30.0 %, last +0.5 %",
        "9 probes, 1 visit",
        f"slower: {STEP} and 1 more from 2030-01-09 02:00 on",
        f"as before: {STEP} from 2030-01-10 02:00 on",
        "1 alarm not confirmed",
    ):
        assert words in described


def test_alarms_are_filled_when_confirmed_and_turns_are_lines_with_words() -> None:
    span = (BEGAN, BEGAN + 10 * DAY)
    (axes,) = changes(PROBES, [BEGAN, BEGAN + 9 * DAY], METRICS, span).axes
    drawn: dict[str, list[object]] = {}
    for line in axes.lines:
        drawn.setdefault(str(line.get_gid()), []).append(line)
    assert len(drawn["confirmed"]) == 2, "a time of a step, and its processor time"
    assert len(drawn["not confirmed"]) == 1
    assert len(drawn["turn"]) == len(list(change_times(PROBES))) == 2
    (visits,) = axes.collections
    assert len(visits.get_paths()) == 2
    (hollow,) = (line for line in axes.lines if line.get_gid() == "not confirmed")
    assert hollow.get_markerfacecolor() == "none"
    assert all(
        line.get_markerfacecolor() == line.get_color()
        for line in axes.lines
        if line.get_gid() == "confirmed"
    )
    assert [text.get_text() for text in axes.texts] == [words for _, words in change_times(PROBES)]
    low, high = axes.get_ylim()
    assert low < -10
    assert high > 30


def test_what_cannot_be_drawn_says_why() -> None:
    few = PROBES.head(1)
    html = fleet_page.render(replace(PAGE, probes=few, alarms=few.clear()))
    assert "1 probe: too few to judge by as yet." in html
    assert "None has been raised." in html
    assert 'role="img"' not in html
    unwatched = fleet_page.render(replace(PAGE, probes=few.clear()))
    assert "It has not been watched in these 100 days." in unwatched


def test_names_from_elsewhere_are_escaped() -> None:
    hostile = "<script>$x$"
    page = replace(
        PAGE,
        names=(hostile,),
        metrics=(*METRICS, hostile),
        probes=PROBES.with_columns(name=pl.lit(hostile), what=pl.lit(hostile)),
        alarms=PAGE.alarms.with_columns(what=pl.lit(hostile)),
    )
    html = fleet_page.render(page)
    assert "<script>" not in html
    assert "&lt;script&gt;$x$" in html
