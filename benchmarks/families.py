"""How wrong are predictddl and Ceer of families that they have not seen, on runs that exist?

`python -m benchmarks.families reference_ddp` takes every step in data/reference that a study has
measured, and forecasts those of each family by a fit to all others; where operations were timed,
by their sums too. With `--train` only steps count that fits of the study see: what judges it stays
hidden. The first is after the fact; the second may be looked at before forecasts are sealed.
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from models.ceer.fitted import PROBES as TIMED
from models.ceer.fitted import declines
from models.ceer.systems import CEER_PYTORCH
from models.predictddl import log_linear, model
from models.predictddl.known import Known
from models.predictddl.learned import REGRESSORS
from models.predictddl.model import Fitting
from models.predictddl.systems import known_of, trained
from models.system import Tables
from models.threads import one_thread
from networks.families import family
from warehouse.home import CHECKOUT
from warehouse.kept import bring, kept_runs
from warehouse.records import Scenario
from warehouse.warehouse import Warehouse, read_only

REFERENCE = CHECKOUT / "data" / "reference"
PROBES = ("torch_throughput", "torch_operations", "inventory")
FITTINGS: Mapping[str, Fitting] = {
    **{f"work, {name.replace('_', ' ')}": model.ours(name) for name in REGRESSORS},
    "log-linear": log_linear.fitted,
    "counts of operations": log_linear.histogram,
}
_TABLES = {
    "run": "SELECT * EXCLUDE (config), config::VARCHAR AS config FROM raw.run",
    "scenario": "SELECT DISTINCT scenario_id, canonical::VARCHAR AS canonical FROM raw.scenario",
    **{
        name: f"SELECT * FROM raw.{name}"
        for name in ("sample", "operation", "operation_shape", "operation_time", "dnn")
    },
}


def tables(studies: Sequence[str], folder: Path, *, train: bool) -> Tables:
    """Return steps and times of operations of studies, and what their node types can do.

    Args:
        studies: by name.
        folder: an empty one, for a history.
        train: leave out what judges forecasts.
    """
    runs = [
        run.run_id
        for run in kept_runs(REFERENCE)
        if run.study in studies
        and run.probe in PROBES
        and run.status == "ok"
        and (run.purpose == "profile" or not train)
    ]
    bring(REFERENCE, folder / "landing", runs, durable=False)
    Warehouse(folder).load()
    return {name: read_only(folder, sql) for name, sql in _TABLES.items()}


def left_out(known: Known, fitting: Fitting) -> dict[str, NDArray[np.float64]]:
    """Return the relative errors of each family's runs by a fit to the other families."""
    families = sorted({family(one.scenario.workload.dnn) for one in known.runs})
    return {
        name: np.expm1(model.by_family(known, [name], fitting).errors).astype(np.float64)
        for name in families
    }


def by_operations(tables: Tables, known: Known) -> dict[str, NDArray[np.float64]]:
    """Return the relative errors of each family's runs by Ceer, fitted to the other families.

    Runs of operations that no other family has, and of nodes of several types, are left out; there
    is no family where no operations were timed.
    """
    runs = tables["run"].filter(pl.col("probe").is_in(TIMED["pytorch"]))
    if "torch_operations" not in runs["probe"]:
        return {}
    of = {
        scenario_id: family(Scenario.model_validate_json(text).workload.dnn)
        for scenario_id, text in tables["scenario"].select("scenario_id", "canonical").iter_rows()
    }
    found = {}
    asked = [one for one in known.runs if not declines(one.scenario, "pytorch")]
    for name in sorted({family(one.scenario.workload.dnn) for one in asked}):
        kept = [scenario_id for scenario_id, own in of.items() if own != name]
        ids = runs.filter(pl.col("scenario_id").is_in(kept))["run_id"].to_list()
        seen = {
            table: rows.filter(pl.col("run_id").is_in(ids))
            for table, rows in tables.items()
            if "run_id" in rows.columns
        }
        out = [one for one in asked if family(one.scenario.workload.dnn) == name]
        values = CEER_PYTORCH.fit({**tables, **seen}).predict([one.scenario for one in out])[
            "value"
        ]
        errors = (values / pl.Series([one.step_s for one in out]) - 1).drop_nulls()
        if not errors.is_empty():
            found[name] = errors.to_numpy()
    return found


def table(errors: Mapping[str, Mapping[str, NDArray[np.float64]]]) -> pl.DataFrame:
    """Return mean absolute errors, percent: families alike, runs alike, and of each family."""
    return pl.DataFrame([{"model": name, **_figures(of)} for name, of in errors.items()])


def _figures(of: Mapping[str, NDArray[np.float64]]) -> dict[str, float]:
    each = {name: 100 * float(np.abs(found).mean()) for name, found in of.items()}
    runs = 100 * float(np.abs(np.concatenate(list(of.values()))).mean())
    return {"families": float(np.mean(list(each.values()))), "runs": runs, **each}


def compared(studies: Sequence[str], *, train: bool = False) -> Iterator[pl.DataFrame]:
    """Yield how many runs there are of each family, then how wrong each model is of it."""
    with tempfile.TemporaryDirectory() as folder, one_thread():
        rows = tables(studies, Path(folder), train=train)
        found = known_of(rows, trained)
        names = [family(one.scenario.workload.dnn) for one in found.runs]
        yield pl.DataFrame({"family": names}).group_by("family").len("scenarios").sort("family")
        yield table({name: left_out(found, fitting) for name, fitting in FITTINGS.items()})
        if summed := by_operations(rows, found):
            yield table({"operations (Ceer)": summed})


def main(words: Sequence[str]) -> None:
    """Print the tables of the studies that are named."""
    studies = [one for one in words if one != "--train"]
    with pl.Config(tbl_cols=40, tbl_rows=40, tbl_width_chars=320, float_precision=1):
        for one in compared(studies, train="--train" in words):
            print(one)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
