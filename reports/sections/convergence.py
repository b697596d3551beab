"""Throughput out of the initial synchronisation, and links in use (Figs. 9, 16 and 24)."""

from pathlib import Path

import polars as pl

from forecasting.simulations import FittedModels
from models.async_sgd.convergence import measured, simulated
from models.async_sgd.predictor import AsyncSGD
from models.async_sgd.synthetic import active_links, synthesise
from reports import study_plots
from reports.figure_html import captioned, grid
from studies import landed
from studies.parts import Part
from studies.rounds import Round

WINDOW_STEPS = 5
"""Steps of each worker that one point of the figure averages."""
MOST_STEPS = 100
PAPER_WORKERS = 3
"""Of Fig. 16."""
SEEDS = 5
SHOWN_STEPS = 3
"""Steps of each worker whose use of the links is shown."""


def section(round_: Round, landing: Path, models: FittedModels) -> str:
    """Return measured and simulated throughput by steps, of three workers of each network.

    Nothing if nothing was measured with several workers.
    """
    figures = []
    for dnn, part in _shown(round_).items():
        model = models.of_job(part.curve)
        if model is not None and (found := _figure(part, round_, landing, model)):
            figures.append((dnn, found))
    if not figures:
        return ""
    return (
        "<h2>Out of the initial synchronisation</h2>"
        "<p>All workers start at a barrier, in the simulation too, and drift apart. Steps per "
        f"second over {WINDOW_STEPS} steps of each worker at a time; neither predictions nor "
        f"measurements count the first ones. Simulated: mean of {SEEDS} seeds.</p>{grid(figures)}"
        f"<h2>Links in use</h2><p>Simulated: the first steps, and later ones.</p>"
        f"{grid(_links(models))}"
    )


def _shown(round_: Round) -> dict[str, Part]:
    """Return the measured run of each network with most like the paper's workers, two or more."""
    found: dict[str, Part] = {}
    for part in round_.runs_of("tf_throughput"):
        best = found.get(part.curve.dnn)
        if _workers(part) > 1 and (best is None or _distance(part) < _distance(best)):
            found[part.curve.dnn] = part
    return found


def _distance(part: Part) -> int:
    return abs(_workers(part) - PAPER_WORKERS)


def _workers(part: Part) -> int:
    return part.scenario.strategy.workers if part.scenario else 0


def _figure(part: Part, round_: Round, landing: Path, model: AsyncSGD) -> str | None:
    run = round_.run_of(part)
    assert run is not None
    assert part.scenario is not None
    tables = landed.tables(landing, run)
    seen = measured(tables["step"], WINDOW_STEPS).head(MOST_STEPS // WINDOW_STEPS)
    if seen.is_empty():
        return None
    steps = WINDOW_STEPS * (seen.height + 1)
    traces = [synthesise(model, part.scenario, steps=steps, seed=seed) for seed in range(SEEDS)]
    made = pl.concat(simulated(trace, WINDOW_STEPS).head(seen.height) for trace in traces)
    made = made.group_by("step").agg(pl.col("steps_per_s").mean()).sort("step")
    described = f"Steps per second of all workers by steps since the start, {part.scenario.label}"
    return captioned(study_plots.convergence(seen, made), described, part.scenario.label)


def _links(models: FittedModels) -> list[tuple[str, str]]:
    """Return the use of the links by two workers of the round's first profile, early and late."""
    part, model = next(iter(models.items()))
    assert part.scenario is not None
    scenario = part.scenario.with_workers(2)
    trace = synthesise(model, scenario, steps=MOST_STEPS, record=True)
    use = active_links(trace)
    found = []
    for title, first in (("First steps", 0), ("Later steps", MOST_STEPS // 2)):
        start_s = float(trace.step_starts_s[:, first].min())
        end_s = float(trace.step_ends_s[:, first + SHOWN_STEPS - 1].max())
        shown = use.filter(use["end_s"] > start_s, use["start_s"] < end_s)
        described = f"When each connection had data under way, {scenario.label}"
        drawn = study_plots.active_links(shown)
        found.append((f"{title}, {scenario.label}", captioned(drawn, described, "Simulated.")))
    return found
