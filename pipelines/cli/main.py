"""The command line. Errors are one line: exit 2 for the user's mistakes, 1 for ours."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from pipelines.cli.commands import Commands
from warehouse.home import version

app = typer.Typer(
    cls=Commands,
    name="stepcast",
    help="Measure DNN training, predict what nobody has run yet, show how wrong that was.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@dataclass
class GlobalOptions:
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
    given = GlobalOptions()
    try:
        app(sys.argv[1:] if arguments is None else list(arguments), obj=given)
    except Exception as error:
        if given.debug:
            raise
        # What tells errors apart takes longer to import than help takes.
        from pipelines.cli.errors import explain
        from pipelines.cli.tables import print_text

        code, line = explain(error)
        print_text(f"stepcast: {line}", err=True)
        raise SystemExit(code) from None


if __name__ == "__main__":
    main()
