"""Overhead of received tensors (section 3.2.1, Fig. 10 of the ICPE'20 paper)."""

from collections.abc import Sequence

from forecasting.findings.overheads import Received
from models.async_sgd.overhead import Overhead
from reports import capture_plots
from reports.figure_html import captioned, grid
from reports.html_table import Cell, table

_HEAD = ("received by", "node type", "α, ns/B", "95 %", "β, ms", "95 %", "R²", "transfers")


def section(received: Sequence[Received]) -> str:
    """Return the fitted lines and a figure of each, nothing if there are none."""
    if not received:
        return ""
    figures = []
    for one in received:
        drawn = capture_plots.overhead(one.rows, one.line)
        said = captioned(drawn, _described(one.line), "Bars: 10 to 90 % of a size.")
        figures.append((f"{one.line.node_type} as {one.line.role}", said))
    return (
        "<h2>What receiving a tensor takes beside its bytes</h2>"
        "<p>Recorded end of a transfer less its last packet, α × size + β by ordinary least "
        "squares over all captured profiles of the round. Intervals take residuals for "
        "independent and normal, which waits for a share of the processor are not: read them "
        "beside R².</p>"
        f"{table(_HEAD, [_row(one.line) for one in received])}<p></p>{grid(figures)}"
    )


def _row(line: Overhead) -> list[Cell]:
    return [
        Cell(line.role, is_number=False),
        Cell(line.node_type, is_number=False),
        Cell(f"{1e9 * line.alpha_s_per_byte:.2f}"),
        Cell(f"{1e9 * line.alpha_low:.2f} to {1e9 * line.alpha_high:.2f}"),
        Cell(f"{1e3 * line.beta_s:.2f}"),
        Cell(f"{1e3 * line.beta_low:.2f} to {1e3 * line.beta_high:.2f}"),
        Cell(f"{line.r_squared:.3f}"),
        Cell(f"{line.n:,}"),
    ]


def _described(line: Overhead) -> str:
    return (
        f"Overhead by size of tensor, {line.node_type} as {line.role}. "
        f"{1e9 * line.alpha_s_per_byte:.2f} ns/B, {1e3 * line.beta_s:.2f} ms"
    )
