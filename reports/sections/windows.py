"""Sensitivity of predictions to WIN ± 50 % (section 3.2.2 of the ICPE'20 paper)."""

from collections.abc import Mapping, Sequence

import polars as pl

from forecasting.captured import CapturedProfile, announced
from models.async_sgd.predictor import AsyncSGD
from models.async_sgd.window_sensitivity import FACTORS, window_sensitivity
from reports.html_table import Cell, table
from reports.wording import number, percent

_HEAD = (
    "profile",
    "WIN",
    "W",
    "not suspended, steps/s",
    *(f"WIN × {factor:g}" for factor in FACTORS),
)


def section(profiles: Sequence[CapturedProfile], models: Mapping[str, AsyncSGD]) -> str:
    """Return predictions under the paper's rule; `models` are by run id.

    Nothing if no packets were captured: the window is not known then.
    """
    body = [row for one in profiles for row in _rows(one, models[one.run.run_id])]
    if not body:
        return ""
    return (
        "<h2>Sensitivity to the flow-control window</h2>"
        "<p>Predictions let no stream be suspended. What they would be under the paper's rule, "
        "with the window that the worker announced first (or 1 MiB, hypothetical, where every "
        "tensor is shorter), and half of it more or less; change against the first column. Nothing "
        f"here is in the ledger.</p>{table(_HEAD, body)}"
    )


def _rows(profile: CapturedProfile, model: AsyncSGD) -> list[list[Cell]]:
    windows = announced(profile, "downlink")["window_bytes"]
    found = window_sensitivity(model, windows[0] if len(windows) else None)
    rows = []
    for one in found.partition_by("workers", maintain_order=True):
        changed = one.filter(pl.col("window") != "none")
        window, window_bytes = changed.select("window", "window_bytes").row(0)
        rows.append(
            [
                Cell(profile.title, is_number=False),
                Cell(f"{window_bytes / 2**20:g} MiB, {window}", is_number=False),
                Cell(str(one["workers"][0])),
                Cell(number(one["value"][0])),
                *(Cell(percent(change, signed=True)) for change in changed["change_percent"]),
            ]
        )
    return rows
