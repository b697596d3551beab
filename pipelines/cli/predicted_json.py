"""What `stepcast predict --json` prints: forecasts with their past errors, and refusals."""

import json
from typing import Any

import typer

from forecasting.asked.answer import Answer, Forecast, Refused
from pipelines.cli import epochs, nearby
from pipelines.cli.nearby import label
from pipelines.cli.own import Own


def print_json(answer: Answer, own: Own | None = None, dataset_samples: int | None = None) -> None:
    """Print an answer as one JSON object; of a model of the user's own, with what it is."""
    typer.echo(
        json.dumps(
            {
                **({} if own is None else {"model": own.as_json()}),
                "backend": answer.place.backend,
                "host_id": answer.place.host_id,
                "this_host": answer.place.is_here,
                "forecasts": [_forecast(one, dataset_samples) for one in answer.forecasts],
                "refused": [refused(one) for one in answer.refused],
                "written": answer.written,
            },
            ensure_ascii=False,
        )
    )


def _forecast(one: Forecast, dataset_samples: int | None) -> dict[str, Any]:
    oldest, newest = one.fit.runs[-1], one.fit.runs[0]
    judged = one.past
    epoch = None if dataset_samples is None else epochs.epoch_s(one, dataset_samples)
    return {
        **_whose(one),
        "model_version": one.system.version,
        "metric": one.metric.name,
        "unit": one.metric.unit,
        "value": one.value,
        "low": one.low,
        "high": one.high,
        "unknown": one.unknown,
        "answered_by": one.answered_by or one.system.name,
        "epoch_s": epoch,
        "usd_per_hour": one.cost and one.cost.usd_per_hour,
        "usd_per_million_samples": one.usd_per_million_samples,
        "price_snapshot": one.cost and one.cost.snapshot,
        "fit_id": one.fit.fit_id,
        "fitted_at": one.fit.fitted_at.isoformat(),
        "runs": len(one.fit.runs),
        "hosts": sorted({run.host_id for run in one.fit.runs}),
        "oldest_run_at": oldest.started_at.isoformat(),
        "newest_run_at": newest.started_at.isoformat(),
        "split": one.split,
        "past_mape_percent": judged and judged.mape,
        "past_n": judged.n if judged else 0,
        "noise_floor_percent": judged and judged.noise_floor,
        "noise_n": judged.noise_n if judged else 0,
        **nearby.as_json(one),
        "changed_since": [
            {
                "node_type": change.node_type,
                "since": change.since.isoformat(),
                "metric": change.metric,
                "percent_worse": change.percent,
            }
            for change in one.changed
        ],
    }


def refused(one: Refused) -> dict[str, Any]:
    """Return a refusal: of what, by whom, why, and what it lacks."""
    return {
        **_whose(one),
        "reason": one.reason,
        "foreign": one.foreign,
        "lacking": [
            {
                "probe": needed.probe,
                "of": needed.of,
                "minutes": needed.minutes,
                "of_train": needed.of_train,
            }
            for needed in one.lacking
        ],
    }


def _whose(one: Forecast | Refused) -> dict[str, str]:
    return {
        "scenario_id": one.scenario.scenario_id,
        "scenario": label(one),
        "system": one.system.name,
    }
