"""What Srift shows of synchronous training, of a round: step times, parts, all-reduces, links."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from forecasting.findings.store import Store, digest
from forecasting.fits import data_hash, landed_tables, load_kept, newest_kept_fit, pooled_runs
from models.srift import allreduce, validation
from models.srift.allreduce import LearnedBandwidth
from models.srift.predictor import Srift
from models.srift.profiles import allreduces_by_place
from models.srift.system import SRIFT
from profilers.probe import PlannedRun
from studies import run_tables
from studies.rounds import Round
from studies.study import Study
from warehouse.records import Run
from warehouse.warehouse import Warehouse

# How wrong step times of data-parallel training are (Table 5 and Fig. 7 of Srift).


UNDERESTIMATED = 0.9
"""In this part of the scenarios step times are underestimated by at most what tables show."""


@dataclass(frozen=True)
class StepTimes:
    """Errors of step times of two or more nodes, in percent.

    Attributes:
        groups: name, n, mean, absolute (mean of absolute errors), largest, and under: by how much
            step times are underestimated at most in `UNDERESTIMATED` of the scenarios; NULL where
            a group has none. By node types, by number of nodes, of all; scenarios of one image on
            each node, where latency counts, are apart.
        error_percent: of each scenario, below 0 where the forecast was too small.
    """

    groups: pl.DataFrame
    error_percent: pl.Series


def step_times(study: Study, rows: pl.DataFrame) -> StepTimes | None:
    """Return the errors of a round by node types and number of nodes; None if none was judged.

    Args:
        study: whose round it is.
        rows: as `forecasting.results.outcome` returns them.
    """
    curves = [
        (" + ".join(sorted(set(curve.worker))), curve.batch_size == 1 and not curve.mix)
        for curve in study.curves
    ]
    of_curves = pl.DataFrame(curves, schema=["types", "single"], orient="row").with_row_index(
        "curve"
    )
    judged = rows.filter(pl.col("error_percent").is_not_null(), pl.col("workers") > 1).join(
        of_curves.with_columns(pl.col("curve").cast(rows.schema["curve"])), on="curve"
    )
    if judged.is_empty():
        return None
    groups = pl.concat(_figures(name, group) for name, group in _groups(judged))
    return StepTimes(groups, judged["error_percent"])


def _groups(judged: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    several = judged.filter(~pl.col("single"))
    for (name,), group in several.group_by("types", maintain_order=True):
        yield str(name), group
    for (workers,), group in several.sort("workers").group_by("workers", maintain_order=True):
        yield f"{workers} nodes", group
    yield "all", several
    yield "one image on each node", judged.filter("single")


def _figures(name: str, judged: pl.DataFrame) -> pl.DataFrame:
    error = pl.col("error_percent")
    return judged.select(
        name=pl.lit(name),
        n=pl.len(),
        mean=error.mean(),
        absolute=error.abs().mean(),
        largest=error.abs().max(),
        under=(-error.quantile(1 - UNDERESTIMATED, "linear")).clip(lower_bound=0),
    )


# How much the parts of Srift err on what they were not fitted to (Table 6; section 5.3).


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
    profiled = run_tables.rows(round_, landing, "torch_compute", "compute", "profile")
    return _means(
        {str(name): validation.pass_errors(rows) for (name,), rows in run_tables.by_name(profiled)}
    )


def _held_out(round_: Round, landing: Path) -> pl.DataFrame | None:
    runs = round_.runs_of("torch_compute")
    profiles = {_network(need): run for need, run in runs.items() if need.profiles}
    return _means(
        {
            need.title: validation.held_out_errors(
                run_tables.table(landing, profiles[_network(need)], "compute"),
                run_tables.table(landing, run, "compute"),
            )
            for need, run in runs.items()
            if not need.profiles and _network(need) in profiles
        }
    )


def _network(need: PlannedRun) -> tuple[object, ...]:
    """Return what a profile of passes and its held-out batches agree on."""
    return need.scenario.workload.dnn, need.scenario.workload.image_size, need.scenario.nodes


def _means(errors: Mapping[str, pl.DataFrame]) -> pl.DataFrame | None:
    """Return mean absolute errors of each name that has some, and of all together."""
    parts = {name: part for name, part in errors.items() if part.height}
    if not parts:
        return None
    parts["all"] = pl.concat(parts.values())
    return pl.concat(
        part.select(
            pl.lit(name).alias("name"), pl.exclude("batch_size").abs().mean(), pl.len().alias("n")
        )
        for name, part in parts.items()
    )


def _allreduces(
    round_: Round, landing: Path, warehouse: Warehouse | None, store: Store
) -> pl.DataFrame | None:
    probed = round_.runs_of("allreduce").values()
    if not probed:
        return None
    landed = [run_tables.tables(landing, run) for run in probed]
    rows, runs, clusters = (
        pl.concat([of_run[name] for of_run in landed])
        for name in ("allreduce", "run", "cluster_node")
    )

    def judged() -> pl.DataFrame:
        places, hardware = allreduces_by_place(runs, rows, clusters)
        model = _kept(round_, probed, landing, warehouse) or allreduce.fit(rows, places, hardware)
        return validation.allreduce_errors(model, rows, places)

    tables = {"allreduce": rows, "run": runs, "cluster_node": clusters}
    return store.frame(
        "allreduces", __name__, digest(data_hash(tables), *_fit(round_, warehouse)), judged
    )


def _fit(round_: Round, warehouse: Warehouse | None) -> list[str]:
    """Return the id of the fit that is kept of all runs of a round, if there is one."""
    seen = [run.run_id for run in pooled_runs(SRIFT, round_)]
    kept = None if warehouse is None else newest_kept_fit(SRIFT, seen, None, warehouse)
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
    kept = load_kept(SRIFT, [run.run_id for run in seen], tables, warehouse)
    known = isinstance(kept, Srift) and kept.parameters.bandwidth
    return known if isinstance(known, LearnedBandwidth) else None


# What all-reduces and passes of data-parallel training take (section 4.2, Fig. 5 of Srift).


@dataclass(frozen=True)
class DataParallel:
    """Rows of tables allreduce and compute (profiles alone), by the name of what was probed."""

    allreduces: Mapping[str, pl.DataFrame]
    passes: Mapping[str, pl.DataFrame]


def data_parallel(round_: Round, landing: Path) -> DataParallel | None:
    """Return what was probed of a round; None if neither all-reduces nor passes were."""
    reduced = run_tables.rows(round_, landing, "allreduce", "allreduce")
    passes = run_tables.rows(round_, landing, "torch_compute", "compute", "profile")
    if not (reduced.width or passes.width):
        return None
    return DataParallel(_named(reduced), _named(passes))


def _named(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    return {str(name): part for (name,), part in run_tables.by_name(rows)}


# How much the links of a round carry.


def goodput(round_: Round, landing: Path) -> pl.DataFrame | None:
    """Return the goodput of simultaneous flows, all flows together; None where no link was probed.

    Columns: link_mbps (that links are shaped to, NULL: not shaped), direction, flows, mbps (mean
    over trials) and trials.
    """
    rows = run_tables.rows(round_, landing, "links", "link")
    if not rows.width:
        return None
    totals = rows.group_by("link_mbps", "direction", "flows", "trial").agg(
        mbps=pl.col("bandwidth_Bps").sum() * 8e-6
    )
    return (
        totals.group_by("link_mbps", "direction", "flows")
        .agg(pl.col("mbps").mean(), trials=pl.len())
        .sort("link_mbps", "direction", "flows")
    )


# All that Srift shows, of a round.


@dataclass(frozen=True)
class SriftFindings:
    """What step times, all-reduces and passes show; None: nothing."""

    step_times: StepTimes | None
    data_parallel: DataParallel | None
    components: Components | None


def srift_findings(
    round_: Round, rows: pl.DataFrame, landing: Path, warehouse: Warehouse, store: Store
) -> SriftFindings:
    """Return what Srift shows, of a round; for the arguments, see `step_times`, `components`."""
    return SriftFindings(
        step_times(round_.study, rows) if round_.runs_of("torch_compute") else None,
        data_parallel(round_, landing),
        components(round_, landing, warehouse, store),
    )
