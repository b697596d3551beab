"""`stepcast sql`, `query` and `accuracy`: the history, asked."""

import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer
from polars import selectors

from pipelines.cli.tables import Format, print_frame, print_frames, print_table, tell
from warehouse import limits
from warehouse.history import PublishedHistory, describe_condition, explain_unwritable
from warehouse.home import MAIN, home
from warehouse.records import BadInput
from warehouse.sql import stream
from warehouse.warehouse import QUERIES, Warehouse

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
BOARD = ("system", "split", "metric", "n", "mape", "p90_ape", "noise_floor")
"""Columns for people."""
Form = Annotated[Format, typer.Option("--format", help="How rows are printed.")]


def sql(statement: Annotated[str, typer.Argument(help="A SELECT.")], form: Form = "table") -> None:
    """Ask the measurement history in SQL, read-only.

    Reads the published copy history.duckdb, so it never disturbs a run, nor a run it. Schemas:
    raw (what was measured), fit, pred (the ledger) and report (views: accuracy, leaderboard …).
    CSV and JSON are printed as rows come, however many there are.

    Example: stepcast sql "SELECT label, predicted, measured FROM report.accuracy" --format csv
    """
    _tell_condition(any_version=True)
    with _bounded_memory():
        print_frames(stream(home(), statement), form)


@contextmanager
def _bounded_memory() -> Iterator[None]:
    """Keep the block from taking more memory than `limits.SQL_BYTES` beyond what is taken now.

    DuckDB counts what it sorts and joins, and not the texts that functions make.

    Raises:
        BadInput: it would have.
    """
    (taken_kib,) = re.findall(r"VmData:\s+(\d+) kB", Path("/proc/self/status").read_text())
    usual, most = resource.getrlimit(resource.RLIMIT_DATA)
    bound = 1024 * int(taken_kib) + limits.SQL_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (bound, most))
    try:
        yield
    except MemoryError as error:
        raise BadInput(
            f"this statement needs more than {limits.SQL_BYTES / 2**30:g} GiB; ask for less at once"
        ) from error
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (usual, most))


def query(
    name: Annotated[
        str | None, typer.Argument(help="Which; without it, all are listed with their questions.")
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option(help="A parameter as name=value; may be repeated.")
    ] = None,
    form: Form = "table",
) -> None:
    """Run one of the queries that come with Stepcast.

    Example: stepcast query accuracy --param study=demo --param repeat=1

    Example: stepcast query
    """
    if name is None:
        listed = pl.DataFrame(list(ready_queries()))
        of = pl.col("params").list.join(", ")
        print_frame(listed.select(query="name", question="question", param=of), form)
        return
    params = dict(parameter(text) for text in param or [])
    print_frame(history_here().query(name, **params), form)


def accuracy(
    as_json: Annotated[bool, typer.Option("--json", help="A list of objects, in percent.")] = False,
) -> None:
    """Show how wrong each system has been, beside the noise floor.

    Example: stepcast accuracy --json
    """
    board = history_here().query("leaderboard").select(LEADERBOARD)
    if as_json:
        print_frame(board, "json")
    else:
        print_board(board)


def print_board(board: pl.DataFrame) -> None:
    """Print how wrong systems are; JSON has more columns."""
    words = pl.col("split", "metric").str.replace_all("_", " ")
    print_table(board.select(BOARD).with_columns(words, selectors.float().round(2)))


def history_here() -> PublishedHistory:
    """Return the published history of this home for reading; a line on stderr says if it is old.

    Raises:
        BadInput: nothing is published yet, or what is is damaged or of an earlier schema.
    """
    _tell_condition()
    return PublishedHistory(home())


def warehouse_here(*, dry_run: bool = False) -> Warehouse:
    """Return what forecasts rest on: the warehouse where they are to be written to its ledger.

    Where it cannot be written, the published history, and a line on stderr says that nothing is.

    Args:
        dry_run: whether nothing is to be written.

    Raises:
        BadInput: nothing has been measured in this home, or as `history_here`.
    """
    from networks.kept_graphs import keep_beside

    if not (home() / MAIN).exists():
        raise BadInput(
            f"nothing has been measured in {home()} yet; run a study first: `make demo` or "
            "`stepcast run STUDY.yaml`; for GPUs, `stepcast load public` brings what others "
            "measured"
        )
    keep_beside(home())
    if dry_run:
        return history_here()
    if (reason := explain_unwritable(home())) is None:
        return Warehouse(home())
    tell(f"the answer is not written to the ledger: {reason}")
    return history_here()


def _tell_condition(*, any_version: bool = False) -> None:
    if (condition := describe_condition(home(), any_version=any_version)) is not None:
        tell(condition)


def ready_queries() -> Iterator[dict[str, Any]]:
    """Yield the name, question, parameters and SQL of each query that comes with Stepcast."""
    for file in sorted(QUERIES.glob("*.sql")):
        sql = file.read_text()
        question = sql.partition("\n")[0].removeprefix("--").strip()
        params = sorted(set(re.findall(r"\$([a-z_]+)", sql)))
        yield {"name": file.stem, "question": question, "params": params, "sql": sql}


def parameter(text: str) -> tuple[str, str | int | float]:
    """Return the name and the value of name=value, a number where it is one.

    Raises:
        BadInput: it is something else.
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise BadInput(f"--param {text!r}: expected name=value, e.g. --param study=demo")
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    return name, value
