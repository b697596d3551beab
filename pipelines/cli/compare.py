"""`stepcast compare`: what differs between two sides.

A side is the runs that a selector such as `round:demo/1` means: KIND:VALUE, or several of them
joined by commas, of which all have to hold.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import polars as pl
import typer

from pipelines.cli.query import Form, history_here
from pipelines.cli.tables import print_frame, print_rows, print_text
from reports.wording import percent
from studies.messages import count, name_some
from warehouse.records import BadInput

GRAMMAR = {
    "round": "round:STUDY, round:STUDY/2 or round:STUDY/2..4",
    "date": "date:2026, date:2026-10, date:2026-10-31 or date:2026-10-01..2026-10-15 (UTC)",
    "type": "type:NODE_TYPE",
    "software": "software:NAME=VERSION, for example software:torch=2.9",
    "code": "code:VERSION, as git calls the code that measured",
}
_DAY = r"\d{4}(-\d\d){0,2}"
_DATES = re.compile(rf"{_DAY}|{_DAY}\.\.|\.\.{_DAY}|{_DAY}\.\.{_DAY}", re.ASCII)
_MOST_ROWS = 40


def select_both(base: str, other: str, runs: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the runs of both sides of a comparison.

    Raises:
        BadInput: a selector is wrong, means no run, both mean the same run, or only one names a
            node type.
    """
    sides = select_side(base, runs), select_side(other, runs)
    if _names_type(base) != _names_type(other):
        raise BadInput(f"{base} and {other}: only one of them names a node type; write type: twice")
    common = sorted(set(sides[0]["run_id"]) & set(sides[1]["run_id"]))
    if common:
        raise BadInput(
            f"{base} and {other} have {len(common)} runs in common, for example {common[0]}; "
            "choose sides that share none"
        )
    return sides


def _names_type(text: str) -> bool:
    return any(part.strip().startswith("type:") for part in text.split(","))


def select_side(text: str, runs: pl.DataFrame) -> pl.DataFrame:
    """Return the runs that a selector means, a row for each.

    Raises:
        BadInput: it is wrong, or means no run; the message names what there is.
    """
    selected = runs
    for part in map(str.strip, text.split(",")):
        kind, colon, value = part.partition(":")
        if kind not in GRAMMAR or not colon or not value:
            raise BadInput(
                f"{text!r}: {part!r} selects nothing; write {'; '.join(GRAMMAR.values())}; "
                "join several by commas"
            )
        chosen = selected.filter(_FILTERS[kind](value))
        if chosen.is_empty():
            raise BadInput(
                f"no run is of {part}{' too' * (selected.height < runs.height)}; "
                f"{_what_exists(kind, selected)}"
            )
        selected = chosen
    return selected


def _of_round(value: str) -> pl.Expr:
    # Names of studies of a fleet have slashes.
    study, slash, rounds = value.rpartition("/")
    if not slash or not re.fullmatch(r"\d+(\.\.\d+)?", rounds, re.ASCII):
        return pl.col("study") == value
    first, _, last = rounds.partition("..")
    chosen = pl.col("repeat").is_between(int(first), int(last or first))
    return (pl.col("study") == study) & chosen


def _of_date(value: str) -> pl.Expr:
    if not _DATES.fullmatch(value):
        raise BadInput(f"date:{value} is no date; write {GRAMMAR['date']}")
    first, dots, last = value.partition("..")
    last = last if dots else first
    day = pl.col("started_at").dt.strftime("%Y-%m-%d")
    return (day >= first) & (day.str.slice(0, len(last)) <= last)


def _of_software(value: str) -> pl.Expr:
    name, equals, version = value.partition("=")
    if not equals or not version:
        raise BadInput(f"software:{value}: expected {GRAMMAR['software']}")

    def is_it(software: str) -> bool:
        installed = str(json.loads(software).get(name, ""))
        return installed == version or installed.startswith((f"{version}.", f"{version}+"))

    return pl.col("software").map_elements(is_it, return_dtype=pl.Boolean)


_FILTERS: dict[str, Callable[[str], pl.Expr]] = {
    "round": _of_round,
    "date": _of_date,
    "type": lambda value: pl.col("node_type") == value,
    "software": _of_software,
    "code": lambda value: pl.col("code_version") == value,
}


