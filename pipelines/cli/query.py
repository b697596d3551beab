"""`stepcast sql`, `query`, `accuracy`, `decisions` and `docs`: the history, asked and described."""

import shutil
import tempfile
import textwrap
from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.tables import Format, print_frame, print_text
from warehouse.history import PublishedHistory, describe_condition, explain_unwritable
from warehouse.home import HISTORY, MAIN, home
from warehouse.records import BadInput
from warehouse.warehouse import Warehouse, read_only

LEADERBOARD = (
    "system",
    "backend",
    "split",
    "metric",
    "n",
    "busy_n",
    "mape",
    "median_ape",
    "p90_ape",
    "max_ape",
    "noise_floor",
)
_BOARD_KEYS = ("system", "split", "metric", "n", "mape", "noise_floor")
Form = Annotated[Format, typer.Option("--format", help="How rows are printed.")]


def sql(statement: Annotated[str, typer.Argument(help="A SELECT.")], form: Form = "table") -> None:
    """Ask the measurement history in SQL, read-only.

    Reads the published copy history.duckdb, so it never disturbs a run, nor a run it. Schemas:
    raw (what was measured), fit, pred (the ledger) and report (views: accuracy, leaderboard …).

    Example: stepcast sql "SELECT label, predicted, measured FROM report.accuracy" --format csv
    """
    _tell_condition(any_version=True)
    print_frame(read_only(home(), statement), form)


def query(
    name: Annotated[
        str | None, typer.Argument(help="Which; without it, all are listed with their questions.")
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option(help="A parameter as name=value; may be repeated.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the queries.")] = False,
    form: Form = "table",
) -> None:
    """Run one of the queries that come with Stepcast.

    Example: stepcast query accuracy --param study=demo --param repeat=1

    Example: stepcast query --list
    """
    if listed or name is None:
        _list_queries(form)
        return
    params = dict(_parameter(text) for text in param or [])
    print_frame(history_here().query(name, **params), form)


def accuracy(
    as_json: Annotated[bool, typer.Option("--json", help="A list of objects, in percent.")] = False,
) -> None:
    """Show how wrong each system has been, in percent, beside the noise floor.

    Example: stepcast accuracy --json
    """
    board = history_here().leaderboard().select(LEADERBOARD)
    print_frame(board, "json" if as_json else "table", keys=_BOARD_KEYS)


def history_here() -> PublishedHistory:
    """Return the published history of this home for reading; a line on stderr says if it is old.

    Raises:
        BadInput: nothing is published yet, or what is is damaged or of an earlier schema.
    """
    _tell_condition()
    return PublishedHistory(home())


def warehouse_here() -> Warehouse:
    """Return the warehouse of this home for an answer that is to be written to the ledger.

    Where it cannot be written, the published history, and a line on stderr says that nothing is.

    Raises:
        BadInput: there is none, or as `history_here`.
    """
    if not (home() / MAIN).exists():
        raise BadInput(
            f"no warehouse in {home()} yet; run `make demo` or `stepcast run`; for GPUs, `stepcast "
            "load data/public` brings what others measured"
        )
    if (reason := explain_unwritable(home())) is None:
        return Warehouse(home())
    print_text(f"the answer is not written to the ledger: {reason}", err=True)
    return history_here()


def _tell_condition(*, any_version: bool = False) -> None:
    if (condition := describe_condition(home(), any_version=any_version)) is not None:
        print_text(condition, err=True)


def _list_queries(form: Format) -> None:
    """Print the queries, the question that each answers, and its parameters."""
    import re

    import polars as pl

    from warehouse.warehouse import QUERIES

    rows = []
    for file in sorted(QUERIES.glob("*.sql")):
        text = file.read_text()
        question = text.partition("\n")[0].removeprefix("--").strip()
        names = sorted(set(re.findall(r"\$([a-z_]+)", text)))
        rows.append({"query": file.stem, "question": question, "param": ", ".join(names)})
    print_frame(pl.DataFrame(rows), form, keys=("question",))


def _parameter(text: str) -> tuple[str, str | int | float]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise BadInput(f"--param {text!r}: expected name=value, e.g. --param study=demo")
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    return name, value


# `stepcast decisions`: what systems and rules of thumb would have rented, judged.


