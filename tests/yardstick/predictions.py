"""The forecasts in a home, as plain rows, and how two sets of them differ."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import polars as pl

from warehouse.warehouse import Warehouse

KEY = ["study", "repeat", "backend", "host_id", "system", "subject_id", "metric"]
FIGURES = ["value", "low", "high"]
_SCHEMA: dict[str, type[pl.DataType]] = {
    name: pl.Int64 if name == "repeat" else pl.String for name in KEY
}
_SCHEMA |= dict.fromkeys(FIGURES, pl.Float64) | {"saw": pl.String}


def predictions(home: Path) -> pl.DataFrame:
    """Return `KEY`, `FIGURES` and `saw` of every forecast of a round, one row each.

    `saw` counts the runs that the fit saw, and has a hash of their names. Ids of forecasts, their
    order, times and code versions are left out: they may change.
    """
    warehouse = Warehouse(home)
    saw = (
        warehouse.query("fit_inputs")
        .group_by("fit_id")
        .agg(pl.col("run_id").sort())
        .select("fit_id", pl.col("run_id").map_elements(_named, pl.String).alias("saw"))
    )
    made = warehouse.query("predictions").filter(pl.col("study").is_not_null())
    rows = made.join(saw, on="fit_id", how="left").select(
        pl.col(name).cast(kind) for name, kind in _SCHEMA.items()
    )
    return rows.sort(KEY)


def read(file: Path) -> pl.DataFrame:
    """Return the rows that `write` wrote."""
    return pl.read_csv(file, schema=_SCHEMA)


def write(rows: pl.DataFrame, file: Path) -> None:
    """Write rows with all digits of their figures."""
    rows.write_csv(file)


def differences(then: pl.DataFrame, now: pl.DataFrame, tolerance: float) -> Iterator[str]:
    """Yield what differs, a line each; figures by more than `tolerance`, as a share."""
    both = then.join(now, on=KEY, how="full", coalesce=True, suffix="_now", nulls_equal=True)
    for row in both.sort(KEY).to_dicts():
        name = ", ".join(f"{row[key]}" for key in KEY)
        if row["saw"] is None or row["saw_now"] is None:
            yield f"{'new' if row['saw'] is None else 'gone'}: {name}"
            continue
        if row["saw"] != row["saw_now"]:
            yield f"{name}: its fit saw {row['saw_now']}, not {row['saw']}"
        for figure in FIGURES:
            before, after = row[figure], row[f"{figure}_now"]
            if not _alike(before, after, tolerance):
                yield f"{name}: {figure} {after!r}, not {before!r}"


def _alike(before: float | None, after: float | None, tolerance: float) -> bool:
    if before is None or after is None:
        return before is after
    return abs(after - before) <= tolerance * abs(before)


def _named(run_ids: pl.Series) -> str:
    return f"{len(run_ids)} runs {sha256(' '.join(run_ids).encode()).hexdigest()[:12]}"
