"""What Ceer, and rules of thumb, would have rented, judged by what was measured."""

from collections.abc import Sequence
from math import isinf

from forecasting.findings.choices import Choice
from models.ceer.recommendation import Candidate
from reports.html_table import Cell, table
from reports.wording import DASH, percent

_SAID = (
    "<p>An epoch of 1.2 million samples on k nodes of a type, at k times its price. Budgets are "
    "the median price an hour of all offers, and the median of what epochs are forecast to cost; "
    "at market prices a share of a core costs the same whatever its instruction set. A choice's "
    "<em>regret</em> is by how much it is above the best that was measured; <em>too dear</em>: it "
    "exceeds the budget.</p>"
)
_HEAD = ("scenario", "DNN", "choice", "best", "regret", "of the cheapest", "of the most powerful")


def section(choices: Sequence[Choice]) -> str:
    """Return a table of choices for each DNN of the test set; nothing without any."""
    if not choices:
        return ""
    body = [_line(choice) for choice in choices]
    return f"<h2>What to rent for unseen DNNs</h2>{_SAID}{table(_HEAD, body)}"


def _line(choice: Choice) -> list[Cell]:
    names = choice.objective.replace("_", " "), choice.dnn
    rented = _named(choice.chosen), _named(choice.best)
    return [
        *(Cell(name, is_number=False) for name in (*names, *rented)),
        *(Cell(_regret(one)) for one in choice.regrets),
    ]


def _named(choice: Candidate | None) -> str:
    return DASH if choice is None else f"{choice.devices} {choice.node_type}"


def _regret(value: float | None) -> str:
    if value is not None and isinf(value):
        return "too dear"
    return percent(None if value is None else 100 * value)
