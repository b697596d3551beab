"""`stepcast history`: figures over time, and the run behind each."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import polars as pl
import typer

from pipelines.cli.picture import check_picture, write_picture
from pipelines.cli.query import Form, history_here
from pipelines.cli.tables import TableColumn, print_frame, print_rows, print_text
from reports.wording import percent
from studies.messages import count
from studies.run_settings import CODE_VERSION, COMMAND, KEY
from warehouse.history import PublishedHistory
from warehouse.landing import ARTEFACTS
from warehouse.records import BadInput
from warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_MOST_PANELS = 8
_KEYS = ("comparable_id", "metric", "point")
_LISTED = 12
_MOST_SHOWN = 10


def history(
    configuration: Annotated[
        str | None,
        typer.Argument(help="Words of its name: network, probe, study, point; its id; a run."),
    ] = None,
    metric: Annotated[str | None, typer.Option(help="Only this metric.")] = None,
    node_type: Annotated[str | None, typer.Option("--type", help="Only this node type.")] = None,
    picture: Annotated[
        Path | None, typer.Option(help=f"Draw at most {_MOST_PANELS} figures, .png or .svg.")
    ] = None,
    form: Form = "table",
) -> None:
    """Show what a configuration gave over time, run by run.

    All words have to be in its name: `small_cnn W=2`. Runs are comparable if probe, scenario,
    settings, backend and host are equal. Every row names its run. Given a run (the end of its name
    is enough): how it was made: command, configuration, environment, host, price, artefacts.

    Example: stepcast history "small_cnn W=2" --metric throughput_steps_per_s --picture w2.png

    Example: stepcast history links --type emu.avx2.s15

    Example: stepcast history 20261121T140234-links-140f6f5a
    """
    check_picture(picture)
    warehouse = history_here()
    if (run_id := _run_named(warehouse, configuration)) is not None:
        for line in lines_of(warehouse, run_id):
            print_text(line)
        return
    rows = warehouse.query("figures", words=configuration, metric=metric, node_type=node_type)
    if rows.is_empty():
        raise BadInput(_nothing(warehouse, configuration, metric, node_type))
    series = [figure for _, figure in rows.group_by(_KEYS, maintain_order=True)]
    if form != "table":
        print_frame(rows, form)
    else:
        for figure in series[:_MOST_SHOWN]:
            _print(figure)
        print_text(f"{count(len(series), 'figure')} of {count(_runs(rows), 'run')}")
        if len(series) > _MOST_SHOWN:
            print_text(f"{len(series) - _MOST_SHOWN} more: give more words, or --format csv")
        print_text("stepcast history RUN: how a run was made")
    write_picture(picture, lambda: _drawn(series))


def _run_named(warehouse: PublishedHistory, text: str | None) -> str | None:
    """Return the run of that name, or the only one whose name ends so; None if there is none."""
    if not text:
        return None
    runs = [run for run in warehouse.query("runs")["run_id"] if run.endswith(text)]
    return text if text in runs else runs[0] if len(runs) == 1 else None


def _runs(rows: pl.DataFrame) -> int:
    return rows["run_id"].n_unique()


def _nothing(
    warehouse: PublishedHistory,
    configuration: str | None,
    metric: str | None,
    node_type: str | None,
) -> str:
    """Say that nothing was found, and what there is of what was asked for."""
    known = warehouse.query("figures").unique(["label", "metric", "node_type"])
    if known.is_empty():
        return "nothing has been measured in this home yet"
    filters = {"metric": metric, "node_type": node_type}
    for column, value in filters.items():
        names = sorted(known[column].drop_nulls().unique())
        if value is not None and value not in names:
            return f"no run has {column.replace('_', ' ')} {value}; there is {_listed(names)}"
    return (
        f"no figure has all words of {configuration!r} with these options; there are figures of "
        f"{_listed(sorted({label.split()[0].rstrip(',') for label in known['label']}))}"
    )


def _listed(names: list[str]) -> str:
    more = len(names) - _LISTED
    return "; ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def _title(rows: pl.DataFrame) -> str:
    row = rows.row(0, named=True)
    parts = [row["label"], row["point"], row["metric"]]
    if row["node_type"] is not None and row["node_type"] not in row["label"]:
        parts.insert(1, row["node_type"])
    return ", ".join(filter(None, parts))


def _print(figure: pl.DataFrame) -> None:
    unit, key = figure["unit"][0], figure["comparable_id"][0]
    median: float = figure.select(pl.col("value").median()).item()
    print_text(f"{_title(figure)} ({key}): median {median:.4g} {unit}")
    columns = [
        TableColumn(f"value, {unit}", is_number=True),
        TableColumn("from median", is_number=True),
        TableColumn("gauge, µs", is_number=True),
        TableColumn("run"),
    ]
    rows = [
        [
            f"{row['value']:.4g}",
            percent(row["percent_from_median"], signed=True),
            "—" if row["gauge_us"] is None else f"{row['gauge_us']:.1f}",
            row["run_id"],
        ]
        for row in figure.to_dicts()
    ]
    print_rows(columns, rows)


def _drawn(series: list[pl.DataFrame]) -> "Figure":
    """Draw figures over time.

    Raises:
        BadInput: they are too many for a picture.
    """
    from reports.timelines import FigureHistory, history_plot

    if len(series) > _MOST_PANELS:
        raise BadInput(
            f"--picture: {len(series)} figures are too many, {_MOST_PANELS} are drawn at most; "
            "narrow them down with more words, --metric or --type"
        )
    return history_plot([FigureHistory(_title(rows), rows["unit"][0], rows) for rows in series])


# How a run was made.


_APART = (COMMAND, CODE_VERSION, KEY)
_NOT_KEPT = "not kept: the run is from before runs kept it"
_Row = Mapping[str, Any]


def lines_of(warehouse: Warehouse, run_id: str) -> Iterator[str]:
    """Yield all that is known of how a run was made, then what it measured."""
    (row,) = warehouse.query("one_run", run_id=run_id).to_dicts()
    config, software = json.loads(row["config"]), json.loads(row["software"])
    yield from _about(row)
    yield from _listed_fields("settings asked for", json.loads(config.get(KEY) or "{}"))
    yield from _listed_fields(
        "configuration", {name: value for name, value in config.items() if name not in _APART}
    )
    yield from _listed_fields(
        "environment", {"stepcast": row["code_version"] or _NOT_KEPT, **software}
    )
    yield from _listed_fields(f"host {row['host_id']}, {row['backend']}", json.loads(row["host"]))
    yield from _listed_fields("price", dict(_prices(warehouse, row)))
    yield from _listed_fields("artefacts", _files(warehouse.landing / run_id))
    if row["comparable_id"] is not None:
        figures = warehouse.query("figures", words=row["comparable_id"]).filter(run_id=run_id)
        yield from _listed_fields("measured", dict(map(_figure, figures.to_dicts())))
        yield f"over time: stepcast history {row['comparable_id']}"


def _figure(row: _Row) -> tuple[str, str]:
    name = ", ".join(filter(None, (row["metric"], row["point"])))
    return name, f"{row['value']:.6g} {row['unit']}"


def _about(row: _Row) -> Iterator[str]:
    took_s = (row["ended_at"] - row["started_at"]).total_seconds()
    status = row["status"] if row["error"] is None else f"{row['status']}: {row['error']}"
    about = {
        "command": row["command"] or _NOT_KEPT,
        "study": f"{row['study']}, round {row['repeat']}",
        "probe": f"{row['probe']} ({row['purpose']})",
        "began": f"{row['started_at']:%Y-%m-%d %H:%M:%S} UTC, took {took_s:.1f} s",
        "status": status,
        "scenario": "none: of nodes and links" if row["canonical"] is None else row["canonical"],
    }
    yield from _listed_fields(" ".join(filter(None, ("run", row["run_id"], row["label"]))), about)


def _prices(warehouse: Warehouse, row: _Row) -> Iterator[tuple[str, str]]:
    """Yield what the run cost, and what its node types cost an hour when it began."""
    cost = row["cost_usd"]
    yield "cost of the run", "nothing was paid" if cost is None else f"{cost:.4f} USD"
    for node_type in _node_types(row):
        as_of = row["started_at"].isoformat()
        for price in warehouse.query("prices_as_of", node_type=node_type, as_of=as_of).to_dicts():
            place = " ".join(filter(None, (price["region"], price["zone"], price["market"])))
            yield f"{node_type}, {place}", f"{price['usd_per_hour']:g} USD/hour ({price['source']})"


def _node_types(row: _Row) -> list[str]:
    scenario = json.loads(row["canonical"] or "{}")
    named = {node["node_type"] for node in scenario.get("nodes", ())}
    return sorted(named or filter(None, (row["node_type"] or "").split("+")))


def _files(folder: Path) -> dict[str, str]:
    """Return the files that landed with a run, and their sizes."""
    if not folder.is_dir():
        return {str(folder): "the folder is not here: the run landed elsewhere"}
    files = sorted(folder.glob(f"{ARTEFACTS}/*")) or sorted(folder.glob("*.parquet"))
    return {str(file): f"{file.stat().st_size:,} bytes" for file in files}


def _listed_fields(title: str, values: Mapping[str, object]) -> Iterator[str]:
    if not values:
        return
    yield title
    widest = max(map(len, values))
    for name, value in values.items():
        yield f"  {name:<{widest}}  {value}"
