"""How much the parts of Srift err on what they were not fitted to (Table 6; section 5.3)."""

from pathlib import Path

import polars as pl

from assets import landed
from assets.html_table import Cell, table
from assets.rounds import Round
from assets.wording import percent
from models.srift import allreduce, validation
from models.srift.probed import by_place

_PASSES = (
    "<p>Each batch size but the outermost is left out in turn, and forecast from the others. Means "
    "of absolute errors; the <em>floor</em> is the mean standard error of what was measured.</p>"
)
_ALLREDUCES = (
    "<p>Bus bandwidth of all-reduces, a tenth left out at a time: whole <em>configurations</em> "
    "(size, world, node types), or <em>rows</em>, as in the paper's 9/1 split. The <em>floor</em> "
    "is the error of forecasting each by the median of its configuration.</p>"
)
_WORDS = {
    "small": "up to the MTU",
    "large": "above the MTU",
    "alpha_beta": "α–β",
    "trees": "trees",
    "rated": "rated",
}


def section(round_: Round, landing: Path) -> str:
    """Return tables of errors of passes and of all-reduces; nothing where neither was probed."""
    passes = _passes(landed.rows(round_, landing, "torch_compute", "compute"))
    reduced = _allreduces(round_, landing)
    parts = (("Passes", _PASSES, passes), ("All-reduces", _ALLREDUCES, reduced))
    return "".join(
        f"<h2>{title} that fits did not see</h2>{said}{shown}"
        for title, said, shown in parts
        if shown
    )


def _passes(rows: pl.DataFrame) -> str:
    body = []
    for (name,), mine in landed.by_name(rows):
        errors = validation.pass_errors(mine)
        if errors.height:
            means = errors.select(pl.exclude("batch_size").abs().mean()).row(0)
            shown = (Cell(percent(one)) for one in means)
            body.append([Cell(str(name), is_number=False), *shown, Cell(str(errors.height))])
    head = ("profile", "forward", "backward", "both", "floor", "batch sizes")
    return table(head, body) if body else ""


def _allreduces(round_: Round, landing: Path) -> str:
    found = [landed.tables(landing, run) for run in round_.runs_of("allreduce").values()]
    if not found:
        return ""
    rows, runs, clusters = (
        pl.concat([one[name] for one in found]) for name in ("allreduce", "run", "cluster_node")
    )
    places, hardware = by_place(runs, rows, clusters)
    model = allreduce.fit(rows, places, hardware)
    errors = validation.allreduce_errors(model, rows, places)
    body = [
        [
            Cell(_WORDS[row["side"]], is_number=False),
            Cell(row["split"], is_number=False),
            Cell(_WORDS[row["model"]], is_number=False),
            Cell(percent(row["mape_percent"])),
            Cell(percent(row["floor_percent"])),
            Cell(str(row["n"])),
        ]
        for row in errors.to_dicts()
    ]
    return table(("buffers", "left out", "model", "mean error", "floor", "all-reduces"), body)
