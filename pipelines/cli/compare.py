"""`stepcast compare`: what differs between two sides.

A side is the runs that a selector such as `round:demo/1` means: KIND:VALUE, or several of them
joined by commas, of which all have to hold.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any

import polars as pl
import typer

from pipelines.cli.query import Form, history_here
from pipelines.cli.tables import TableColumn, print_frame, print_rows, print_text
from reports.wording import percent
from studies.messages import count
from warehouse.records import BadInput

GRAMMAR = {
    "round": "round:STUDY, round:STUDY/2 or round:STUDY/2..4",
    "date": "date:2026, date:2026-10, date:2026-10-31 or date:2026-10-01..2026-10-15 (UTC)",
    "type": "type:NODE_TYPE",
    "software": "software:NAME=VERSION, for example software:torch=2.9",
    "code": "code:VERSION, as git calls the code that measured",
}
_DAY = re.compile(r"(\d{4})(?:-(\d{2}))?(?:-(\d{2}))?", re.ASCII)
_MOST_NAMED, _MOST_ROWS = 12, 40


@dataclass(frozen=True)
class RunSelection:
    """The runs that a selector means.

    Attributes:
        text: the selector.
        kinds: what it tells runs apart by.
        runs: a row for each, as query `comparable_runs` has them.
    """

    text: str
    kinds: frozenset[str]
    runs: pl.DataFrame

    @property
    def run_ids(self) -> list[str]:
        """Return the ids of the runs."""
        return self.runs["run_id"].to_list()


def select_both(base: str, other: str, runs: pl.DataFrame) -> tuple[RunSelection, RunSelection]:
    """Return both sides of a comparison.

    Raises:
        BadInput: a selector is wrong, means no run, both mean the same run, or only one names a
            node type.
    """
    sides = select_side(base, runs), select_side(other, runs)
    if len({"type" in side.kinds for side in sides}) > 1:
        raise BadInput(f"{base} and {other}: only one of them names a node type; write type: twice")
    common = sorted(set(sides[0].run_ids) & set(sides[1].run_ids))
    if common:
        raise BadInput(
            f"{base} and {other} have {len(common)} runs in common, for example {common[0]}; "
            "choose sides that share none"
        )
    return sides


def difference(sides: Sequence[RunSelection]) -> str:
    """Return in words why no figure of one side has a counterpart on the other.

    Comparable are figures of one probe, scenario, settings, backend and host.
    """
    for column, what in (("backend", "backends"), ("host_id", "hosts"), ("probe", "probes")):
        base, other = (set(side.runs[column].unique()) for side in sides)
        if base.isdisjoint(other):
            return f"the sides are of different {what} ({_named(base)}; {_named(other)})"
    base, other = (set(side.runs["scenario_id"].drop_nulls().unique()) for side in sides)
    if base and other and base.isdisjoint(other):
        return "the sides have no scenario in common"
    return "no scenario was measured on both sides with equal settings, backend and host"


def _named(names: set[str]) -> str:
    return _listed(sorted(names))


def select_side(text: str, runs: pl.DataFrame) -> RunSelection:
    """Return the runs that a selector means.

    Raises:
        BadInput: it is wrong, or means no run; the message names what there is.
    """
    kinds, selected = [], runs
    for part in text.split(","):
        kind, colon, value = part.strip().partition(":")
        if kind not in GRAMMAR or not colon or not value:
            raise BadInput(
                f"{text!r}: {part.strip()!r} selects nothing; write {'; '.join(GRAMMAR.values())}; "
                "join several by commas"
            )
        kinds.append(kind)
        chosen = selected.filter(_FILTERS[kind](part.strip(), value))
        if chosen.is_empty():
            beside = (
                "" if selected.height == runs.height else ", of what the parts before it select"
            )
            raise BadInput(f"no run is of {part.strip()}{beside}; {_what_exists(kind, selected)}")
        selected = chosen
    return RunSelection(text, frozenset(kinds), selected)


def _of_round(part: str, value: str) -> pl.Expr:
    # Names of studies of a fleet have slashes.
    study, slash, rounds = value.rpartition("/")
    if not slash or not re.fullmatch(r"\d+(\.\.\d+)?", rounds, re.ASCII):
        return pl.col("study") == value
    first, _, last = rounds.partition("..")
    chosen = pl.col("repeat").is_between(int(first), int(last or first))
    return (pl.col("study") == study) & chosen


def _of_date(part: str, value: str) -> pl.Expr:
    first, dots, last = value.partition("..")
    began = pl.lit(True) if dots and not first else pl.col("started_at") >= _span(part, first)[0]
    until = last if dots else first
    return began & (pl.lit(True) if not until else pl.col("started_at") < _span(part, until)[1])


def _span(part: str, text: str) -> tuple[datetime, datetime]:
    """Return where a year, month or day begins, and where the next one does, UTC."""
    match = _DAY.fullmatch(text)
    if match is None:
        raise BadInput(f"{part}: {text!r} is no date; write {GRAMMAR['date']}")
    year, month, day = (None if group is None else int(group) for group in match.groups())
    try:
        assert year is not None
        first = date(year, month or 1, day or 1)
        if day is not None:
            after = first + timedelta(days=1)
        elif month is not None:
            after = date(year + month // 12, month % 12 + 1, 1)
        else:
            after = date(year + 1, 1, 1)
    except (ValueError, OverflowError) as error:
        raise BadInput(f"{part}: there is no date {text}: {error}") from error
    begin, end = (datetime(day.year, day.month, day.day, tzinfo=UTC) for day in (first, after))
    return begin, end


def _of_type(part: str, value: str) -> pl.Expr:
    return pl.col("node_type") == value


def _of_software(part: str, value: str) -> pl.Expr:
    name, equals, version = value.partition("=")
    if not equals or not version:
        raise BadInput(f"{part}: expected {GRAMMAR['software']}")

    def is_it(software: str) -> bool:
        installed = str(json.loads(software).get(name, ""))
        return installed == version or installed.startswith((f"{version}.", f"{version}+"))

    return pl.col("software").map_elements(is_it, return_dtype=pl.Boolean)


def _of_code(part: str, value: str) -> pl.Expr:
    return pl.col("code_version") == value


_FILTERS: dict[str, Callable[[str, str], pl.Expr]] = {
    "round": _of_round,
    "date": _of_date,
    "type": _of_type,
    "software": _of_software,
    "code": _of_code,
}


def _what_exists(kind: str, runs: pl.DataFrame) -> str:
    """Say what a selector of this kind can name."""
    if kind == "date":
        days = sorted(runs["started_at"].dt.strftime("%Y-%m-%d"))
        return f"the runs are from {days[0]} to {days[-1]}"
    if kind == "round":
        rounds = runs.group_by("study").agg(pl.col("repeat").max()).sort("study").rows()
        names = [f"{study}/{last}" for study, last in rounds]
        return f"the newest round of each study is {_listed(names)}"
    if kind == "software":
        environments = [json.loads(text) for text in runs["software"].unique()]
        names = sorted(
            {f"{name}={version}" for software in environments for name, version in software.items()}
        )
        return f"there is {_listed(names)}"
    column, what = {"type": ("node_type", "types"), "code": ("code_version", "versions")}[kind]
    names = sorted(runs[column].drop_nulls().unique())
    if not names:
        return f"the runs tell of no {what}: they are from before runs kept it"
    return f"the {what} are {_listed(names)}"


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


MUCH = 3.0
"""How many times the noise floor is marked twice."""
_SMALL = 0.05
_COLUMNS = (
    TableColumn("configuration", is_heading=True),
    TableColumn("metric"),
    TableColumn("base", is_number=True),
    TableColumn("other", is_number=True),
    TableColumn("difference", is_number=True),
    TableColumn("noise floor", is_number=True),
)
_Row = Mapping[str, Any]


def compare(
    base: Annotated[str, typer.Argument(help="What is compared with, as KIND:VALUE.")],
    other: Annotated[str, typer.Argument(help="What is compared, as KIND:VALUE.")],
    metric: Annotated[str | None, typer.Option(help="Only this metric.")] = None,
    form: Form = "table",
) -> None:
    """Show what differs between two sides of the history by more than noise.

    A side is round:STUDY/2, round:STUDY/2..4, date:2026-10, date:2026-10-01..2026-10-15,
    type:NODE_TYPE, software:torch=2.9 or code:VERSION; parts joined by commas all have to hold.

    Only figures of equal configuration are compared: same probe, scenario, settings, backend and
    host. Between two node types, all but the type of the workers is equal.

    The noise floor is the mean error of forecasting each run by its repeats in other rounds. Where
    there are none it is that of windows within runs; where there are none either, it is unknown.

    Example: stepcast compare round:demo/1 round:demo/2

    Example: stepcast compare type:emu.avx2.s15 type:emu.avx512.s15 --metric step_time_s

    Example: stepcast compare date:2026-10 date:2026-11 --format csv
    """
    warehouse = history_here()
    sides = select_both(base, other, warehouse.query("comparable_runs"))
    between_types = "type" in sides[0].kinds
    rows = warehouse.query(
        "differences",
        base=json.dumps(sides[0].run_ids),
        other=json.dumps(sides[1].run_ids),
        between_types=between_types,
    )
    if metric is not None:
        rows = _of_metric(rows, metric)
    if form == "table":
        _print(rows, sides, between_types=between_types)
    else:
        print_frame(rows, form)


def _of_metric(rows: pl.DataFrame, metric: str) -> pl.DataFrame:
    """Return the rows of a metric.

    Raises:
        BadInput: neither side has it.
    """
    known = sorted(rows["metric"].unique())
    if metric not in known:
        raise BadInput(f"--metric {metric}: neither side has it; they have {', '.join(known)}")
    return rows.filter(metric=metric)


def _print(rows: pl.DataFrame, sides: Sequence[RunSelection], *, between_types: bool) -> None:
    for title, side in zip(("base", "other"), sides, strict=True):
        began, ended = (f"{time:%Y-%m-%d %H:%M}" for time in _first_and_last(side))
        print_text(f"{title:<6}{side.text}: {count(len(side.run_ids), 'run')}, {began} to {ended}")
    comparable = rows.filter(pl.col("base").is_not_null() & pl.col("other").is_not_null())
    if comparable.height:
        shown = comparable.head(_MOST_ROWS).to_dicts()
        print_rows(_COLUMNS, _cells(shown, between_types=between_types))
        print_text("* differs by more than its noise floor   ** by more than three times that")
        print_text("noise floor: n runs forecast by their repeats, or n windows within runs (w)")
    else:
        print_text(f"Nothing can be compared: {difference(sides)}.")
    print_text(closing_line(rows, comparable))
    if comparable.height > _MOST_ROWS:
        print_text(f"{comparable.height - _MOST_ROWS} more rows: --format csv")


def _first_and_last(side: RunSelection) -> tuple[Any, Any]:
    return side.runs["started_at"].min(), side.runs["started_at"].max()


def _cells(rows: Sequence[_Row], *, between_types: bool) -> list[list[str]]:
    return [
        [
            _configuration(row, between_types=between_types),
            f"{row['metric']}, {row['unit']}",
            f"{row['base']:.4g}",
            f"{row['other']:.4g}",
            f"{_percent(row['difference_percent'], signed=True)} {_mark(row)}".rstrip(),
            _noise(row),
        ]
        for row in rows
    ]


def _configuration(row: _Row, *, between_types: bool) -> str:
    """Name a configuration; between two node types, without the type."""
    label, node_type = row["label"], row["node_type"]
    if between_types:
        label = label.replace(node_type, "nodes")
    elif node_type is not None and node_type not in label:
        label = f"{label}, {node_type}"
    return f"{label}: {row['point']}" if row["point"] else label


def _noise(row: _Row) -> str:
    if row["noise_percent"] is None:
        return "unknown"
    within = "w" if row["noise_of"] == "windows" else ""
    return f"{_percent(row['noise_percent'])} (n = {row['noise_n']}{within})"


def _percent(value: float | None, *, signed: bool = False) -> str:
    """Return a percentage; what rounds to nothing keeps a digit that is not 0."""
    if value is None or value == 0 or abs(value) >= _SMALL:
        return percent(value, signed=signed)
    return f"{value:{'+' if signed else ''}.1g} %".replace("-", "−")


def _mark(row: _Row) -> str:
    if not row["is_larger"]:
        return ""
    times = row["times_noise"]
    return "**" if times is None or times > MUCH else "*"


def closing_line(rows: pl.DataFrame, comparable: pl.DataFrame) -> str:
    """Say how many figures differ by more than their noise, and how many could not be compared."""
    marks = [_mark(row) for row in comparable.to_dicts()]
    unknown = comparable["is_larger"].null_count()
    alone = [rows[side].is_not_null().sum() - comparable.height for side in ("base", "other")]
    clauses = [
        f"More than the noise floor separates {len(marks) - marks.count('')} of "
        f"{count(comparable.height, 'figure')}, more than three times that {marks.count('**')}"
    ]
    if unknown:
        clauses.append(f"for {unknown} the noise floor is unknown")
    if any(alone):
        clauses.append(
            f"without counterpart are {sum(alone)} ({alone[0]} of base, {alone[1]} of other)"
        )
    return "; ".join(clauses) + "."
