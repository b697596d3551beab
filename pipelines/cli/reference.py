"""`stepcast export` and `reproduce`: measurements kept apart, and everything anew from them."""

import json
from pathlib import Path
from typing import Annotated

import typer

from assets.home import CHECKOUT, home

REFERENCE = CHECKOUT / "data" / "reference"


def export(
    study: Annotated[str, typer.Argument(help="Name of a study.")],
    folder: Annotated[Path, typer.Argument(help="Where its runs are copied to.")] = REFERENCE,
) -> None:
    """Copy the landed runs of a study, without raw artefacts, to keep them.

    Runs that are there already are left alone.

    Example: stepcast export demo data/reference
    """
    from warehouse.copying import copy_runs
    from warehouse.landing import landed_runs
    from warehouse.records import BadInput

    landing = home() / "landing"
    ours = [run for run in landed_runs(landing) if run.study == study and run.status == "ok"]
    if not ours:
        raise BadInput(f"no run of study {study!r} has landed in {landing}")
    copied = copy_runs(landing, folder, [run.run_id for run in ours], artefacts=False)
    size_mb = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
    typer.echo(f"copied {copied} of {len(ours)} runs; {folder} holds {size_mb:.1f} MB")


def reproduce(
    folder: Annotated[Path, typer.Argument(help="A folder of landed runs.")] = REFERENCE,
) -> None:
    """Rebuild every fit, prediction and accuracy figure from landed runs, in a fresh home.

    Profiles are loaded, everything is predicted, and only then are the measurements brought in.
    Prints the leaderboard and writes it to leaderboard.json in the home.

    The home must be a new one, such as STEPCAST_HOME=.stepcast/accuracy.

    Example: stepcast reproduce data/reference
    """
    from pipelines import reproduction
    from pipelines.cli.ask import LEADERBOARD
    from pipelines.cli.progress import shown
    from pipelines.cli.tables import print_table
    from warehouse.warehouse import Warehouse

    place = home()
    with shown([]) as progress:
        rounds = reproduction.reproduce(folder, place, progress)
    board = Warehouse(place).leaderboard().select(LEADERBOARD)
    (place / "leaderboard.json").write_text(json.dumps(board.to_dicts(), indent=1) + "\n")
    typer.echo(f"{len(rounds)} rounds of {len({one.study.name for one in rounds})} studies")
    print_table(board)
    typer.echo(f"leaderboard  {place / 'leaderboard.json'}")
