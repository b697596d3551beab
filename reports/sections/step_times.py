"""Errors of step times of data-parallel training (Table 5 and Fig. 7 of Srift)."""

from forecasting.findings.step_times import UNDERESTIMATED, StepTimes
from reports import study_plots
from reports.figure_html import captioned
from reports.html_table import Cell, table
from reports.wording import percent

_HEAD = ("", "scenarios", "mean error", "mean absolute error", "largest", "underestimated by")
_SAID = (
    "<p>Of two or more nodes. In 90 % of the scenarios step times are <em>underestimated by</em> "
    "at most that much. Scenarios of one image on each node, where latency counts, are apart.</p>"
)


def section(found: StepTimes | None) -> str:
    """Return errors by node types, nodes and batch, and the distribution of underestimation.

    Nothing if nothing was judged.
    """
    if found is None:
        return ""
    body = [
        [
            Cell(row["name"], is_number=False),
            Cell(str(row["n"])),
            Cell(percent(row["mean"], signed=True)),
            *(Cell(percent(row[what])) for what in ("absolute", "largest", "under")),
        ]
        for row in found.groups.to_dicts()
    ]
    figure = captioned(
        study_plots.underestimation(found.error_percent, UNDERESTIMATED),
        "Share of scenarios by how much their step times are underestimated",
        "Dotted: 90 % of the scenarios.",
    )
    return (
        f"<h2>Errors by node types and number of nodes</h2>{_SAID}{table(_HEAD, body)}"
        f"<h2>How far step times were underestimated</h2>{figure}"
    )
