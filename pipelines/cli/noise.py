"""`stepcast noise`: how much equal runs of a study differ, and how much of it anchors tell."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from polars import selectors

from pipelines.cli.ask import Form
from pipelines.cli.run import Study
from pipelines.cli.tables import print_frame
from warehouse.home import home
from warehouse.records import Backend, BadInput

if TYPE_CHECKING:
    from forecasting.findings.noise import Floor

_SHOWN = (
    "scenario",
    "visits",
    "pairs",
    "floor_percent",
    "anchored_visits",
    "before_percent",
    "anchored_percent",
)


def noise(
    study: Study,
    anchors: Annotated[
        Path | None,
        typer.Option(help="A study file with anchors: divides steps by theirs of the same round."),
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=1, help="Rounds in the mean that judges forecasts.")
    ] = 2,
    form: Form = "table",
) -> None:
    """Show how far means of a few rounds of a study are from the truth, in percent.

    Each round that landed counts once. The floor of a mean of two is half of what two rounds differ
    by; of others it follows, if rounds differ by chance. With --anchors, what those scenarios took
    in the same round tells how slow the host was, and what everything took is divided by that.

    Example: stepcast noise studies/grid_pilot.yaml --anchors studies/reference_grid.yaml
    """
    from forecasting.chosen import asking_of
    from forecasting.findings.noise import floors, over_all, visits_of
    from studies.rounds import rounds_of
    from studies.study import read_study
    from warehouse.landing import landed_runs

    of, landing = read_study(study), home() / "landing"
    runs = [run for run in landed_runs(landing) if (run.study, run.status) == (of.name, "ok")]
    if not runs:
        raise BadInput(
            f"nothing of study {of.name} has landed in {home()}; `stepcast run {study}` does"
        )
    newest = max(runs, key=lambda run: run.started_at)
    where = newest.backend, newest.host_id
    found = rounds_of(of, asking_of(of), runs)
    visits = visits_of((one for one in found if (one.backend, one.host_id) == where), landing)
    rows = floors(visits, _labels(anchors, newest.backend) if anchors else frozenset(), rounds)
    if form != "table":
        print_frame(rows, form)
        return
    shown = rows.select(_SHOWN).with_columns(selectors.float().round(2))
    print_frame(shown, form, keys=("visits", "pairs", "floor_percent"))
    for what, part in (("all", rows), ("no anchors", rows.filter(~rows["is_anchor"]))):
        typer.echo(_in_words(f"{what}, means of {rounds}", over_all(part)))


def _labels(file: Path, backend: Backend) -> frozenset[str]:
    """Return what the anchors of a study are called.

    Raises:
        BadInput: it has none.
    """
    from studies.study import read_study

    of = read_study(file).anchoring
    if of is None:
        raise BadInput(f"--anchors {file}: the study has no anchors; name one that has")
    return frozenset(one.label for curve in of.curves for one in curve.scenarios(backend))


def _in_words(what: str, floor: "Floor") -> str:
    from reports.wording import percent, share

    told = f"{what}: {percent(floor.floor)} (n = {floor.n})"
    if not floor.anchored_n:
        return told
    return (
        f"{told}; divided by anchors {percent(floor.after)} instead of {percent(floor.before)} "
        f"(n = {floor.anchored_n}), which takes away {share(floor.taken_away)}"
    )
