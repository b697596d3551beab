"""The command line: its commands by name; the module of each is imported when it is called.

Help of all of them rests on this table alone: what commands work with takes seconds to import.
Errors are one line: exit 2 for the user's mistakes, 1 for ours.
"""

import gc
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from pipelines.cli.removed import replacement
from warehouse.durable_files import sweep_home
from warehouse.home import home, version

_MODES = ("default", "reduce-overhead")
"""That `--compiled` may name; it needs none."""


class Command(NamedTuple):
    """A function or group of a module of `pipelines.cli`, and the first sentence of its help."""

    name: str
    module: str
    summary: str
    attribute: str | None = None
    """None: as it is named."""


SECTIONS: Mapping[str, Sequence[Command]] = {
    "Ask how fast, how long and how expensive training will be": (
        Command(
            "predict", "predict", "Forecast training that nobody has measured, by every system."
        ),
        Command("recommend", "recommend", "Recommend nodes for a job."),
        Command("sweep", "sweep", "Forecast a grid of scenarios, into Parquet files."),
        Command("serve", "serve", "Forecast workloads that are asked for over HTTP."),
    ),
    "Measure here, on a cluster or on rented nodes": (
        Command("run", "run", "Profile one worker, predict many, measure them, show the error."),
        Command("plan", "run", "Show what `stepcast run` would do, and how long it takes."),
        Command(
            "profile", "profile", "Time the passes of your own model on one node of this machine."
        ),
        Command(
            "train", "train", "Train on nodes that Srift chooses, anew when one is taken away."
        ),
        Command("fleet", "fleet", "Profile node types on a schedule, and notice changes.", "app"),
        Command(
            "prices", "prices", "Collect prices of node types, and show what was known when.", "app"
        ),
        Command(
            "import",
            "warehouse",
            "Bring measurements of others, or your own of GPUs, into the history.",
            "import_",
        ),
        Command("bench", "bench", "Measure how fast Stepcast itself is."),
    ),
    "Look at what was measured, and how wrong forecasts were": (
        Command(
            "accuracy", "query", "Show how wrong each system has been, beside the noise floor."
        ),
        Command("report", "run", "Write the HTML report of a study again."),
        Command("query", "query", "Run one of the queries that come with Stepcast."),
        Command("sql", "query", "Ask the measurement history in SQL, read-only."),
        Command("history", "history", "Show what a configuration gave over time, run by run."),
        Command(
            "compare",
            "compare",
            "Show what differs between two sides of the history by more than noise.",
        ),
        Command("ui", "host", "Start Dagster's web interface; Ctrl-C ends it."),
    ),
    "Keep histories, and share them": (
        Command("load", "warehouse", "Load landed runs; twice changes nothing."),
        Command(
            "export",
            "reference",
            "Add the landed runs of a study to a folder of sets, to keep them.",
        ),
        Command(
            "seal", "reference", "Write a round's forecasts to a file, before any is measured."
        ),
        Command(
            "reproduce",
            "reference",
            "Rebuild every fit, forecast and error from kept runs, in a fresh home.",
        ),
        Command("warehouse", "warehouse", "Check, back up and compact the history.", "app"),
    ),
    "See what this machine can do, and what has a name": (
        Command("doctor", "host", "Say what this machine can do, and what mends what is missing."),
        Command("reap", "host", "Remove what killed runs of this home left."),
        Command(
            "support", "host", "List networks and types of models: what is answered, or why not."
        ),
        Command("node-types", "node_types", "List the node types that studies can name."),
    ),
}
"""What people read first stands first."""
COMMANDS = {command.name: command for some in SECTIONS.values() for command in some}


class Commands(TyperGroup):
    """The group of all commands: `commands` only says what help lists of each."""

    def __init__(self, **attributes: Any) -> None:
        summaries = {
            name: TyperCommand(name=name, help=command.summary)
            for name, command in COMMANDS.items()
        }
        super().__init__(**{**attributes, "commands": summaries})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command with its options; None if there is none of that name."""
        return load_command(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands with their whole summaries, by what they are for."""
        widest = max(map(len, self.commands))
        for title, some in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(each.name.ljust(widest), each.summary) for each in some])


def load_command(name: str) -> Any:
    """Return a command, as typer makes it of its function or group."""
    command = COMMANDS[name]
    module = import_module(f"pipelines.cli.{command.module}")
    attribute = getattr(module, command.attribute or name.replace("-", "_"))
    if isinstance(attribute, typer.Typer):
        group = typer.main.get_group(attribute)
        group.name = name
        return group
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name)(attribute)
    return typer.main.get_command(app)


app = typer.Typer(
    cls=Commands,
    name="stepcast",
    help="Measure DNN training, predict what nobody has run yet, show how wrong that was.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


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
    """Take the options that hold for every command; remove what killed commands left of files."""
    context.obj["debug"] = debug
    if context.invoked_subcommand != "reap":  # which says what it removes
        sweep_home(home())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line.

    Raises:
        SystemExit: always, with the exit code.
    """
    # Imports make hundreds of thousands of objects that stay: to look at them again and again for
    # garbage takes a tenth of a command's time.
    gc.set_threshold(100_000)
    given = {"debug": False}
    words = sys.argv[1:] if arguments is None else list(arguments)
    following = [*words[1:], ""]
    words = [
        "--compiled=default" if word == "--compiled" and after not in _MODES else word
        for word, after in zip(words, following, strict=False)
    ]
    if line := replacement(words):
        typer.echo(f"stepcast: {line}", err=True)
        raise SystemExit(2)
    try:
        code = app(words, obj=given, prog_name="stepcast", standalone_mode=False)
    except Exception as error:
        if given["debug"]:
            raise
        code = _tell(error)
    raise SystemExit(code or 0)


def _tell(error: Any) -> int:
    """Print an error as one line, or help where nothing was asked; return the exit code."""
    # Of typer's copy of click, whose names are private.
    if hasattr(error, "format_message"):
        text = error.format_message()
        if not text.startswith("Usage:"):
            text = f"stepcast: {text.rstrip('.')}; `{error.ctx.command_path} --help` says more"
        typer.echo(text, err=True)
        return 2
    # What tells errors apart takes longer to import than help takes.
    from pipelines.cli.errors import explain
    from pipelines.cli.tables import tell

    code, line = explain(error)
    tell(f"stepcast: {line}")
    return code


if __name__ == "__main__":
    main()
