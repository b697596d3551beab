"""`stepcast run`, `plan` and `report`."""

from pathlib import Path
from typing import Annotated

import typer

from profilers.clusters import BackendChoice

Study = Annotated[Path, typer.Argument(help="A study file.")]
Backend = Annotated[
    BackendChoice | None, typer.Option(help="Where to run; overrules what the study says.")
]
Minutes = Annotated[float, typer.Option(min=0, help="Begin new rounds for so long.")]
DEMO = Path("studies/demo.yaml")


def run(study: Study = DEMO, backend: Backend = None, minutes: Minutes = 0) -> None:
    """Profile one worker, predict many, measure them, show the error.

    Runs what the present round of the study lacks, so the same command resumes an interrupted
    run. Once a round is complete, the next call measures everything anew; so do further rounds,
    on new clusters, that --minutes asks for.

    Example: stepcast run studies/demo.yaml

    Example: stepcast run studies/variance.yaml --minutes 30
    """
    from pipelines.cli import main_job

    main_job.run_study(_found(study), backend, minutes)


def plan(study: Study = DEMO, backend: Backend = None) -> None:
    """Show what `stepcast run` would do now, and about how long that takes.

    Example: stepcast plan studies/demo.yaml
    """
    from pipelines.cli import main_job

    main_job.show_plan(_found(study), backend)


def report(study: Study = DEMO, backend: Backend = None) -> None:
    """Write the HTML report of a study again, and print where it is.

    It shows the round that ran last; where later rounds repeat a part of the study (`again`), the
    first, and they are in its noise floor.

    Example: stepcast report studies/demo.yaml
    """
    from pipelines.cli import main_job

    main_job.write_report(_found(study), backend)


def _found(study: Path) -> Path:
    """Return the demo of this checkout where the default is not in the working directory."""
    from warehouse.home import CHECKOUT

    return CHECKOUT / study if study == DEMO and not study.exists() else study
