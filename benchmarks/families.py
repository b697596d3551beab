"""How wrong is predictddl of families of networks that it has not seen, on runs that exist?

`python -m benchmarks.families reference_ddp` takes every step in data/reference that a study has
measured, and forecasts those of each family by a fit to all others. With `--train` only steps count
that fits of the study see: what judges it stays hidden. The first is after the fact; the second may
be looked at before forecasts are sealed.
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from models.predictddl import log_linear, model
from models.predictddl.known import Known
from models.predictddl.learned import REGRESSORS
from models.predictddl.model import Fitting
from models.predictddl.systems import known_of, trained
from networks.families import family
from warehouse.home import CHECKOUT
from warehouse.kept import bring, kept_runs
from warehouse.warehouse import Warehouse, read_only

REFERENCE = CHECKOUT / "data" / "reference"
PROBES = ("torch_throughput", "inventory")
FITTINGS: Mapping[str, Fitting] = {
    **{f"work, {name.replace('_', ' ')}": model.ours(name) for name in REGRESSORS},
    "log-linear": log_linear.fitted,
    "counts of operations": log_linear.histogram,
}
_TABLES = {
    "run": "SELECT * EXCLUDE (config), config::VARCHAR AS config FROM raw.run",
    "scenario": "SELECT DISTINCT scenario_id, canonical::VARCHAR AS canonical FROM raw.scenario",
    "sample": "SELECT * FROM raw.sample",
}


def known(studies: Sequence[str], folder: Path, *, train: bool) -> Known:
    """Return the steps of studies, and what their node types can do.

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
    return known_of({name: read_only(folder, sql) for name, sql in _TABLES.items()}, trained)


def left_out(known: Known, fitting: Fitting) -> dict[str, NDArray[np.float64]]:
    """Return the relative errors of each family's runs by a fit to the other families."""
    families = sorted({family(one.scenario.workload.dnn) for one in known.runs})
    return {
        name: np.expm1(model.by_family(known, [name], fitting)[0]).astype(np.float64)
        for name in families
    }


def table(errors: Mapping[str, Mapping[str, NDArray[np.float64]]]) -> pl.DataFrame:
    """Return mean absolute errors, percent: families alike, runs alike, and of each family."""
    return pl.DataFrame([{"model": name, **_figures(of)} for name, of in errors.items()])


def _figures(of: Mapping[str, NDArray[np.float64]]) -> dict[str, float]:
    each = {name: 100 * float(np.abs(found).mean()) for name, found in of.items()}
    runs = 100 * float(np.abs(np.concatenate(list(of.values()))).mean())
    return {"families": float(np.mean(list(each.values()))), "runs": runs, **each}


def tables(studies: Sequence[str], *, train: bool = False) -> Iterator[pl.DataFrame]:
    """Yield how many runs there are of each family, then how wrong each model is of it."""
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
        found = known(studies, Path(folder), train=train)
        names = [family(one.scenario.workload.dnn) for one in found.runs]
        yield pl.DataFrame({"family": names}).group_by("family").len("scenarios").sort("family")
        yield table({name: left_out(found, fitting) for name, fitting in FITTINGS.items()})


def main(words: Sequence[str]) -> None:
    """Print the tables of the studies that are named."""
    studies = [one for one in words if one != "--train"]
    with pl.Config(tbl_cols=40, tbl_rows=40, tbl_width_chars=320, float_precision=1):
        for one in tables(studies, train="--train" in words):
            print(one)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
