"""How much the parts of Srift err on what they were not fitted to (Table 6; section 5.3)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from forecasting.findings.store import Store, digest
from forecasting.fits import data_hash, landed_tables, load_kept, pooled_runs, stored
from models.srift import allreduce, validation
from models.srift.allreduce import LearnedBandwidth
from models.srift.predictor import Srift
from models.srift.probed import by_place
from models.srift.system import SRIFT
from profilers.probe import Need
from studies import landed
from studies.rounds import Round
from warehouse.records import Run
from warehouse.warehouse import Warehouse


@dataclass(frozen=True)
class Components:
    """Errors of passes and of all-reduces, in percent; None where there are none to tell of.

    Attributes:
        passes: of batch sizes that are left out in turn: name, means of the absolute values of
            forward_percent, backward_percent, both_percent and floor_percent, and n, the batch
            sizes; a row for each profile, and one of all.
        held_out: the same of batch sizes that were timed apart.
        allreduces: rows of `models.srift.validation.allreduce_errors`.
    """

    passes: pl.DataFrame | None
    held_out: pl.DataFrame | None
    allreduces: pl.DataFrame | None


def components(
    round_: Round,
    landing: Path,
    warehouse: Warehouse | None = None,
    store: Store | None = None,
) -> Components | None:
    """Return how wrong the parts are; None where neither passes nor all-reduces were probed.

    Args:
        round_: that has landed.
        landing: where.
        warehouse: where fits are kept; None: nowhere.
        store: keeps errors of all-reduces, which are fitted to parts of them; None: nobody does.
    """
    if not round_.runs_of("torch_compute", "allreduce"):
        return None
    return Components(
        _passes(round_, landing),
        _held_out(round_, landing),
        _allreduces(round_, landing, warehouse, store or Store()),
    )


def _passes(round_: Round, landing: Path) -> pl.DataFrame | None:
    profiled = landed.rows(round_, landing, "torch_compute", "compute", "profile")
    return _means(
        {str(name): validation.pass_errors(rows) for (name,), rows in landed.by_name(profiled)}
    )


def _held_out(round_: Round, landing: Path) -> pl.DataFrame | None:
    runs = round_.runs_of("torch_compute")
    profiles = {_network(need): run for need, run in runs.items() if need.profiles}
    return _means(
        {
            need.title: validation.held_out_errors(
                landed.table(landing, profiles[_network(need)], "compute"),
                landed.table(landing, run, "compute"),
            )
            for need, run in runs.items()
            if not need.profiles and _network(need) in profiles
        }
    )


def _network(need: Need) -> tuple[object, ...]:
    """Return what a profile of passes and its held-out batches agree on."""
    return need.scenario.workload.dnn, need.scenario.workload.image_size, need.scenario.nodes


def _means(errors: Mapping[str, pl.DataFrame]) -> pl.DataFrame | None:
    """Return mean absolute errors of each name that has some, and of all together."""
    found = {name: one for name, one in errors.items() if one.height}
    if not found:
        return None
    found["all"] = pl.concat(found.values())
    return pl.concat(
        one.select(
            pl.lit(name).alias("name"), pl.exclude("batch_size").abs().mean(), pl.len().alias("n")
        )
        for name, one in found.items()
    )


def _allreduces(
    round_: Round, landing: Path, warehouse: Warehouse | None, store: Store
) -> pl.DataFrame | None:
    probed = round_.runs_of("allreduce").values()
    if not probed:
        return None
    found = [landed.tables(landing, run) for run in probed]
    rows, runs, clusters = (
        pl.concat([one[name] for one in found]) for name in ("allreduce", "run", "cluster_node")
    )

    def judged() -> pl.DataFrame:
        places, hardware = by_place(runs, rows, clusters)
        model = _kept(round_, probed, landing, warehouse) or allreduce.fit(rows, places, hardware)
        return validation.allreduce_errors(model, rows, places)

    tables = {"allreduce": rows, "run": runs, "cluster_node": clusters}
    return store.frame(
        "allreduces", __name__, digest(data_hash(tables), *_fit(round_, warehouse)), judged
    )


def _fit(round_: Round, warehouse: Warehouse | None) -> list[str]:
    """Return the id of the fit that is kept of all runs of a round, if there is one."""
    seen = [run.run_id for run in pooled_runs(SRIFT, round_)]
    kept = None if warehouse is None else stored(SRIFT, seen, None, warehouse)
    return [] if kept is None else [str(kept["fit_id"])]


def _kept(
    round_: Round, probed: Collection[Run], landing: Path, warehouse: Warehouse | None
) -> LearnedBandwidth | None:
    """Return the bandwidth that forecast a round, if a fit is kept that saw all of `probed`."""
    if warehouse is None:
        return None
    seen = pooled_runs(SRIFT, round_)
    if not {run.run_id for run in probed} <= {run.run_id for run in seen}:
        return None
    tables = landed_tables(SRIFT, seen, landing)
    found = load_kept(SRIFT, [run.run_id for run in seen], tables, warehouse)
    known = isinstance(found, Srift) and found.parameters.bandwidth
    return known if isinstance(known, LearnedBandwidth) else None