def _what_exists(kind: str, runs: pl.DataFrame) -> str:
    """Say what a selector of this kind can name."""
    if kind == "date":
        days = sorted(runs["started_at"].dt.strftime("%Y-%m-%d"))
        return f"the runs are from {days[0]} to {days[-1]}"
    if kind == "round":
        rounds = runs.group_by("study").agg(pl.col("repeat").max()).sort("study").rows()
        names = [f"{study}/{last}" for study, last in rounds]
        return f"the newest round of each study is {name_some(names)}"
    if kind == "software":
        environments = map(json.loads, runs["software"].unique())
        pairs = {f"{name}={version}" for of in environments for name, version in of.items()}
        return f"there is {name_some(sorted(pairs))}"
    column, what = {"type": ("node_type", "types"), "code": ("code_version", "versions")}[kind]
    return f"the {what} are {name_some(sorted(runs[column].drop_nulls().unique())) or 'not known'}"


MUCH = 3.0
"""How many times the noise floor is marked twice."""
_NUMBERS = ("base", "other", "difference", "noise floor")
_Row = Mapping[str, Any]


def compare(
    base: Annotated[str, typer.Argument(help="What is compared with, as KIND:VALUE.")],
    other: Annotated[str, typer.Argument(help="What is compared, as KIND:VALUE.")],
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

    Example: stepcast compare type:emu.avx2.s15 type:emu.avx512.s15

    Example: stepcast compare date:2026-10 date:2026-11 --format csv
    """
    warehouse = history_here()
    sides = select_both(base, other, warehouse.query("comparable_runs"))
    between_types = _names_type(base)
    rows = warehouse.query(
        "differences",
        base=json.dumps(sides[0]["run_id"].to_list()),
        other=json.dumps(sides[1]["run_id"].to_list()),
        between_types=between_types,
    )
    if form == "table":
        for title, text, runs in zip(("base", "other"), (base, other), sides, strict=True):
            times = runs["started_at"].dt.strftime("%Y-%m-%d %H:%M").sort()
            of = count(runs.height, "run")
            print_text(f"{title:<6}{text}: {of}, {times[0]} to {times[-1]}")
        _print(rows, between_types=between_types)
    else:
        print_frame(rows, form)


def _print(rows: pl.DataFrame, *, between_types: bool) -> None:
    comparable = rows.filter(pl.col("base").is_not_null() & pl.col("other").is_not_null())
    if comparable.height:
        shown = comparable.head(_MOST_ROWS).to_dicts()
        print_rows(
            [_cells(row, between_types=between_types) for row in shown], _NUMBERS, has_headings=True
        )
        print_text("* differs by more than its noise floor   ** by more than three times that")
        print_text("noise floor: n runs forecast by their repeats, or n windows within runs (w)")
    else:
        print_text(
            "Nothing can be compared: no scenario was measured on both sides by one probe with "
            "equal settings, backend and host."
        )
    print_text(closing_line(rows, comparable))
    if comparable.height > _MOST_ROWS:
        print_text(f"{comparable.height - _MOST_ROWS} more rows: --format csv")


def _cells(row: _Row, *, between_types: bool) -> dict[str, str]:
    """Return a row of the table; between two node types, configurations have no type."""
    label, node_type, noise = row["label"], row["node_type"], "unknown"
    if between_types:
        label = label.replace(node_type, "nodes")
    elif node_type is not None and node_type not in label:
        label = f"{label}, {node_type}"
    if row["noise_percent"] is not None:
        within = "w" if row["noise_of"] == "windows" else ""
        noise = f"{percent(row['noise_percent'])} (n = {row['noise_n']}{within})"
    return {
        "configuration": f"{label}: {row['point']}" if row["point"] else label,
        "metric": f"{row['metric']}, {row['unit']}",
        "base": f"{row['base']:.4g}",
        "other": f"{row['other']:.4g}",
        "difference": f"{percent(row['difference_percent'], signed=True)} {_mark(row)}".rstrip(),
        "noise floor": noise,
    }


def _mark(row: _Row) -> str:
    if not row["is_larger"]:
        return ""
    times = row["times_noise"]
    return "**" if times is None or times > MUCH else "*"


def closing_line(rows: pl.DataFrame, comparable: pl.DataFrame) -> str:
    """Say how many figures differ by more than their noise, and how many could not be compared."""
    marks = [_mark(row) for row in comparable.to_dicts()]
    line = (
        f"More than the noise floor separates {len(marks) - marks.count('')} of "
        f"{count(comparable.height, 'figure')}, more than three times that {marks.count('**')}"
    )
    if unknown := comparable["is_larger"].null_count():
        line += f"; for {unknown} the noise floor is unknown"
    if alone := rows.height - comparable.height:
        line += f"; without counterpart are {alone}"
    return f"{line}."
