"""`stepcast bench`: how fast Stepcast itself is, and how wrong GPUs' forecasts are."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.tables import print_table, print_text, tell
from warehouse.records import BadInput

if TYPE_CHECKING:
    import polars as pl


def bench(
    name: Annotated[
        str | None, typer.Argument(help="gpu, history or simulator; else all are told.")
    ] = None,
    sizes: Annotated[
        list[str] | None, typer.Option("--set", help="SIZE=NUMBER; may be given again.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="A page of error figures that gets the table of `gpu`, too.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object of figures.")] = False,
) -> None:
    """Measure how fast Stepcast itself is.

    Without a name: what each benchmark measures, what it needs and which sizes it has. What is
    written goes to a folder in the home (STEPCAST_HOME), which is given back at the end.

    Example: stepcast bench simulator

    Example: stepcast bench history --json
    """
    from benchmarks.contract import NAMES, read_benchmark

    if name is None:
        for each in NAMES:
            benchmark = read_benchmark(each)
            defaults = " ".join(f"{size}={value}" for size, value in benchmark.sizes.items())
            print_text(f"{each}: {benchmark.what} {benchmark.needs}")
            if defaults:
                print_text(f"  --set {defaults}")
        return
    benchmark = read_benchmark(name)
    if page is not None and name != "gpu":
        raise BadInput(f"--page: {name} has no page; only gpu has")
    if page is not None and not page.is_file():
        raise BadInput(f"--page: there is no page {page}; `stepcast reproduce` makes one")
    numbers = {}
    for text in sizes or ():
        size, _, number = text.partition("=")
        if not number.isdecimal():
            raise BadInput(f"--set {text}: expected SIZE=NUMBER, such as members=1000")
        numbers[size] = int(number)
    outcome = benchmark.run(numbers, tell)
    if page is not None:
        from reports import accuracy_page

        page.write_text(accuracy_page.with_gpus(page.read_text(), outcome.table.to_dicts()))
    if as_json:
        typer.echo(json.dumps({"figures": outcome.table.to_dicts(), "notes": outcome.notes}))
        return
    print_table(_in_words(outcome.table))
    for note in outcome.notes:
        print_text(note)


def _in_words(table: "pl.DataFrame") -> "pl.DataFrame":
    """Return figures of three digits, a ratio with its peer, and nothing where none is known."""
    import polars as pl
    from polars import selectors

    if "ratio" in table.columns:
        beside = pl.format("{} x {}", "ratio", "peer").alias("beside")
        table = table.select(pl.exclude("ratio", "peer"), beside)
    rounded = table.with_columns(selectors.float().round_sig_figs(3))
    unknown = [name for name in rounded.columns if rounded[name].null_count()]
    return rounded.with_columns(pl.col(unknown).cast(pl.String).fill_null(""))
