"""Error by network, batch size and workers (Figs. 13, 14 and 17 of the ICPE'20 paper)."""

from forecasting.findings.errors import Errors
from reports import study_plots
from reports.figure_html import captioned, grid
from reports.html_table import Cell, table
from reports.wording import percent

_HEAD = ("network", "batch size", "scenarios", "mean error", "mean absolute error", "largest")


def section(errors: Errors | None) -> str:
    """Return a table by network and batch size, and a figure of each network with a curve.

    Nothing if nothing was judged. Scenarios with one worker are in the figures alone.
    """
    if errors is None:
        return ""
    body = [
        [
            Cell(row["dnn"], is_number=False),
            Cell(str(row["batch_size"])),
            Cell(str(row["n"])),
            Cell(percent(row["mean"], signed=True)),
            Cell(percent(row["absolute"])),
            Cell(percent(row["largest"])),
        ]
        for row in errors.by_batch.to_dicts()
    ]
    drawn = [
        (
            dnn,
            captioned(
                study_plots.errors(curves),
                f"Error of predicted throughput by number of workers, {dnn}",
                "Band: ±10 %.",
            ),
        )
        for dnn, curves in errors.by_network.items()
    ]
    return (
        "<h2>Errors by network and batch size</h2><p>The table is of two or more workers; what was "
        "measured while the host was busy is not in it.</p>"
        f"{table(_HEAD, body)}<p></p>{grid(drawn)}"
    )
