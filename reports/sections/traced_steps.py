"""When each resource is at work in traced steps (Figs. 3(b) and 4 of the ICPE'20 paper)."""

from collections.abc import Sequence

from forecasting.findings.traced_steps import SHOWN_STEPS, TracedSteps
from reports import study_plots
from reports.figure_html import captioned, grid


def section(traced: Sequence[TracedSteps]) -> str:
    """Return the first traced steps of each network, nothing without profiles."""
    if not traced:
        return ""
    figures = [(one.dnn, _figure(one)) for one in traced]
    return (
        "<h2>What a profiled step consists of</h2>"
        "<p>One worker's traced steps, as TensorFlow recorded them: a "
        "transfer's record also holds waiting for the link and parsing. The client's time between "
        f"steps is left out.</p>{grid(figures)}"
    )


def _figure(traced: TracedSteps) -> str:
    described = (
        f"When downlink, worker, uplink and server were at work in {SHOWN_STEPS} traced steps, "
        f"{traced.label}"
    )
    return captioned(study_plots.busy(traced.rows), described, traced.label)
