"""When each resource is at work in traced steps (Figs. 3(b) and 4 of the ICPE'20 paper)."""

from pathlib import Path

from models.async_sgd.stretches import busy
from reports import study_plots
from reports.figure_html import captioned, grid
from studies import landed
from studies.rounds import Round

SHOWN_STEPS = 3


def section(round_: Round, landing: Path) -> str:
    """Return the first traced steps of each network's first profile, nothing without profiles."""
    figures: dict[str, str] = {}
    for part, run in round_.runs_of("tf_trace").items():
        if part.curve.dnn not in figures and part.scenario is not None:
            tables = landed.tables(landing, run)
            rows = busy(tables["operation"], tables["timing"], SHOWN_STEPS)
            described = (
                f"When downlink, worker, uplink and server were at work in {SHOWN_STEPS} traced "
                f"steps, {part.scenario.label}"
            )
            figures[part.curve.dnn] = captioned(
                study_plots.busy(rows), described, part.scenario.label
            )
    if not figures:
        return ""
    return (
        "<h2>Profiled steps</h2><p>One worker's traced steps, as TensorFlow recorded them: a "
        "transfer's record also holds waiting for the link and parsing. The client's time between "
        f"steps is left out.</p>{grid(list(figures.items()))}"
    )
