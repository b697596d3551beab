"""`stepcast history` and `stepcast show`: figures over time, and the run behind each."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import polars as pl
import typer

from pipelines.cli.ask import Form, history_here
from pipelines.cli.pictures import check_picture, write_picture
from pipelines.cli.tables import Column, print_frame, print_rows, print_text
from reports.wording import percent
from studies.words import count
from warehouse.history import History
from warehouse.records import BadInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_PANELS = 8
_KEYS = ("comparable_id", "metric", "point")
_LISTED = 12


def history(
    configuration: Annotated[
        str | None,
        typer.Argument(help="Words of its name: network, probe, study, point, or its id."),
    ] = None,
    metric: Annotated[str | None, typer.Option(help="Only this metric.")] = None,
    node_type: Annotated[str | None, typer.Option("--type", help="Only this node type.")] = None,
    picture: Annotated[
        Path | None, typer.Option(help=f"Draw at most {_MOST_PANELS} figures, .png or .svg.")
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="Figures that are shown.")] = 10,
    form: Form = "table",
) -> None:
    """Show what a configuration gave over time: run by run, beside its median.

    All words have to be in its name: `small_cnn W=2`. Every row names its run; `stepcast show` says
    how that was made. Runs are comparable if probe, scenario, settings, backend and host are equal.

    Example: stepcast history "small_cnn W=2" --metric throughput_steps_per_s --picture w2.png

    Example: stepcast history links --type emu.avx2.s15
    """
    check_picture(picture)
    warehouse = history_here()
    rows = warehouse.query("figures", words=configuration, metric=metric, node_type=node_type)
    if rows.is_empty():
        raise BadInput(_nothing(warehouse, configuration, metric, node_type))
    series = [one for _, one in rows.group_by(_KEYS, maintain_order=True)]
    if form != "table":
        print_frame(rows, form)
    else:
        for one in series[:most]:
            _print(one)
        print_text(f"{count(len(series), 'figure')} of {count(_runs(rows), 'run')}")
        if len(series) > most:
            print_text(f"{len(series) - most} more: --most {len(series)}, or more words")
        print_text("stepcast show RUN: how a run was made")
    write_picture(picture, lambda: _drawn(series))


def _runs(rows: pl.DataFrame) -> int:
    return rows["run_id"].n_unique()


def _nothing(
    warehouse: History, configuration: str | None, metric: str | None, node_type: str | None
) -> str:
    """Say that nothing was found, and what there is of what was asked for."""
    known = warehouse.query("figures").unique(["label", "metric", "node_type"])
    asked = {"metric": metric, "node_type": node_type}
    for column, value in asked.items():
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


def _title(one: pl.DataFrame) -> str:
    row = one.row(0, named=True)
    parts = [row["label"], row["point"], row["metric"]]
    if row["node_type"] is not None and row["node_type"] not in row["label"]:
        parts.insert(1, row["node_type"])
    return ", ".join(filter(None, parts))


def _print(one: pl.DataFrame) -> None:
    unit, key = one["unit"][0], one["comparable_id"][0]
    median: float = one.select(pl.col("value").median()).item()
    print_text(f"{_title(one)} ({key}): median {median:.4g} {unit}")
    columns = [
        Column("", is_number=True),
        Column(f"value, {unit}", is_key=True, is_number=True),
        Column("from median", is_key=True, is_number=True),
        Column("gauge, µs", is_number=True),
        Column("began, UTC"),
        Column("round"),
        Column("run", is_key=True),
    ]
    rows = [
        [
            str(number),
            f"{row['value']:.4g}",
            percent(row["percent_from_median"], signed=True),
            "—" if row["gauge_us"] is None else f"{row['gauge_us']:.1f}",
            f"{row['started_at']:%Y-%m-%d %H:%M}",
            f"{row['study']}/{row['repeat']}",
            row["run_id"],
        ]
        for number, row in enumerate(one.to_dicts(), start=1)
    ]
    print_rows(columns, rows)


def _drawn(series: list[pl.DataFrame]) -> "Figure":
    """Draw figures over time.

    Raises:
        BadInput: they are too many for a picture.
    """
    from reports.history_plot import Series, over_time

    if len(series) > _MOST_PANELS:
        raise BadInput(
            f"--picture: {len(series)} figures are too many, {_MOST_PANELS} are drawn at most; "
            "narrow them down with more words, --metric or --type"
        )
    return over_time([Series(_title(one), one["unit"][0], one) for one in series])


def show(
    run_id: Annotated[str, typer.Argument(help="A run, as tables name it; its end is enough.")],
) -> None:
    """Show how a run was made: command, configuration, environment, host, price, artefacts.

    Example: stepcast show 20261121T140234-links-140f6f5a
    """
    from pipelines.cli.shown import lines_of

    warehouse = history_here()
    runs = warehouse.query("runs")["run_id"]
    found = [one for one in runs if one == run_id] or [one for one in runs if one.endswith(run_id)]
    if len(found) != 1:
        what = "no run is" if not found else f"{len(found)} runs are"
        near = list(_near(run_id, runs.to_list())) if not found else found
        raise BadInput(f"{what} {run_id}; there is {_listed(near)}")
    for line in lines_of(warehouse, found[0]):
        print_text(line)


def _near(run_id: str, runs: list[str]) -> Iterator[str]:
    """Yield runs whose id has a part in common with this one, or else the newest."""
    parts = [part for part in run_id.split("-") if part]
    found = [one for one in runs if any(part in one for part in parts)]
    yield from found[-_LISTED:] or runs[-3:]
