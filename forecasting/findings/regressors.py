"""Which regressors PredictDDL chose in the fits whose forecasts were judged."""

import polars as pl
from pydantic import ValidationError

from models.predictddl.fitted import Parameters
from models.predictddl.systems import PREDICTDDL
from warehouse.warehouse import Warehouse

COLUMNS = {
    "n": pl.Int64,
    "seen": pl.String,
    "unseen": pl.String,
    "answers": pl.String,
    "predictddl": pl.Float64,
    "log_linear": pl.Float64,
    "histogram": pl.Float64,
}
"""Of a fit: forecasts that were judged; the regressors for networks that were measured and for
others, the system that answers for these, and mean absolute errors of three on families left out
(see `models.predictddl.fitted.Parameters`)."""


def regressors(judged: pl.DataFrame, warehouse: Warehouse) -> pl.DataFrame:
    """Return `COLUMNS` of each fit, those of most forecasts first.

    Args:
        judged: as `forecasting.findings.judged.judged_of` returns it.
        warehouse: that keeps fits.
    """
    ours = judged.filter(system=PREDICTDDL.name)
    counts = dict(ours.group_by("fit_id").len().iter_rows())
    fits = warehouse.query("fits", system=PREDICTDDL.name)
    rows = []
    for fit_id, text in fits.select("fit_id", "parameters").unique("fit_id").iter_rows():
        if fit_id not in counts:
            continue
        try:
            one = Parameters.model_validate_json(text)
        except ValidationError:
            continue  # Of another version.
        errors = [one.left_out.get(name) for name in ("predictddl", "log_linear", "histogram")]
        rows.append((counts[fit_id], one.seen, one.unseen, one.answers, *errors))
    return pl.DataFrame(rows, schema=COLUMNS, orient="row").sort(
        "n", "seen", "unseen", descending=True
    )
