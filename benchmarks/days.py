"""How wrong are forecasts across days, and with one measured step of the later day?

`python -m benchmarks.days 2026-11-23` builds a history of all in data/reference that was measured
before that day (UTC), asks for everything that was measured on it, and corrects the forecasts by
one scenario of that day. It is after the fact: the correction was chosen with these runs.
"""

import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean

import polars as pl

from forecasting.asked.answer import Forecast, predict_asked
from forecasting.asked.steps import seconds, shifted, tells
from forecasting.chosen import named
from studies.curve import Curve
from studies.study import read_study
from warehouse.home import CHECKOUT
from warehouse.kept import bring, kept_runs, kept_tables
from warehouse.records import Run, Scenario
from warehouse.warehouse import Warehouse

REFERENCE = CHECKOUT / "data" / "reference"
SYSTEMS = ("srift", "ideal_scaling")


@dataclass(frozen=True)
class Pair:
    """A forecast that is judged, and the measured step of the same day that corrects it.

    Attributes:
        system: that forecast.
        nodes: of the measured step.
        error: of the forecast, percent of what was measured.
        corrected: the same of the corrected forecast.
        by_ratio: the same if the whole step were longer by the same factor.
        inside: whether the interval had what was measured; None: there is none.
        corrected_inside: whether the corrected interval had.
    """

    system: str
    nodes: int
    error: float
    corrected: float
    by_ratio: float
    inside: bool | None
    corrected_inside: bool | None


def pairs(forecasts: Sequence[Forecast], measured_s: Mapping[Scenario, float]) -> Iterator[Pair]:
    """Yield all pairs: each measured step corrects the forecasts that it tells of, but its own."""
    of: dict[str, list[Forecast]] = defaultdict(list)
    for one in forecasts:
        if one.value and one.scenario in measured_s:
            of[one.system.name].append(one)
    for ours in of.values():
        for anchor in ours:
            for one in ours:
                if one is not anchor and tells(anchor.scenario, one.scenario):
                    yield _pair(anchor, one, measured_s)


def _pair(anchor: Forecast, one: Forecast, measured_s: Mapping[Scenario, float]) -> Pair:
    metric = one.metric.name
    assert anchor.value and one.value
    anchor_s = seconds(anchor.scenario, metric, anchor.value)
    forecast_s = seconds(one.scenario, metric, one.value)
    took_s, told_s = measured_s[one.scenario], measured_s[anchor.scenario]
    corrected_s = shifted(forecast_s, anchor_s, told_s)
    inside = corrected_inside = None
    if one.low and one.high:
        low, high = sorted(seconds(one.scenario, metric, end) for end in (one.low, one.high))
        inside = low <= took_s <= high
        factor = corrected_s / forecast_s
        corrected_inside = low * factor <= took_s <= high * factor
    return Pair(
        one.system.name,
        anchor.scenario.strategy.workers,
        _percent(forecast_s, took_s),
        _percent(corrected_s, took_s),
        _percent(forecast_s * told_s / anchor_s, took_s),
        inside,
        corrected_inside,
    )


def _percent(forecast_s: float, took_s: float) -> float:
    return 100 * (forecast_s / took_s - 1)


def summary(found: Sequence[Pair]) -> pl.DataFrame:
    """Return means over pairs, by system: all, and those whose measured step was of one node."""
    rows = []
    for system in dict.fromkeys(one.system for one in found):
        for what, few in (("any", found), ("one node", [one for one in found if one.nodes == 1])):
            ours = [one for one in few if one.system == system]
            with_interval = [one for one in ours if one.inside is not None]
            if ours:
                rows.append(
                    {
                        "system": system,
                        "measured": what,
                        "n": len(ours),
                        "without": fmean(abs(one.error) for one in ours),
                        "corrected": fmean(abs(one.corrected) for one in ours),
                        "by_ratio": fmean(abs(one.by_ratio) for one in ours),
                        "inside": _part([one.inside for one in with_interval]),
                        "corrected_inside": _part([one.corrected_inside for one in with_interval]),
                    }
                )
    return pl.DataFrame(rows)


def _part(inside: Sequence[bool | None]) -> float | None:
    return fmean(map(bool, inside)) if inside else None


def across(day: datetime, systems: Sequence[str], folder: Path) -> list[Pair]:
    """Return the pairs of a day, forecast from all that was measured before it.

    Args:
        day: its first second, UTC.
        systems: that are asked.
        folder: an empty one, for the history.
    """
    runs = [run for run in kept_runs(REFERENCE) if run.status == "ok"]
    later = [
        run
        for run in runs
        if _measures_whole(run) and day <= run.started_at < day + timedelta(days=1)
    ]
    bring(REFERENCE, folder / "landing", [run.run_id for run in runs if run.started_at < day])
    warehouse = Warehouse(folder)
    warehouse.load()
    curves = list(_curves({run.scenario_id for run in later}))
    answer = predict_asked(warehouse, curves, named(systems), dry_run=True)
    ids = {
        scenario.scenario_id: scenario for one in curves for scenario in one.scenarios("emulated")
    }
    metrics = {one.scenario: one.metric.name for one in answer.forecasts}
    here = [run for run in later if run.host_id == answer.place.host_id]
    return list(pairs(answer.forecasts, _measured_s(here, ids, metrics)))


def _measures_whole(run: Run) -> bool:
    """Tell whether a run measured a scenario: one that judges, or an anchor."""
    return run.purpose == "measurement" or run.study.endswith(".anchors")


def _curves(scenario_ids: set[str | None]) -> Iterator[Curve]:
    """Yield a curve for each of some scenarios that a committed study has."""
    found: dict[str, Curve] = {}
    for file in sorted((CHECKOUT / "studies").glob("*.yaml")):
        study = read_study(file)
        for curve in (*study.curves, *(study.anchoring.curves if study.anchoring else ())):
            for scenario in curve.scenarios("emulated"):
                if scenario.scenario_id in scenario_ids:
                    workers = (scenario.strategy.workers,)
                    one = curve.model_copy(update={"workers": workers, "is_judged": True})
                    found.setdefault(scenario.scenario_id, one)
    yield from found.values()


def _measured_s(
    runs: Sequence[Run], scenarios: Mapping[str, Scenario], metrics: Mapping[Scenario, str]
) -> dict[Scenario, float]:
    """Return the seconds of steps, means over runs."""
    values: dict[Scenario, list[float]] = defaultdict(list)
    for run in runs:
        scenario = scenarios.get(run.scenario_id or "")
        if scenario is None or scenario not in metrics:
            continue
        sample = pl.DataFrame(kept_tables(REFERENCE, run.run_id)["sample"])
        ours = sample.filter(metric=metrics[scenario])["value"].drop_nulls().to_list()
        if ours:
            values[scenario].append(seconds(scenario, metrics[scenario], fmean(ours)))
    return {scenario: fmean(several) for scenario, several in values.items()}


def main(words: Sequence[str]) -> None:
    """Print the table of a day; systems may follow it."""
    day = datetime.fromisoformat(words[0]).replace(tzinfo=UTC)
    with tempfile.TemporaryDirectory() as folder:
        found = across(day, words[1:] or SYSTEMS, Path(folder))
    with pl.Config(tbl_cols=20, tbl_width_chars=160, float_precision=3):
        print(summary(found))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
