"""`stepcast warehouse …`, `load`, `import`: upkeep of the history, and what comes in."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.options import takes
from pipelines.cli.tables import print_text
from pipelines.file_import import ImportOptions, import_file, land_staged
from profilers.readers.formats import find_format
from warehouse import check as examine
from warehouse import upkeep
from warehouse.extras import has_extra
from warehouse.home import PUBLIC, home
from warehouse.loader import LoadReport
from warehouse.records import BadInput
from warehouse.recovery import recover
from warehouse.seal import FOLDER
from warehouse.sets import copy_kept_runs, kept_runs, sets_below
from warehouse.transfer import copy_landed
from warehouse.warehouse import Warehouse

app = typer.Typer(
    name="warehouse",
    help="Check, back up and compact the history.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
def check() -> None:
    """Look for what is lost, doubled or altered; changes nothing.

    Verifies the ledger's hash chain, the rows of every loaded run against its landed files, that
    every prediction's fit and every fit's runs are there, and that history.duckdb is current.
    Prints a line for each finding; exit code 1 if something is broken.

    Example: stepcast warehouse check
    """
    examined = examine.check(home())
    for finding in examined.findings:
        print_text(f"{'broken' if finding.broken else 'note'}: {finding.text}")
    broken = sum(finding.broken for finding in examined.findings)
    print_text(
        f"sound: {examined.summary}" if examined.sound else f"{broken} broken: {examined.summary}"
    )
    raise typer.Exit(0 if examined.sound else 1)


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
    copy = upkeep.backup(home(), target)
    print_text(f"{copy}: {_megabytes(copy.stat().st_size)}, verified")


@app.command()
def compact() -> None:
    """Write the warehouse anew without the space that deleted rows left.

    The new file takes the old one's place once it is known to hold the same rows. Needs as much
    free space as the warehouse takes, and nobody else may have it open.

    Example: stepcast warehouse compact
    """
    before, after = upkeep.compact(home())
    print_text(f"{_megabytes(before)} before, {_megabytes(after)} after")


def _folder(place: str) -> Path:
    """Return a folder; of `public` and `data/public`, where there is none, that of the package."""
    folder = Path(place)
    name = folder.as_posix().removeprefix("data/")
    if not folder.exists() and (name == PUBLIC.name or name.startswith(f"{PUBLIC.name}/")):
        return PUBLIC.resolve() / Path(name).relative_to(PUBLIC.name)
    return folder


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f} MB"


def load(
    place: Annotated[
        str | None,
        typer.Argument(
            help="Runs to be copied first: a folder of runs or sets; public: what others measured, "
            "which comes with Stepcast."
        ),
    ] = None,
) -> None:
    """Load landed runs; twice changes nothing.

    A run that cannot be loaded is set aside with its reason, and the others still load. Of a
    place, it is copied again only if it is put there again. Symbolic links are not followed: a run
    that holds one is not copied. Of a folder of sets (`stepcast export`), or of folders of sets,
    all runs come or none, and the forecasts that were published with them (`stepcast seal`) come
    too.

    A warehouse.duckdb that is damaged is set aside first, and built again of landing/ and journal/;
    one that is not there too.

    Example: stepcast load /media/usb/landing

    Example: stepcast load data/reference

    Example: stepcast load public
    """
    load_runs(place, print_text)


def load_runs(place: str | None, say: Callable[[str], None]) -> LoadReport:
    """Copy the runs of a place, load what has landed, and return what that was.

    Raises:
        BadInput: there is no such place.
        StepcastError: a run could not be copied or loaded.
    """
    for line in recover(home()):
        say(line)
    warehouse = Warehouse(home())
    wrong: list[str] = []
    folder_given = _folder(place) if place else None
    sets = sets_below(folder_given) if folder_given else []
    if sets:
        run_ids = {folder: [run.run_id for run in kept_runs(folder)] for folder in sets}
        copied = sum(
            copy_kept_runs(folder, warehouse.landing, ids) for folder, ids in run_ids.items()
        )
        say(f"copied {copied} runs from {place}")
    elif folder_given:
        copied, wrong = copy_landed(folder_given, warehouse.landing)
        say(f"copied {copied} runs from {place}")
    report = warehouse.load(verify=True)
    say(f"loaded {len(report.loaded)} runs, {report.unchanged} were there already")
    try:
        if sealed := sum(warehouse.load_sealed(folder / FOLDER) for folder in sets):
            say(f"loaded {sealed:,} published forecasts")
        tell_dagster(warehouse.home)
    except Exception as error:
        for line in (*wrong, *report.not_loaded):
            error.add_note(line)
        raise
    check_all_loaded(report, wrong)
    return report


def tell_dagster(place: Path) -> None:
    """Tell Dagster what came into a home, if it was used there before; else `stepcast ui` does."""
    if has_extra("dagster") and (place / "dagster.yaml").exists():
        from assets.landed import report_landed
        from pipelines import dagster_history

        with dagster_history.instance(place) as instance:
            report_landed(instance, place)


def check_all_loaded(report: LoadReport, refused: Sequence[str] = ()) -> None:
    """Say what was not copied, in the lines of `refused`, and what was not loaded.

    Raises:
        BadInput: a run could not be copied or loaded; the others are.
    """
    if lines := [*refused, *report.not_loaded]:
        raise BadInput("; ".join(lines))


@takes(ImportOptions)
def import_(
    options: ImportOptions,
    format_name: Annotated[
        str, typer.Argument(metavar="FORMAT", help="nccl-tests, iperf3, pcap, kineto, csv.")
    ],
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Files, gzipped or not.")],
) -> None:
    """Bring measurements of others, or your own of GPUs, into the history.

    They are runs of backend `imported`, never mixed with our own. What is kept of each format is
    in docs/import.md. Importing a file twice changes nothing. A trace with
    --worker corrects forecasts of GPUs of that type from then on; a log of nccl-tests, or a report
    of iperf3, those of several of its GPUs or nodes.

    Example: stepcast import nccl-tests run1.log run2.log --source "our cluster, May 2026"

    Example: stepcast import kineto step.pt.trace.json --worker g6.xlarge
    """
    find_format(format_name, options)
    warehouse = Warehouse(home())
    with land_staged(warehouse.landing) as staging:
        lines = [import_file(path, format_name, options, staging) for path in paths]
    print_text(*lines)
    check_all_loaded(warehouse.load())
