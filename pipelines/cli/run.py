"""`stepcast run`, `plan` and `report`; what they do, which takes long to import: `rounds`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from pipelines.cli.errors import interruptible
from pipelines.cli.money import MaxUsd, Yes
from profilers.clusters import BackendChoice
from warehouse.home import CHECKOUT

StudyFile = Annotated[Path, typer.Argument(help="A study file.")]
_Backend = Annotated[
    BackendChoice | None, typer.Option(help="Where its nodes are; overrules what the study says.")
]
_Until = Annotated[
    Literal["forecast"] | None,
    typer.Option(help="End before test scenarios are measured: profile, and forecast."),
]
DEMO = Path("studies/demo.yaml")


def run(
    study: StudyFile = DEMO,
    backend: _Backend = None,
    until: _Until = None,
    max_usd: MaxUsd = None,
    yes: Yes = False,
) -> None:
    """Profile one worker, predict many, measure them, show the error.

    Runs what the present round of the study lacks, so the same command resumes an interrupted
    run. Once a round is complete, the next call measures everything anew.

    Example: stepcast run studies/demo.yaml

    With --until forecast, test scenarios are forecast and not measured, so that the forecasts can
    be published first (`stepcast seal`). The same command without it goes on.

    Where machines are rented (--backend ec2), --max-usd says what all of it may cost, whatever
    happens; the estimate is shown and asked about before.

    Example: stepcast run mine.yaml --backend ec2 --max-usd 5
    """
    from forecasting.study_checks import load_study
    from pipelines.cli.rounds import run_round
    from studies.renting import check_capped

    path, is_judged = _found(study), until is None
    check_capped(load_study(path, backend).backend, max_usd)
    words = [
        *(["--backend", backend] if backend else []),
        *([] if is_judged else ["--until forecast"]),
        *([] if max_usd is None else [f"--max-usd {max_usd:g}"]),
    ]
    again = " ".join(["stepcast run", str(path), *words])
    with interruptible(
        f"stopped, and everything torn down; `{again}` resumes with what is missing"
    ):
        run_round(path, backend, max_usd, yes=yes, judged=is_judged)


def plan(study: StudyFile = DEMO, backend: _Backend = None) -> None:
    """Show what `stepcast run` would do, and how long it takes.

    Example: stepcast plan studies/demo.yaml
    """
    from pipelines.cli.rounds import show_plan

    show_plan(_found(study), backend)


def report(
    study: Annotated[
        Path, typer.Argument(help="A study file, or a folder of them: the four papers' figures.")
    ] = DEMO,
    to: Annotated[
        Path | None, typer.Option(help="The file that is written; one of the home if none.")
    ] = None,
) -> None:
    """Write the HTML report of a study again.

    It shows the round that ran last, on whichever backend; where later rounds repeat a part of the
    study (`again`), the first, and they are in its noise floor. Where nothing of the study has run
    on this host, it is of the host that ran it last: of kept runs that were loaded, or forecast
    anew by `reproduce`.

    Of a folder of study files: the figures and tables of the four papers, beside what they print,
    with a group for each paper and study, the round that ran last.

    Example: stepcast report studies/demo.yaml

    Example: stepcast report studies --to papers.html
    """
    from pipelines.cli.rounds import write_page

    write_page(_found(study), to)


def _found(study: Path) -> Path:
    """Return the demo of this checkout where the default is not in the working directory."""
    return CHECKOUT / study if study == DEMO and not study.exists() else study
