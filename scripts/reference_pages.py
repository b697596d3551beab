"""Write docs/cli.md from the commands' own help.

Usage: python scripts/reference_pages.py; `tests/test_reference_pages.py` fails where it is old.
"""

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import typer

from pipelines.cli.main import app, load_command
from warehouse.home import CHECKOUT

CLI = CHECKOUT / "docs" / "cli.md"
_CLI_INTRO = """# Which commands are there?

This page is made from the commands' own help by `python scripts/reference_pages.py`.
`stepcast COMMAND --help` says the same.

Every command works on the home: `.stepcast` of the checkout (of the working directory, where
Stepcast is installed), or the folder that the environment variable `STEPCAST_HOME` names. An error
is one line; the exit status is 2 for a mistake of the caller, 1 for one of Stepcast, 130 after an
interruption. `stepcast --debug COMMAND` shows the traceback.
"""


WIDTH = 118


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


def commands(command: Any = None, name: str = "stepcast") -> Iterator[tuple[str, Any]]:
    """Yield every command that does something, with its whole name, in order."""
    command = command or typer.main.get_command(app)
    children: Any = getattr(command, "commands", None)
    if children is None:
        yield name, command
        return
    for each in sorted(children):
        # A command of `stepcast` itself is imported by its name.
        child = load_command(each) if name == "stepcast" else children[each]
        yield from commands(child, f"{name} {each}")


def cli_page() -> str:
    """Return docs/cli.md."""
    parts = [_CLI_INTRO]
    for name, command in commands():
        parts.append(f"\n## {name}\n{_help(command)}\n")
        parts += [_parameter(param) for param in command.params if param.name != "help"]
    return "".join(parts)


def _parameter(parameter: Any) -> str:
    is_option = parameter.param_type_name == "option"
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    if not is_option:
        names = f"`{(parameter.metavar or parameter.name or '').upper()}`"
    help_text = (getattr(parameter, "help", None) or "").strip()
    help_text += " (required)" if parameter.required else ""
    if choices := list(_choices(parameter.type_descriptor.annotation)):
        help_text += f" One of {', '.join(f'`{choice}`' for choice in choices)}."
    default = parameter.default
    if not is_option or not isinstance(default, str | int | float | Path) or default in ("", False):
        return item(f"{names}: {help_text}")
    return item(f"{names}: {help_text} Default: `{str(default).replace(f'{CHECKOUT}/', '')}`.")


def _choices(annotation: object) -> Iterator[str]:
    """Yield the words that a type admits, if it is a Literal or a union with one."""
    for member in get_args(annotation):
        if isinstance(member, str):
            yield member
        else:
            yield from _choices(member)


def _help(command: Any) -> str:
    paragraphs = textwrap.dedent(command.help or "").strip().split("\n\n")
    return "\n\n".join(wrapped(" ".join(paragraph.split())) for paragraph in paragraphs) + "\n"


def main() -> None:
    """Write the page."""
    CLI.write_text(cli_page())


if __name__ == "__main__":
    main()
