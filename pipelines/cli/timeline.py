"""`stepcast timeline`: simulated steps as a trace, as a picture, and in the warehouse."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.ask import history_here
from pipelines.cli.pictures import check_picture, write, write_picture
from pipelines.cli.run import Study
from pipelines.cli.tables import print_table, print_text
from warehouse.records import BadInput

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

    from forecasting.timelines import Subject
    from models.async_sgd.timeline import Timeline
    from warehouse.warehouse import Warehouse


def timeline(
    study: Study,
    scenario: Annotated[str, typer.Option(help="A label as tables print it, or a scenario_id.")],
    steps: Annotated[int, typer.Option(min=1, help="Steps of each worker.")] = 5,
    chrome: Annotated[
        Path | None, typer.Option(help="Write a Chrome trace, for ui.perfetto.dev.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw predicted above measured, to a .png or .svg.")
    ] = None,
    save: Annotated[
        bool, typer.Option("--save", help="Keep the steps in pred.synthetic_interval.")
    ] = False,
) -> None:
    """Show what workers are predicted to do when: a scenario's simulated steps, after warm-up.

    Fits the newest profile of the scenario, as predictions do, and simulates the first seed.
    The picture has the profile's traced steps below where the scenario is the profiled one, else
    when each worker's measured steps started and ended.

    Example: stepcast timeline studies/demo.yaml --scenario "small_cnn 24px b8, 200 Mb/s, W=2"
    --picture w2.png --chrome w2.json
    """
    from forecasting import timelines
    from forecasting.fitting import fit_curve
    from models.async_sgd.chrome_trace import chrome_trace
    from models.async_sgd.predictor import AsyncSGD
    from models.async_sgd.systems import ASYNC_SGD
    from studies.study import read_study
    from warehouse.home import home
    from warehouse.landing import landed_runs
    from warehouse.warehouse import Warehouse

    check_picture(picture)
    subject = timelines.find(read_study(study), scenario, landed_runs(home() / "landing"))
    warehouse = Warehouse(home()) if save else history_here()
    _check_loaded(subject, warehouse)
    fit = fit_curve(ASYNC_SGD, subject.round_, subject.curve, warehouse)
    model = fit.fitted
    assert isinstance(model, AsyncSGD)
    shown, throughput = timelines.simulated(model, subject.scenario, steps)
    label, fit_id = subject.scenario.label, fit.record.fit_id
    print_text(f"{label}: {throughput:.2f} steps/s in this simulation")
    print_table(_in_ms(shown))
    if chrome is not None:
        about: dict[str, str | int | float] = {"scenario": label, "fit_id": fit_id, "seed": 0}
        write(chrome, chrome_trace(shown, about).encode())

    def drawn() -> "Figure":
        from reports import timeline_plot

        found = timelines.measured(model, subject, warehouse.landing, steps)
        lower = [timeline_plot.measured(*found)] if found else []
        halves = [timeline_plot.predicted(shown), *lower]
        return timeline_plot.timelines(halves, label)

    write_picture(picture, drawn)
    if save:
        warehouse.record_fit(fit.record)
        warehouse.record_intervals(fit_id, subject.scenario.scenario_id, shown.intervals)
        print_text(f"{shown.intervals.height} rows of fit {fit_id} in pred.synthetic_interval")


def _check_loaded(subject: "Subject", warehouse: "Warehouse") -> None:
    """Raise BadInput if the profile is not in the warehouse yet."""
    assert subject.profile is not None
    run_id = subject.profile.run_id
    if warehouse.visible("run", [run_id]).is_empty():
        raise BadInput(f"profile {run_id} has landed, but is not loaded; `stepcast load` does that")


def _in_ms(shown: "Timeline") -> "pl.DataFrame":
    """Return each worker's steps: when they start and how long they take, in milliseconds."""
    return shown.steps.select(
        *("worker", "step"),
        start_ms=shown.steps["start_us"] / 1e3,
        took_ms=(shown.steps["end_us"] - shown.steps["start_us"]) / 1e3,
    )