def decisions(
    seed: Annotated[int, typer.Option(help="Seed of the random limits of questions.")] = 34,
    questions: Annotated[
        int, typer.Option(min=1, max=100, help="Questions of each kind about each menu.")
    ] = 3,
    form: Annotated[Format, typer.Option("--format", help="How rows are printed.")] = "table",
) -> None:
    """Let every system and rule of thumb decide what to rent of what was measured, and judge them.

    A menu is what a round measured of one network: node types, numbers of workers and servers. For
    each, limits are drawn between the best and the worst that was measured. Whoever chooses sees
    forecasts from before the measurements, and errors from before all of them. `stepcast query
    decisions` shows the board again, view report.decision each decision.

    Where the home cannot be written, decisions are made of its published history and not kept.

    Example: stepcast decisions --seed 7
    """
    from forecasting.decisions.board import decisions as decided

    warehouse = warehouse_here()
    rows = decided(warehouse, seed, questions)
    if rows.is_empty():
        raise BadInput(
            "nothing to decide: no round has measured three scenarios of one network after their "
            "forecasts, with prices; run a study or `stepcast reproduce data/reference`"
        )
    print_text(
        f"{rows.height} decisions about {rows['question_id'].n_unique()} questions.", err=True
    )
    if not isinstance(warehouse, PublishedHistory):
        warehouse.record_decisions(rows)
        print_frame(warehouse.query("decisions", seed=seed), form)
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        shutil.copyfile(warehouse.home / HISTORY, copy / MAIN)
        judged = Warehouse(copy)
        judged.record_decisions(rows)
        print_frame(judged.query("decisions", seed=seed), form)


docs_app = typer.Typer(
    name="docs",
    help="Print reference text: the tables and columns of the history.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
WIDTH = 118
_INTRO = """# Which tables and columns does the history have?

A column marked `?` may be NULL. Schema `visible` has the columns of `raw`, limited to runs that
fits may see.
"""
_SCHEMAS = {
    "report": "What to ask first: views that join, judge and summarise.",
    "raw": "What probes landed, row by row; each row names its run.",
    "fit": "Fitted models, and the runs that each fit saw.",
    "pred": "The ledger of predictions and recommendations, and the systems that make them.",
    "catalog": "What papers publish and what node types are.",
    "meta": "How the history came to be: loads, versions, the chain of hashes.",
}


@docs_app.callback()
def _group() -> None:
    """Keep `data` a command of a group, though it is the only one."""


@docs_app.command()
def data() -> None:
    """Print every table and column of the history, with type, meaning and unit, as Markdown.

    It says what a new history has, by the comments in the database; no home is needed.

    Example: stepcast docs data | less
    """
    print_text(dictionary().rstrip("\n"))


def dictionary() -> str:
    """Return the data dictionary of a history that is empty and new."""
    import tempfile
    from pathlib import Path

    from warehouse.warehouse import Warehouse, read_only

    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        Warehouse(home).load()
        tables = read_only(
            home,
            "SELECT schema_name, table_name AS name, comment FROM duckdb_tables() UNION ALL "
            "SELECT schema_name, view_name, comment FROM duckdb_views() WHERE NOT internal",
        )
        columns = read_only(
            home,
            "SELECT schema_name, table_name AS name, column_name, lower(data_type) AS type, "
            "is_nullable, comment FROM duckdb_columns() WHERE NOT internal ORDER BY column_index",
        )
    parts = [_INTRO]
    for schema, what in _SCHEMAS.items():
        parts.append(f"\n## {schema}\n{wrapped(what)}\n")
        for table in tables.filter(schema_name=schema).sort("name").iter_rows(named=True):
            table_columns = columns.filter(schema_name=schema, name=table["name"])
            parts.append(f"\n### {schema}.{table['name']}\n{wrapped(table['comment'] or '')}\n\n")
            parts += [_column(row) for row in table_columns.iter_rows(named=True)]
    return "".join(parts)


def _column(row: dict[str, object]) -> str:
    unknown = "?" if row["is_nullable"] else ""
    comment = f": {row['comment']}" if row["comment"] else ""
    return item(f"`{row['column_name']}` {row['type']}{unknown}{comment}")


def item(text: str) -> str:
    """Return an item of a list in Markdown, in lines of `WIDTH`."""
    return f"{_filled(f'* {text}', '  ')}\n"


def wrapped(text: str) -> str:
    """Return a paragraph in lines of `WIDTH`."""
    return _filled(text, "")


def _filled(text: str, indent: str) -> str:
    return textwrap.fill(
        " ".join(text.split()),
        WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
