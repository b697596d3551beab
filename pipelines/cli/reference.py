"""`stepcast export`, `seal` and `reproduce`: runs kept apart, and everything anew from them."""

import socket
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from pipelines.cli.run import StudyFile
from pipelines.cli.tables import print_table, print_text
from profilers import clock
from profilers.clusters.fleet import find_fleet
from warehouse import records
from warehouse.home import CHECKOUT, home
from warehouse.records import BadInput

if TYPE_CHECKING:
    import polars as pl

    from warehouse.warehouse import Warehouse

REFERENCE = CHECKOUT / "data" / "reference"


def export(
    study: Annotated[str, typer.Argument(help="Name of a study; imported: traces of yours.")],
    folder: Annotated[
        Path, typer.Argument(help="The folder of sets that gets its runs.")
    ] = REFERENCE,
    public: Annotated[
        bool, typer.Option("--public", help="Without names of hosts and files, to give to others.")
    ] = False,
) -> None:
    """Add the landed runs of a study to a folder of sets, to keep them.

    Runs that are there already are left alone, and so are the days that get none. Raw artefacts
    are left out. With --public, runs are those that you measured yourself, and the command lists
    what they are stripped of; `stepcast load` takes them in another home.

    Example: stepcast export demo data/reference

    Example: stepcast export imported my-traces --public
    """
    from warehouse.landing import landed_runs
    from warehouse.public_runs import STRIPPED, is_own, strip
    from warehouse.sets import pack

    landing = home() / "landing"
    runs = [run for run in landed_runs(landing) if run.study == study and run.status == "ok"]
    if not runs:
        raise BadInput(f"no run of study {study!r} has landed in {landing}")
    if public and not (runs := [run for run in runs if is_own(run)]):
        raise BadInput(f"--public: no run of {study!r} was measured by you; leave it out")
    run_ids = [run.run_id for run in runs]
    if public:
        with TemporaryDirectory(dir=home()) as stripped:
            strip(landing, run_ids, Path(stripped), _host_names())
            packed = pack(Path(stripped), folder, run_ids)
        print_text(f"stripped of {'; '.join(STRIPPED)}")
    else:
        packed = pack(landing, folder, run_ids, artefacts=False)
    size_mb = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
    print_text(f"packed {packed} of {len(runs)} runs; {folder} holds {size_mb:.1f} MB")


def _host_names() -> set[str]:
    """Return names and addresses of this host and of the fleet's machines."""
    fleet = find_fleet()
    machines = fleet.machines if fleet else ()
    names = (name for machine in machines for name in (machine.address, machine.host))
    return {name for name in (*names, socket.gethostname()) if name}


def seal(
    study: StudyFile,
    folder: Annotated[
        Path, typer.Argument(help="The folder that gets the file; publish it.")
    ] = REFERENCE / "forecasts",
) -> None:
    """Write a round's forecasts to a file, before any is measured.

    The file has the head of the chain of this home. Once others have it, nobody can change a
    forecast without being found out. `stepcast reproduce` judges what is in it as it was published,
    by runs that began later; so does `stepcast query sealed`.

    Example: stepcast seal studies/reference_grid.yaml data/reference/forecasts
    """
    from studies.study import read_study
    from warehouse.history import known_runs
    from warehouse.warehouse import Warehouse

    of = read_study(study)
    subjects = {
        scenario
        for backend in get_args(records.Backend)
        for curve in of.curves
        if curve.is_judged
        for scenario in curve.scenarios(backend)
    }
    rounds = (run.repeat for run in known_runs(home()) if run.study == of.name)
    round_ = max(rounds, default=1)
    path, count = Warehouse(home()).seal(of.name, round_, subjects, folder, clock.now())
    print_text(f"{count} forecasts of round {round_} of {of.name} are in {path}")


def reproduce(
    folder: Annotated[Path, typer.Argument(help="A folder of sets or of landed runs.")] = REFERENCE,
    study: Annotated[
        list[str] | None,
        typer.Option(help="Only this study, by its name or file; may be given again."),
    ] = None,
) -> None:
    """Rebuild every fit, forecast and error from kept runs, in a fresh home.

    Profiles are loaded, everything is predicted, and only then are the measurements brought in.
    Prints the leaderboard, and the board of all systems where all of a study said something, with
    what each covers; both are ready queries. accuracy.md in the home is the page of all error
    figures, as docs/accuracy.md of all of data/reference.

    The home must be a new one, such as STEPCAST_HOME=.stepcast/accuracy.

    Example: stepcast reproduce data/reference, or stepcast reproduce my-runs --study mine.yaml
    """
    from polars import selectors

    from pipelines import reproduction
    from pipelines.cli.progress import LineProgress
    from pipelines.cli.query import print_board
    from pipelines.cli.warehouse import tell_dagster
    from reports import accuracy_page
    from warehouse.warehouse import Warehouse

    place = home()
    rounds = reproduction.reproduce(folder, place, LineProgress(), study or ())
    tell_dagster(place)
    print_text(f"{len(rounds)} rounds of {len({round_.study.name for round_ in rounds})} studies")
    warehouse = Warehouse(place)
    print_board(warehouse.query("leaderboard"))
    print_text("All systems of a study on what all of them forecast, and what each covers:")
    board = warehouse.query("board")
    print_table(board.with_columns(selectors.float().round(2)))
    sealed = print_sealed(warehouse)
    (place / accuracy_page.FILE).write_text(accuracy_page.page(sealed, board))
    print_text(f"page   {place / accuracy_page.FILE}")


def print_sealed(warehouse: "Warehouse") -> "pl.DataFrame":
    """Print how wrong sealed forecasts were, if any of them have been judged; return that."""
    import polars as pl
    from polars import selectors

    sealed = warehouse.query("sealed")
    if not sealed.is_empty():
        print_text("Forecasts that were published before anything of their study was measured:")
        times = pl.col("sealed_at", "first_measured_at").dt.strftime("%Y-%m-%d %H:%M")
        narrow = sealed.drop("backend", "metric", "median_ape", "max_ape")
        print_table(narrow.with_columns(selectors.float().round(1), times))
    return sealed
