"""What `stepcast run`, `plan` and `report` do, and the table that a round ends with."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import typer

from forecasting.inputs import baseline_in_words, input_runs_by_system, systems_of
from forecasting.results import summary
from forecasting.study_checks import load_study, load_unchecked
from networks.catalogue import source
from pipelines.cli.money import renting
from pipelines.cli.query import history_here
from pipelines.cli.tables import format_duration, print_rows, print_table, print_text, tell
from profilers.clusters import host_id
from profilers.probe import PlannedRun
from reports.wording import headline, interval, number, percent, signed
from studies.messages import count
from studies.plan import Task, tasks
from studies.renting import estimate, price_plan
from studies.rounds import (
    Round,
    changed_settings,
    latest_round,
    open_round,
    shown_host,
    whole_round,
)
from studies.study import Study, read_study
from warehouse.durable_files import write_text
from warehouse.history import PublishedHistory, known_runs
from warehouse.home import HISTORY, PAPERS, REPORT, home
from warehouse.records import BadInput, Run
from warehouse.warehouse import Warehouse


@dataclass(frozen=True)
class RoundPlan:
    """A round that is to be done, why on its backend, and what it will do."""

    round_: Round
    why: str
    tasks: tuple[Task, ...]
    judged: bool

    @property
    def missing(self) -> tuple[PlannedRun, ...]:
        """The runs that it will make."""
        return tuple(run for run in self.round_.missing if self.judged or run.profiles)


def run_round(
    path: Path, backend: str | None, max_usd: float | None, *, yes: bool, judged: bool
) -> None:
    from assets.resources import run_lock
    from pipelines import dagster_history, execution
    from pipelines.cli.progress import LineProgress

    place = home()
    with run_lock(place, tell), dagster_history.instance(place) as instance:
        Warehouse(place).load()  # what landed before a kill, and completed its round
        ahead = _plan_round(path, backend, place, judged=judged)
        _announce(ahead)
        missing = ahead.missing
        types = {group.node_type for need in missing for group in need.nodes}
        with renting(  # the bill comes last, whatever happens
            place,
            max_usd,
            ahead.round_.backend,
            types,
            lambda may: estimate(missing, may, may.cap_usd),
            yes=yes,
        ):
            progress = LineProgress(ahead.tasks)
            warnings = execution.execute(
                instance, path, ahead.round_.backend, progress, judged=judged
            )
            for warning in warnings:
                tell(f"warning: {warning}")
            if judged:
                show_results(ahead.round_, place)
            else:
                number = ahead.round_.repeat
                print_text(
                    f"study {ahead.round_.study.name}, round {number}, is forecast; `stepcast "
                    f"seal {path} FOLDER` publishes that, `stepcast run {path}` "
                    "measures"
                )


def show_plan(path: Path, backend: str | None) -> None:
    """Print what a round would do, how long that takes, and what it costs."""
    ahead = _plan_round(path, backend, home())
    _announce(ahead)
    if costs := price_plan(home(), ahead.round_.backend, ahead.missing):
        tell(costs)
    rows = [(task.name, format_duration(task.expected_s)) for task in ahead.tasks]
    print_table(pl.DataFrame(rows, schema=["what", "about"], orient="row"))


def write_page(path: Path, to: Path | None) -> None:
    """Write the report of a study, or the page of papers of a folder of them; print its name.

    Raises:
        BadInput: it cannot be written, or nothing has run.
    """
    place = home()
    file = to or place / (PAPERS if path.is_dir() else REPORT)
    folder = file.parent
    if not os.access(folder, os.W_OK) and (folder.exists() or folder != place):
        raise BadInput(f"{file} cannot be written; `--to FILE` puts the page elsewhere")
    page = _papers_page(path, place) if path.is_dir() else _study_page(path, place)
    history_here()  # says how old it is
    write_text(file, page)
    typer.echo(file)


def _study_page(path: Path, place: Path) -> str:
    """Return the report of the newest round of a whole study, whoever's it is."""
    from forecasting.evaluation import evaluate
    from reports import report

    study = read_study(path)
    if study.only_profiles:
        raise BadInput(f"{path}: study {study.name} only profiles; nothing of it is judged")
    round_ = _newest_whole_round(path, study, known_runs(place))
    if round_ is None:
        raise BadInput(
            f"nothing of study {study.name} has run in {place} yet; `stepcast run {path}` does"
        )
    if round_.host_id != host_id(round_.backend):
        tell(f"nothing of study {study.name} has run on this host; shown is host {round_.host_id}")
    return report.render(evaluate(round_, PublishedHistory(place)))


def _papers_page(folder: Path, place: Path) -> str:
    """Return the page of papers, of the studies of a folder."""
    from forecasting.findings.papers import evaluate_papers
    from reports import papers

    runs, history = known_runs(place), PublishedHistory(place)
    studies = {path: read_study(path) for path in sorted(folder.glob("*.yaml"))}
    evaluations = [
        evaluate_papers(round_, history)
        for path, study in studies.items()
        if not study.only_profiles
        and (round_ := _newest_whole_round(path, study, runs)) is not None
    ]
    if not evaluations:
        raise BadInput(f"nothing of these studies has run in {place} yet; `stepcast run` does")
    return papers.render(evaluations, history.query("paper_figures", paper=None))


