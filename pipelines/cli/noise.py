"""`stepcast noise`: how much equal runs of a study differ."""

from statistics import fmean
from typing import Annotated

import typer
from polars import selectors

from pipelines.cli.ask import Form
from pipelines.cli.run import Study
from pipelines.cli.tables import print_frame, print_text
from warehouse.home import home
from warehouse.records import BadInput


def noise(
    study: Study,
    rounds: Annotated[
        int, typer.Option(min=1, help="Rounds in the mean that judges forecasts.")
    ] = 2,
    form: Form = "table",
) -> None:
    """Show how far means of a few rounds of a study are from the truth, in percent.

    Each round that landed counts once. The floor of a mean of two is half of what two rounds differ
    by; of others it follows, if rounds differ by chance.

    Example: stepcast noise studies/grid_pilot.yaml
    """
    from forecasting.chosen import asking_of
    from forecasting.findings.noise import floors, visits_of
    from reports.wording import percent
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
    rows = floors(visits, rounds)
    if form != "table":
        print_frame(rows, form)
        return
    print_frame(
        rows.with_columns(selectors.float().round(2)),
        form,
        keys=("visits", "pairs", "floor_percent"),
    )
    floor = percent(fmean(rows["floor_percent"]) if rows.height else None)
    print_text(f"all, means of {rounds}: {floor} (n = {rows.height})")
