"""The command line: its commands by name; the module of each is imported when it is called.

Help of all of them is read of their sources: what commands work with takes seconds to import.
Errors are one line: exit 2 for the user's mistakes, 1 for ours.
"""

import gc
import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from pipelines.cli.removed import replacement
from warehouse.durable_files import sweep_home
from warehouse.home import home, version

_MODES = ("default", "reduce-overhead")
"""That `--compiled` may name; it needs none."""


SECTIONS: Mapping[str, str] = {
    "Ask how fast, how long and how expensive training will be": "predict recommend sweep serve",
    "Measure here, on a cluster or on rented nodes": (
        "run plan profile train fleet prices import bench"
    ),
    "Look at what was measured, and how wrong forecasts were": (
        "accuracy report query sql history compare ui"
    ),
    "Keep histories, and share them": "load export seal reproduce warehouse",
    "See what this machine can do, and what has a name": "doctor reap support node-types",
}
"""Commands by what they are for; what people read first stands first."""
COMMANDS = [name for names in SECTIONS.values() for name in names.split()]
_MODULES = {
    **dict.fromkeys(("plan", "report"), "run"),
    **dict.fromkeys(("accuracy", "sql"), "query"),
    **dict.fromkeys(("import", "load"), "warehouse"),
    **dict.fromkeys(("export", "seal", "reproduce"), "reference"),
    **dict.fromkeys(("doctor", "reap", "support", "ui"), "host"),
}
"""Of commands whose module has another name."""


class Commands(TyperGroup):
    """The group of all commands: `commands` only says which there are."""

    def __init__(self, **attributes: Any) -> None:
        named = {name: TyperCommand(name=name) for name in COMMANDS}
        super().__init__(**{**attributes, "commands": named})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command with its options; None if there is none of that name."""
        return load_command(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands with their whole summaries, by what they are for."""
        widest = max(map(len, self.commands))
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), summary(name)) for name in names.split()])


def summary(name: str) -> str:
    """Return the first sentence of a command's help, as its source has it."""
    source = Path(__file__).with_name(f"{_module(name)}.py").read_text()
    anywhere = re.DOTALL | re.MULTILINE
    found = re.search(rf'^def {_function(name)}\(.*?"""(.+?)$', source, anywhere)
    found = found or re.search(r'^app = typer.Typer\(.*?help="(.+?)"', source, anywhere)
    assert found is not None
    return found[1]


def _module(name: str) -> str:
    return _MODULES.get(name, _function(name))


def _function(name: str) -> str:
    return f"{name}_" if iskeyword(name) else name.replace("-", "_")


def load_command(name: str) -> Any:
    """Return a command, as typer makes it of its function or group."""
    module = import_module(f"pipelines.cli.{_module(name)}")
    if (function := getattr(module, _function(name), None)) is None:
        group = typer.main.get_group(module.app)
        group.name = name
        return group
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name)(function)
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
