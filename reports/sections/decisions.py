"""What systems and rules of thumb would have rented of what was measured, judged."""

import polars as pl

from reports.html_table import Cell, table
from reports.wording import DASH, percent

_SAID = (
    "<p>Each question asks for the least cost by a deadline, or the least time on a budget, of a "
    "million samples on what a round measured of one network; the limits are drawn from a seed "
    "(<code>stepcast decisions</code>). <em>Surely</em>: the largest probability of breaking a "
    "limit that was accepted; without one, forecasts count as they are. <em>Regret</em>: by how "
    "much a choice that keeps the limits costs more, or takes longer, than the best.</p>"
)
_HEAD = (
    "chooser", "least", "surely", "questions", "declined", "deadlines missed", "budgets exceeded",
    "best choices", "mean regret", "nine tenths below",
)  # fmt: skip
_COUNTS = ("questions", "declined", "missed", "blown", "best")


def section(rows: pl.DataFrame | None) -> str:
    """Return a table of choosers, nothing where nobody decided.

    `rows` are what query `decisions` says of the study.
    """
    if rows is None or rows.is_empty():
        return ""
    body = [
        [
            Cell(row["chooser"], is_number=False),
            Cell(row["minimize"], is_number=False),
            Cell(DASH if row["late"] is None else percent(100 * row["late"])),
            *(Cell(str(row[name])) for name in _COUNTS),
            Cell(percent(row["mean_regret_percent"])),
            Cell(percent(row["p90_regret_percent"])),
        ]
        for row in rows.to_dicts()
    ]
    return f"<h2>Who decides best what to rent</h2>{_SAID}{table(_HEAD, body)}"
