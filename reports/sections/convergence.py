"""Throughput out of the initial synchronisation, and links in use (Figs. 9, 16 and 24)."""

from forecasting.findings.convergence import SEEDS, WINDOW_STEPS, Convergence, Drift, LinkUse
from reports import study_plots
from reports.figure_html import captioned, grid


def section(convergence: Convergence | None) -> str:
    """Return measured and simulated throughput by steps; nothing if it is not known."""
    if convergence is None:
        return ""
    return (
        "<h2>How workers drift apart after the start</h2>"
        "<p>All workers start at a barrier, in the simulation too, and drift apart. Steps per "
        f"second over {WINDOW_STEPS} steps of each worker at a time; neither predictions nor "
        f"measurements count the first ones. Simulated: mean of {SEEDS} seeds.</p>"
        f"{grid([_drift(one) for one in convergence.drifts])}"
        f"<h2>When links are in use</h2><p>Simulated: the first steps, and later ones.</p>"
        f"{grid([_links(one) for one in convergence.links])}"
    )


def _drift(drift: Drift) -> tuple[str, str]:
    described = f"Steps per second of all workers by steps since the start, {drift.label}"
    drawn = study_plots.convergence(drift.measured, drift.simulated)
    return drift.dnn, captioned(drawn, described, drift.label)


def _links(use: LinkUse) -> tuple[str, str]:
    described = f"When each connection had data under way, {use.label}"
    title = "First steps" if use.first else "Later steps"
    drawn = study_plots.active_links(use.rows)
    return f"{title}, {use.label}", captioned(drawn, described, "Simulated.")
