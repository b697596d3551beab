"""The command line. Errors are one line: exit 2 for the user's mistakes, 1 for ours."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from pipelines.cli import (
    ask,
    bench,
    compare,
    decisions,
    fleet,
    history,
    host,
    imports,
    load,
    noise,
    predict,
    prices,
    profile,
    recommend,
    reference,
    run,
    serve,
    timeline,
    train,
    warehouse,
)
from pipelines.cli.errors import explain
from warehouse.version import version

app = typer.Typer(
    name="stepcast",
    help="Measure DNN training, predict what nobody has run yet, show how wrong that was.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for command in (
    run.run,
    run.demo,
    run.plan,
    ask.sql,
    ask.query,
    ask.accuracy,
    compare.compare,
    history.history,
    noise.noise,
    history.show,
    load.load,
    load.push,
    reference.export,
    reference.seal,
    reference.reproduce,
    reference.reproduce_external,
    run.report,
    timeline.timeline,
    predict.predict,
    profile.profile,
    recommend.recommend,
    decisions.decisions,
    serve.serve,
    train.train,
    host.doctor,
    host.reap,
    host.networks,
    host.node_types,
    host.ui,
):
    app.command()(command)
app.command("import")(imports.import_)
app.add_typer(bench.bench)
app.add_typer(fleet.app)
app.add_typer(warehouse.app)
app.add_typer(prices.app)
app.add_typer(serve.node)
app.add_typer(serve.embedder)


@dataclass
class Options:
    """What holds for every command."""

    debug: bool = False


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"stepcast {version()}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Take the options that hold for every command."""
    context.obj.debug = debug


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line.

    Raises:
        SystemExit: always, with the exit code.
    """
    given = Options()
    try:
        app(sys.argv[1:] if arguments is None else list(arguments), obj=given)
    except Exception as error:
        if given.debug:
            raise
        code, line = explain(error)
        typer.echo(f"stepcast: {line}", err=True)
        raise SystemExit(code) from None


if __name__ == "__main__":
    main()
