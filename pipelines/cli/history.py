"""`stepcast history`: figures over time, and the run behind each."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from pipelines.cli.query import Form, history_here
from pipelines.cli.tables import print_frame, print_rows, print_text
from reports.wording import percent
from studies.messages import count, name_some
from studies.run_settings import CODE_VERSION, COMMAND, KEY
from warehouse.history import PublishedHistory
from warehouse.landing import ARTEFACTS
from warehouse.records import BadInput
from warehouse.warehouse import Warehouse

_KEYS = ("comparable_id", "metric", "point")
_MOST_SHOWN = 10


def history(
    configuration: Annotated[
        str | None,
        typer.Argument(
            help="Words of its name: network, probe, node type, metric, study; its id; a run."
        ),
    ] = None,
    form: Form = "table",
) -> None:
    """Show what a configuration gave over time, run by run.

    All words have to be in its name: `small_cnn W=2 step_time_s`. Runs are comparable if probe,
    scenario, settings, backend and host are equal. Every row names its run. Given a run (the end of
    its name is enough): how it was made: command, configuration, environment, host, price,
    artefacts.

    Example: stepcast history "small_cnn W=2 throughput_steps_per_s"

    Example: stepcast history "links emu.avx2.s15"

    Example: stepcast history 20261121T140234-links-140f6f5a
    """
    warehouse = history_here()
    if (run_id := _run_named(warehouse, configuration)) is not None:
        print_text(*lines_of(warehouse, run_id))
        return
    rows = warehouse.query("figures", words=configuration)
    if rows.is_empty():
        known = warehouse.query("figures")["label"].unique().sort()
        names = list(dict.fromkeys(label.split()[0].rstrip(",") for label in known))
        raise BadInput(
            f"no figure has all words of {configuration!r}; there are figures of {name_some(names)}"
            if names
            else "nothing has been measured in this home yet"
        )
    if form != "table":
        print_frame(rows, form)
        return
    series = [figure for _, figure in rows.group_by(_KEYS, maintain_order=True)]
    for figure in series[:_MOST_SHOWN]:
        _print(figure)
    print_text(f"{count(len(series), 'figure')} of {count(rows['run_id'].n_unique(), 'run')}")
    if len(series) > _MOST_SHOWN:
        print_text(f"{len(series) - _MOST_SHOWN} more: give more words, or --format csv")
    print_text("stepcast history RUN: how a run was made")


def _run_named(warehouse: PublishedHistory, text: str | None) -> str | None:
    """Return the run of that name, or the only one whose name ends so; None if there is none."""
    if not text:
        return None
    runs = [run for run in warehouse.query("runs")["run_id"] if run.endswith(text)]
    return text if text in runs else runs[0] if len(runs) == 1 else None


def _print(figure: pl.DataFrame) -> None:
    row = figure.row(0, named=True)
    node_type = "" if (row["node_type"] or "") in row["label"] else row["node_type"]
    title = ", ".join(filter(None, (row["label"], node_type, row["point"], row["metric"])))
    median: float = figure.select(pl.col("value").median()).item()
    print_text(f"{title} ({row['comparable_id']}): median {median:.4g} {row['unit']}")
    unit = f"value, {row['unit']}"
    rows = [
        {
            unit: f"{row['value']:.4g}",
            "from median": percent(row["percent_from_median"], signed=True),
            "gauge, µs": "—" if row["gauge_us"] is None else f"{row['gauge_us']:.1f}",
            "run": row["run_id"],
        }
        for row in figure.to_dicts()
    ]
    print_rows(rows, {unit, "from median", "gauge, µs"})


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
        values = {
            ", ".join(filter(None, (each["metric"], each["point"]))): each
            for each in figures.to_dicts()
        }
        measured = {name: f"{of['value']:.6g} {of['unit']}" for name, of in values.items()}
        yield from _listed_fields("measured", measured)
        yield f"over time: stepcast history {row['comparable_id']}"


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
