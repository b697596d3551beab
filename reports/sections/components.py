"""How much the parts of Srift err on what they were not fitted to (Table 6; section 5.3)."""

import polars as pl

from forecasting.findings.components import Components
from reports.html_table import Cell, table
from reports.wording import percent

_PASSES = (
    "<p>Each batch size but the outermost is left out in turn, and forecast from the others. Means "
    "of absolute errors; the <em>floor</em> is the mean standard error of what was measured.</p>"
)
_HELD_OUT = (
    "<p>Batch sizes that were timed apart, after predictions, and forecast from the profile.</p>"
)
_ALLREDUCES = (
    "<p>Bus bandwidth of all-reduces, a tenth left out at a time: whole <em>configurations</em> "
    "(size, world, node types), or <em>rows</em>, as in the paper's 9/1 split. The <em>noise floor"
    "</em> is the error of forecasting each by the mean time of the other repeats of its "
    "configuration; <em>at least</em> that of the bandwidth that errs least for all of them.</p>"
)
_WORDS = {
    "small": "up to the MTU",
    "large": "above the MTU",
    "alpha_beta": "α–β",
    "trees": "trees",
    "rated": "rated",
}
_PASS_ERRORS = ("forward_percent", "backward_percent", "both_percent", "floor_percent")
_PASS_HEAD = ("profile", "forward", "backward", "both", "floor", "batch sizes")
_ALLREDUCE_ERRORS = ("mape_percent", "noise_floor_percent", "least_percent")
_ALLREDUCE_HEAD = (
    "buffers",
    "left out",
    "model",
    "mean error",
    "noise floor",
    "at least",
    "all-reduces",
)


def section(components: Components | None) -> str:
    """Return tables of errors of passes and of all-reduces; nothing where neither was probed."""
    if components is None:
        return ""
    parts = (
        ("Passes", _PASSES, _passes(components.passes)),
        ("Batch sizes", _HELD_OUT, _passes(components.held_out)),
        ("All-reduces", _ALLREDUCES, _allreduces(components.allreduces)),
    )
    return "".join(
        f"<h2>{title} that fits did not see</h2>{said}{shown}"
        for title, said, shown in parts
        if shown
    )


def _passes(errors: pl.DataFrame | None) -> str:
    if errors is None:
        return ""
    body = [
        [
            Cell(row["name"], is_number=False),
            *(Cell(percent(row[name])) for name in _PASS_ERRORS),
            Cell(str(row["n"])),
        ]
        for row in errors.to_dicts()
    ]
    return table(_PASS_HEAD, body)


def _allreduces(errors: pl.DataFrame | None) -> str:
    if errors is None:
        return ""
    body = [
        [
            Cell(_WORDS[row["side"]], is_number=False),
            Cell(row["split"], is_number=False),
            Cell(_WORDS[row["model"]], is_number=False),
            *(Cell(percent(row[name])) for name in _ALLREDUCE_ERRORS),
            Cell(str(row["n"])),
        ]
        for row in errors.to_dicts()
    ]
    return table(_ALLREDUCE_HEAD, body)
