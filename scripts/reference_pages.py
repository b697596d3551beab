"""Write docs/cli.md from the commands' own help, docs/data.md from the database's comments.

Usage: python scripts/reference_pages.py; `tests/test_reference_pages.py` fails where they are old.
"""

import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, cast, get_args

import typer

from pipelines.cli.commands import loaded
from pipelines.cli.main import app
from warehouse.home import CHECKOUT
from warehouse.warehouse import Warehouse, read_only

CLI, DATA = CHECKOUT / "docs" / "cli.md", CHECKOUT / "docs" / "data.md"
_WIDTH = 118
_CLI_INTRO = """# Which commands are there?

This page is made from the commands' own help by `python scripts/reference_pages.py`.
`stepcast COMMAND --help` says the same.

Every command works on the home: `.stepcast` of the checkout (of the working directory, where
Stepcast is installed), or the folder that the environment variable `STEPCAST_HOME` names. An error
is one line; the exit status is 2 for a mistake of the caller, 1 for one of Stepcast, 130 after an
interruption. `stepcast --debug COMMAND` shows the traceback.
"""
_DATA_INTRO = """# Which tables and columns does the history have?

This page is made from the comments in the database by `python scripts/reference_pages.py`.
A column marked `?` may be NULL. The history says the same:

```
stepcast sql "SELECT table_name, column_name, data_type, comment FROM duckdb_columns()"
```

[design.md](design.md) says what a study is, and how a prediction meets its measurement.
"""
_SCHEMAS = {
    "report": "What to ask first: views that join, judge and summarise.",
    "raw": "What probes landed, row by row; each row names its run. Schema `visible` has the same "
    "columns, limited to runs that fits may see.",
    "fit": "Fitted models, and the runs that each fit saw.",
    "pred": "The ledger of predictions and recommendations, and the systems that make them.",
    "catalog": "What papers publish and what node types are.",
    "meta": "How the history came to be: loads, versions, the chain of hashes.",
}


class TypeDescriptor(Protocol):
    """The type of an option or argument, as its function declares it."""

    annotation: object


class Parameter(Protocol):
    """An option or argument, as typer knows it: whichever copy of click it brings."""

    name: str | None
    param_type_name: str
    opts: list[str]
    secondary_opts: list[str]
    metavar: str | None
    required: bool
    type_descriptor: TypeDescriptor
    default: object


class Command(Protocol):
    """A command, or a group of them."""

    help: str | None
    params: list[Parameter]


def commands(
    command: Command | None = None, name: str = "stepcast"
) -> Iterator[tuple[str, Command]]:
    """Yield every command that does something, with its whole name, in order."""
    command = command or cast(Command, typer.main.get_command(app))
    children: dict[str, Command] | None = getattr(command, "commands", None)
    if children is None:
        yield name, command
        return
    for each in sorted(children):
        # A command of `stepcast` itself is imported by its name.
        child = loaded(each) if name == "stepcast" else children[each]
        yield from commands(child, f"{name} {each}")


def cli_page() -> str:
    """Return docs/cli.md."""
    parts = [_CLI_INTRO]
    for name, command in commands():
        parts.append(f"\n## {name}\n{_help(command)}\n")
        parts += [_parameter(one) for one in command.params if one.name != "help"]
    return "".join(parts)


def data_page() -> str:
    """Return docs/data.md, of a history that is empty and new."""
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
    parts = [_DATA_INTRO]
    for schema, what in _SCHEMAS.items():
        parts.append(f"\n## {schema}\n{_wrapped(what)}\n")
        for table in tables.filter(schema_name=schema).sort("name").iter_rows(named=True):
            ours = columns.filter(schema_name=schema, name=table["name"])
            parts.append(f"\n### {schema}.{table['name']}\n{_wrapped(table['comment'] or '')}\n\n")
            parts += [_column(row) for row in ours.iter_rows(named=True)]
    return "".join(parts)


def _column(row: dict[str, object]) -> str:
    unknown = "?" if row["is_nullable"] else ""
    said = f": {row['comment']}" if row["comment"] else ""
    return _item(f"`{row['column_name']}` {row['type']}{unknown}{said}")


def _parameter(one: Parameter) -> str:
    is_option = one.param_type_name == "option"
    names = ", ".join(f"`{name}`" for name in (*one.opts, *one.secondary_opts))
    if not is_option:
        names = f"`{(one.metavar or one.name or '').upper()}`"
    said = (getattr(one, "help", None) or "").strip()
    said += " (required)" if one.required else ""
    if choices := list(_choices(one.type_descriptor.annotation)):
        said += f" One of {', '.join(f'`{choice}`' for choice in choices)}."
    default = one.default
    if not is_option or not isinstance(default, str | int | float | Path) or default in ("", False):
        return _item(f"{names}: {said}")
    return _item(f"{names}: {said} Default: `{str(default).replace(f'{CHECKOUT}/', '')}`.")


def _choices(annotation: object) -> Iterator[str]:
    """Yield the words that a type admits, if it is a Literal or a union with one."""
    for one in get_args(annotation):
        if isinstance(one, str):
            yield one
        else:
            yield from _choices(one)


def _help(command: Command) -> str:
    paragraphs = textwrap.dedent(command.help or "").strip().split("\n\n")
    return "\n\n".join(_wrapped(" ".join(one.split())) for one in paragraphs) + "\n"


def _item(text: str) -> str:
    return (
        textwrap.fill(
            f"* {' '.join(text.split())}",
            _WIDTH,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        + "\n"
    )


def _wrapped(text: str) -> str:
    return textwrap.fill(
        " ".join(text.split()), _WIDTH, break_long_words=False, break_on_hyphens=False
    )


def main() -> None:
    """Write both pages."""
    for page, text in ((CLI, cli_page()), (DATA, data_page())):
        page.write_text(text)
        sys.stdout.write(f"{page.relative_to(CHECKOUT)}: {text.count(chr(10))} lines\n")


if __name__ == "__main__":
    main()
