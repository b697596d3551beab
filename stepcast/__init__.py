"""Stepcast in Python: what commands ask, with the same options, answered with frames.

STEPCAST_HOME names the home; unset, it is `.stepcast` in the working folder. What commands refuse
with one line and exit code 2 raises `BadInput` with that line; other failures, `StepcastError`.
"""

from typing import TYPE_CHECKING, TypeVar

from warehouse.records import BadInput, StepcastError

if TYPE_CHECKING:
    import polars as pl

    from forecasting.options import TrainingOptions

    Options = TypeVar("Options", bound=TrainingOptions)

__all__ = ["BadInput", "StepcastError", "forecast", "load", "recommend", "sql"]


def forecast(**options: object) -> "pl.DataFrame":
    """Forecast training that nobody has measured, as `stepcast predict` does.

    Args:
        options: fields of `forecasting.options.ForecastOptions`; lists ask about a grid.

    Returns:
        A row for each scenario and system that forecasts it: columns of
        `forecasting.forecast_rows.SCHEMA`. A scenario that none forecasts has one row, `refusal`.

    Raises:
        BadInput: an option is wrong, or nothing has been measured.
    """
    from forecasting.forecast_rows import forecast_frame
    from forecasting.options import ForecastOptions
    from pipelines.cli import questions

    return forecast_frame(questions.forecast(_read(ForecastOptions, options)).answer)


def recommend(**options: object) -> "pl.DataFrame":
    """Choose nodes for a job, as `stepcast recommend` does, and write that to the ledger.

    Args:
        options: fields of `forecasting.options.RentalOptions`.

    Returns:
        A row for each way to run the job, the cheapest or fastest first, as
        `stepcast recommend --json` has candidates; `is_choice` marks the one that is recommended.

    Raises:
        BadInput: an option is wrong, or nothing can be told of the job.
    """
    import polars as pl

    from forecasting.options import RentalOptions
    from pipelines.cli import questions
    from pipelines.cli.recommendation import CandidateRow

    answer, _ = questions.recommend(_read(RentalOptions, options))
    rows = [
        {
            "is_choice": candidate is answer.decision.choice,
            **CandidateRow.of(answer, candidate).model_dump(),
        }
        for candidate in answer.candidates
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def load(place: str | None = None) -> "pl.DataFrame":
    """Load landed runs into the history, as `stepcast load` does.

    Args:
        place: a folder of runs or sets that are copied first; `public`: what others measured.

    Returns:
        run_id, study, probe and started_at of the runs that were loaded now.

    Raises:
        BadInput: there is no such place, or a run could not be loaded.
    """
    import polars as pl

    from pipelines.cli.warehouse import load_runs
    from warehouse.home import home
    from warehouse.sql import read_only

    loaded = load_runs(place, lambda _: None).loaded
    runs = read_only(home(), "SELECT run_id, study, probe, started_at FROM raw.run")
    return runs.filter(pl.col("run_id").is_in(list(loaded))).sort("started_at", "run_id")


def sql(statement: str) -> "pl.DataFrame":
    """Ask the history in SQL, read-only, as `stepcast sql` does.

    Raises:
        BadInput: the SQL is wrong or would change something, or the answer is too large.
    """
    from warehouse.home import home
    from warehouse.sql import read_only

    return read_only(home(), statement)


def _read(kind: "type[Options]", options: dict[str, object]) -> "Options":
    """Return options as a record, lists as the tuples that it has.

    Raises:
        BadInput: naming the option.
    """
    from profilers.record_file import validated

    return validated(kind, options)
