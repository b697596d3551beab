"""How throughput leaves the initial synchronisation (Figs. 9, 16 and 24 of the ICPE'20 paper)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from forecasting.simulations import FittedModels
from models.async_sgd.convergence import measured, simulated
from models.async_sgd.predictor import AsyncSGD
from models.async_sgd.synthetic import active_links, synthesise
from profilers.probe import Need
from studies import landed
from studies.rounds import Round

WINDOW_STEPS = 5
"""Steps of each worker that one point averages."""
MOST_STEPS = 100
PAPER_WORKERS = 3
"""Of Fig. 16."""
SEEDS = 5
SHOWN_STEPS = 3
"""Steps of each worker whose use of the links is shown."""


@dataclass(frozen=True)
class Drift:
    """Steps per second of all workers by steps since the start, measured and simulated.

    Both have step and steps_per_s; simulated is the mean of `SEEDS`.
    """

    dnn: str
    label: str
    measured: pl.DataFrame
    simulated: pl.DataFrame


@dataclass(frozen=True)
class LinkUse:
    """When each connection had data under way in simulated steps, `first` ones or later ones.

    `rows` have resource, worker, server, start_s and end_s.
    """

    label: str
    first: bool
    rows: pl.DataFrame


@dataclass(frozen=True)
class Convergence:
    """A run of each network, and how two workers of the first profile use their links."""

    drifts: tuple[Drift, ...]
    links: tuple[LinkUse, ...]


def convergence(round_: Round, landing: Path, models: FittedModels) -> Convergence | None:
    """Return measured and simulated throughput by steps, of three workers of each network.

    None if nothing that was profiled was measured with several workers.
    """
    drifts = []
    for need in _shown(round_).values():
        model = models.of_curve(round_.study.curve_of(need.scenario, round_.backend))
        if model is not None and (found := _drift(need, round_, landing, model)):
            drifts.append(found)
    return Convergence(tuple(drifts), tuple(_links(models))) if drifts else None


def _shown(round_: Round) -> dict[str, Need]:
    """Return the measured run of each network with most like the paper's workers, two or more."""
    found: dict[str, Need] = {}
    for need in round_.runs_of("tf_throughput"):
        best = found.get(need.scenario.workload.dnn)
        if _workers(need) > 1 and (best is None or _distance(need) < _distance(best)):
            found[need.scenario.workload.dnn] = need
    return found


def _distance(need: Need) -> int:
    return abs(_workers(need) - PAPER_WORKERS)


def _workers(need: Need) -> int:
    return need.scenario.strategy.workers


def _drift(need: Need, round_: Round, landing: Path, model: AsyncSGD) -> Drift | None:
    run = round_.run_of(need)
    assert run is not None
    tables = landed.tables(landing, run)
    seen = measured(tables["step"], WINDOW_STEPS).head(MOST_STEPS // WINDOW_STEPS)
    if seen.is_empty():
        return None
    steps = WINDOW_STEPS * (seen.height + 1)
    traces = [synthesise(model, need.scenario, steps=steps, seed=seed) for seed in range(SEEDS)]
    made = pl.concat(simulated(trace, WINDOW_STEPS).head(seen.height) for trace in traces)
    made = made.group_by("step").agg(pl.col("steps_per_s").mean()).sort("step")
    return Drift(need.scenario.workload.dnn, need.scenario.label, seen, made)


def _links(models: FittedModels) -> Iterator[LinkUse]:
    """Yield the use of the links by two workers of the round's first profile, early and late."""
    need, model = next(iter(models.items()))
    scenario = need.scenario.with_workers(2)
    trace = synthesise(model, scenario, steps=MOST_STEPS, record=True)
    use = active_links(trace)
    for step in (0, MOST_STEPS // 2):
        start_s = float(trace.step_starts_s[:, step].min())
        end_s = float(trace.step_ends_s[:, step + SHOWN_STEPS - 1].max())
        shown = use.filter(use["end_s"] > start_s, use["start_s"] < end_s)
        yield LinkUse(scenario.label, step == 0, shown)
