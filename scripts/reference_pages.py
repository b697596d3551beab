"""Write docs/cli.md from the commands' own help, and docs/node-types.md from the catalogue.

Usage: python scripts/reference_pages.py; `tests/test_reference_pages.py` fails where it is old.
"""

import sys
import textwrap
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, cast, get_args

import polars as pl
import typer

from models.gpu_step.device import boards, device_of_node
from pipelines.cli.main import app, load_command
from profilers.clusters.node_types import GPU, shipped_node_types
from warehouse.home import CHECKOUT

CLI = CHECKOUT / "docs" / "cli.md"
CATALOGUE = CHECKOUT / "docs" / "node-types.md"
_PRICES = CHECKOUT / "data" / "public" / "aws_on_demand"
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


_CATALOGUE_INTRO = """# Which node types of EC2 are in the catalogue?

This page is made from `profilers/clusters/node_types.yaml` (which names its sources),
`models/gpu_step/devices.yaml` and `data/public/aws_on_demand` by
`python scripts/reference_pages.py`. `stepcast node-types` says the same of your history, with your
prices and runs; `stepcast recommend` chooses among them
([recommend.md](recommend.md#which-gpus-of-ec2)).
"""


def catalogue_page() -> str:
    """Return docs/node-types.md."""
    prices = pl.concat([pl.read_parquet(file) for file in sorted(_PRICES.glob("*/price.parquet"))])
    newest = prices.sort("observed_at").filter(market="on_demand")
    usd = dict(newest.select("node_type", "usd_per_hour").iter_rows())
    (place,) = newest["region"].unique()
    day = f"{cast(datetime, newest['observed_at'].max()):%-d %B %Y}"
    parts = [
        _CATALOGUE_INTRO,
        "\n## Instances of EC2 with GPUs\n"
        f"Baseline network (EFA: with the Elastic Fabric Adapter); prices on demand in {place} on\n"
        f"{day}.\n"
        "A dash: no price is listed, or the GPU has no data sheet.\n\n"
        "| node type | GPUs | linked by | Gb/s | EFA | cores | GiB | data sheet | $/h |\n"
        "|---|---|---|---:|---|---:|---:|---|---:|\n",
    ]
    for name, kind in shipped_node_types().items():
        if kind.gpu is None or name.startswith(GPU):
            continue
        sheet = device_of_node(name)
        cells = (
            f"`{name}`",
            f"{kind.gpus} {kind.gpu}",
            kind.gpu_link or "",
            f"{kind.bandwidth_mbps / 1000:g}",
            "yes" if kind.efa else "",
            f"{kind.threads}",
            "–" if kind.memory_gib is None else f"{kind.memory_gib:g}",
            "–" if sheet is None else sheet.name,
            f"{usd[name]:.2f}" if name in usd else "–",
        )
        parts.append(f"| {' | '.join(cells)} |\n")
    parts.append(
        "\n## Instances of EC2 without GPUs\n"
        "A core has two virtual processors.\n\n"
        "| node type | virtual processors | GiB | Gb/s | EFA | $/h |\n"
        "|---|---:|---:|---:|---|---:|\n"
    )
    for name, kind in shipped_node_types().items():
        if kind.gpu is None and kind.vcpus is not None:
            plain_cells = (
                f"`{name}`",
                f"{kind.vcpus}",
                f"{kind.memory_gib:g}",
                f"{kind.bandwidth_mbps / 1000:g}",
                "yes" if kind.efa else "",
                f"{usd[name]:.3f}" if name in usd else "–",
            )
            parts.append(f"| {' | '.join(plain_cells)} |\n")
    parts.append(
        "\n## Data sheets of GPUs\n"
        "Dense peaks in 10¹² operations a second (a dash: no matrix units).\n"
        "Memory bandwidth is in GB/s, memory as the driver reports it.\n\n"
        "| GPU | announced | float32 | tf32 | bfloat16 | float16 | GB/s | GiB | W |\n"
        "|---|---|---:|---:|---:|---:|---:|---:|---:|\n"
    )
    for board in sorted(boards(), key=lambda board: (board.announced, board.name)):
        peaks = (board.peak.get(name) for name in ("float32", "tf32", "bfloat16", "float16"))
        board_cells = (
            board.name,
            board.announced,
            *("–" if peak is None else f"{peak / 1e12:g}" for peak in peaks),
            f"{board.bandwidth / 1e9:g}",
            f"{board.memory_bytes / 2**30:g}",
            f"{board.watts:g}",
        )
        parts.append(f"| {' | '.join(board_cells)} |\n")
    return "".join(parts)


def main() -> None:
    """Write the pages."""
    for path, text in ((CLI, cli_page()), (CATALOGUE, catalogue_page())):
        path.write_text(text)
        sys.stdout.write(f"{path.relative_to(CHECKOUT)}: {text.count(chr(10))} lines\n")


if __name__ == "__main__":
    main()
