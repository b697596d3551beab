"""`stepcast warehouse …`: is the history sound, copies of it, its space, its schema version."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.tables import print_text
from warehouse.home import home

app = typer.Typer(
    name="warehouse",
    help="Check, back up, compact and migrate the measurement history.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
def check() -> None:
    """Look for what is lost, doubled or altered; changes nothing.

    Verifies the ledger's hash chain, the rows of every loaded run against its landed files, that
    every prediction's fit and every fit's runs are there, that every run's machine was what its
    node type declares, and that history.duckdb is current.
    Prints a line for each finding; exit code 1 if something is broken.

    Example: stepcast warehouse check
    """
    from profilers.clusters.node_types import mismatch
    from warehouse.check import check as examine

    found = examine(home(), mismatch=mismatch)
    for finding in found.findings:
        print_text(f"{'broken' if finding.broken else 'note'}: {finding.text}")
    broken = sum(finding.broken for finding in found.findings)
    print_text(f"sound: {found.summary}" if found.sound else f"{broken} broken: {found.summary}")
    raise typer.Exit(0 if found.sound else 1)


@app.command()
def backup(
    target: Annotated[
        Path | None, typer.Argument(help="A folder, made if need be; backups/ of the home if none.")
    ] = None,
) -> None:
    """Copy warehouse.duckdb, as one moment left it, and verify the copy.

    The copy holds all loaded rows, fits and predictions. It does not hold landing/ with the raw
    files of probes: those never change once landed, so copy them with rsync or the like. To
    restore, put the copy in the place of warehouse.duckdb and run `stepcast load`: journal/ brings
    what was forecast since. A copy of landing/ and journal/ alone is a whole backup too.

    Example: stepcast warehouse backup /media/usb/stepcast
    """
    from warehouse import upkeep

    copy = upkeep.backup(home(), target)
    print_text(f"{copy}: {_megabytes(copy.stat().st_size)}, verified")


@app.command()
def compact() -> None:
    """Write the warehouse anew without the space that deleted rows left.

    The new file takes the old one's place once it is known to hold the same rows. Needs as much
    free space as the warehouse takes, and nobody else may have it open.

    Example: stepcast warehouse compact
    """
    from warehouse import upkeep

    before, after = upkeep.compact(home())
    print_text(f"{_megabytes(before)} before, {_megabytes(after)} after")


@app.command()
def migrate() -> None:
    """Bring the schema up to date, after a backup; opening an older warehouse does the same.

    Example: stepcast warehouse migrate
    """
    from warehouse import upkeep

    done = upkeep.migrate_now(home())
    if done.backup is None:
        print_text(f"schema version {done.after} is the newest; nothing to do")
    else:
        print_text(f"schema version {done.before} became {done.after}")
        print_text(f"the warehouse as it was before is in {done.backup}")


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f} MB"
