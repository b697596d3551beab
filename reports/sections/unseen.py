"""How wrong Ceer is on DNNs that it has not seen, and on their operations (section V of Ceer)."""

from collections.abc import Sequence

import polars as pl

from forecasting.findings.unseen import StepErrors, Unseen
from reports.html_table import Cell, table
from reports.wording import percent, share

_WORDS = {
    (): "all",
    ("light",): "without light and CPU operations",
    ("overhead",): "without S",
}
_STEPS = (
    "<p>Steps of DNNs that were left out of fits, their operations known from their profiles: the "
    "test set together, and each DNN by itself. Mean absolute errors, and with sign. Steps with "
    "heavy operations that no other DNN has are not known.</p>"
)
_MOST_TYPES = 3  # named of those that were not seen

_OPERATIONS = (
    "<p>Operations of the test set, of all node types together: how many distinct ones, the mean "
    "absolute error of their times, the error of their sum, and which part of all time it is.</p>"
)
_RANKINGS = (
    "<p>Pairs of node types, with equal devices, that were forecast in the order in which they "
    "were measured. Pairs closer than {noise} are left out.</p>"
)


def section(unseen: Unseen | None) -> str:
    """Return tables of errors on the test set; nothing where none of it was profiled."""
    if unseen is None:
        return ""
    parts = (
        ("Steps", _STEPS, _steps(unseen.steps)),
        ("Operations", _OPERATIONS, _operations(unseen.operations)),
        (
            "Order of node types",
            _RANKINGS.format(noise=share(unseen.noise or 0.0)),
            _order(unseen.rankings),
        ),
    )
    return "".join(f"<h2>{title} of unseen DNNs</h2>{said}{shown}" for title, said, shown in parts)


def _steps(errors: Sequence[StepErrors]) -> str:
    """Return errors of the test set, whole and ablated, then of each DNN, with n."""
    head = ("left out", "mean error", "with sign", "largest", "steps", "not known")
    return table(head, [_errors(one) for one in errors])


def _errors(errors: StepErrors) -> list[Cell]:
    whole = f"test set, {_WORDS[errors.without]}"
    mean, signed, largest = (
        None if value is None else 100 * value
        for value in (errors.mean, errors.signed, errors.largest)
    )
    return [
        Cell(whole if errors.dnn is None else f"{errors.dnn} by itself", is_number=False),
        *(Cell(percent(mean)), Cell(percent(signed, signed=True)), Cell(percent(largest))),
        *(Cell(str(errors.n)), Cell(_not_known(errors))),
    ]


def _not_known(errors: StepErrors) -> str:
    """Return how many steps have no prediction, and the types of operations for which."""
    types = errors.types
    names = ", ".join(types[:_MOST_TYPES]) + ("…" if len(types) > _MOST_TYPES else "")
    return f"{errors.unknown} ({names})" if types else "0"


def _operations(heavy: pl.DataFrame) -> str:
    body = [
        [
            Cell(row["type"], is_number=False),
            Cell(str(row["n"])),
            Cell(share(row["error"])),
            Cell(percent(100 * row["sum_error"], signed=True)),
            Cell(share(row["share"])),
        ]
        for row in heavy.iter_rows(named=True)
    ]
    return table(("type", "operations", "mean error", "error of the sum", "share"), body)


def _order(rankings: pl.DataFrame) -> str:
    body = [
        [Cell(str(dnn), is_number=False), *(Cell(str(number)) for number in counts)]
        for dnn, *counts in rankings.iter_rows()
    ]
    return table(("DNN", "pairs", "right", "left out"), body)