def _newest_whole_round(path: Path, study: Study, runs: Sequence[Run]) -> Round | None:
    """Return the newest round of a whole study, on the backend that ran it last.

    It is of this host, or where that has none, of the last one. None: none ran.
    """
    landed = [run for run in runs if (run.status, run.study) == ("ok", study.name)]
    if not landed:
        return None
    loaded = load_unchecked(path, max(landed, key=lambda run: run.started_at).backend)
    host = shown_host(study, loaded.backend, host_id(loaded.backend), runs)
    latest = latest_round(study, loaded.asking, loaded.backend, host, runs)
    return None if latest is None else whole_round(latest, study, runs)


def _plan_round(path: Path, backend: str | None, place: Path, *, judged: bool = True) -> RoundPlan:
    loaded = load_study(path, backend)
    runs = known_runs(place)
    host = host_id(loaded.backend)
    round_ = open_round(loaded.study, loaded.asking, loaded.backend, host, runs)
    rest = input_runs_by_system(
        systems_of(loaded.study), loaded.study, round_.needs, loaded.backend
    )
    names = [system.name for system in rest]
    ahead = tasks(round_, judged=judged, forecasting=names)
    return RoundPlan(round_, loaded.why, ahead, judged)


def _announce(ahead: RoundPlan) -> None:
    round_ = ahead.round_
    total, missing = len(round_.needs), len(ahead.missing)
    runs = f"{missing} runs" if missing == total else f"{missing} of {total} runs are missing"
    seconds = format_duration(sum(task.expected_s for task in ahead.tasks))
    tell(f"study {round_.study.name}, round {round_.repeat}: {runs}, about {seconds}")
    tell(f"backend {round_.backend}: {ahead.why}")
    for dnn in dict.fromkeys(curve.dnn for curve in round_.study.curves):
        if made_by := source(dnn):
            tell(f"{dnn}: {made_by[0]}")
    for change in changed_settings(round_):
        tell(f"settings: {change}")
    for warning in _loopback_warnings(round_):
        tell(f"warning: {warning}")


def _loopback_warnings(round_: Round) -> Iterator[str]:
    if round_.backend != "loopback":
        return
    yield "loopback shapes no links and enforces no CPU shares; no accuracy is claimed there"
    workers, cores = max(max(curve.workers) for curve in round_.study.curves), os.cpu_count() or 1
    if workers > cores:
        yield f"{workers} workers share {cores} cores, so they slow each other down"


def show_results(round_: Round, place: Path) -> None:
    """Print what a round gave, as `stepcast run` ends with it."""
    if round_.study.only_profiles:
        profiled = f"{len(round_.needs)} profiles of study {round_.study.name}"
        print_text(f"{profiled}, round {round_.repeat}, have landed and are loaded")
        print_text(f"warehouse  {place / HISTORY} (stepcast query history)")
        return
    from forecasting.evaluation import with_pending

    warehouse = Warehouse(place)
    rows = with_pending(round_, warehouse.query("judged"), warehouse)
    print_results(rows, round_.study.metric.in_words, baseline_in_words(round_.study))
    print_text(f"backend {round_.backend}, study {round_.study.name}, round {round_.repeat}")
    print_text(f"report     {place / REPORT}")
    print_text(f'warehouse  {place / HISTORY} (stepcast sql "SELECT * FROM report.accuracy")')


def print_results(rows: pl.DataFrame, metric: str, baseline: str) -> None:
    """Print a round's scenarios, predicted beside measured, and how wrong that was on average.

    Intervals and the baseline have columns where there are any.

    Args:
        rows: of `forecasting.evaluation.with_pending`.
        metric: says in words what was predicted.
        baseline: what stands beside it.
    """
    has_interval, has_baseline = (not rows[name].is_null().all() for name in ("low", "linear"))
    beside = f"{baseline.split()[0]}'s error"
    shown = [
        {
            "scenario": row["label"],
            "predicted": number(row["predicted"]),
            **({"interval": interval(row["low"], row["high"])} if has_interval else {}),
            "measured": number(row["measured"]),
            "error": signed(row["error_percent"]),
            "spread*": percent(row["spread_percent"]),
            **({beside: signed(row["linear_error_percent"])} if has_baseline else {}),
            "split": _judged(row),
        }
        for row in rows.to_dicts()
    ]
    print_text(f"{count(rows.height, 'scenario')} forecast from profiles, and only then measured.")
    print_rows(shown, shown[0].keys() - {"scenario", "split"})
    print_text(f"Figures are {metric}. * within-run: between windows.")
    print_text(headline(summary(rows), baseline))


def _judged(row: Mapping[str, Any]) -> str:
    """Return how far off a judged scenario was; of others, which round's forecast is shown."""
    if row["split"] is not None:
        return str(row["split"]).replace("_", " ")
    earlier = row["forecast_round"]
    return "" if earlier is None else f"forecast of round {earlier}"
