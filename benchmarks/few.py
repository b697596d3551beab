"""What are a few steps of a host worth to predictddl, beside many of another host?

`python -m benchmarks.few` takes pairs of hosts in data/reference. For each it draws a few runs of
one host, forecasts that host's runs of all other families, and says how wrong it is: by the other
host alone, corrected by the drawn runs, and by the drawn runs alone. All of it is after the fact.

`python -m benchmarks.few --choose 6 --worker emu.avx2.s15` says which runs tell most of a host, by
what nodes of this type can do, before anything is measured there: one after the other, that which
leaves forecasts of all networks the least variance.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.families import tables
from forecasting.fits import told_apart
from models.predictddl import model
from models.predictddl.fitted import NORMAL, PredictDDL
from models.predictddl.known import Known
from models.predictddl.linear_work import FEWEST_RUNS
from models.predictddl.moved import Moved, Steps
from models.predictddl.systems import known_of, trained
from models.system import Tables
from models.threads import one_thread
from networks.families import family
from studies.curve import Curve
from warehouse.records import Scenario

DRAWS, SEED = 40, 32
COUNTS = (1, 2, 4, 6, 8, 12, 16, 24, 32)
_STEPS = "torch_throughput"
_FEWEST_JUDGED = 3
_ALONE = "none"
"""The regressor of a fit to few runs."""
_SETUPS = (1, 2, 4), (4, 12)
"""Workers and batches of runs that may be chosen."""


class Pair(NamedTuple):
    """Studies of the host that is forecast, and of the one that is learned from."""

    title: str
    here: tuple[str, ...]
    there: tuple[str, ...]


GRID = ("reference_grid", "grid_third")
PAIRS = (
    Pair("AMD EPYC from Intel Xeon", ("grid_host",), GRID),
    Pair("Intel Xeon from AMD EPYC", GRID, ("grid_host",)),
    Pair("H100 from H200", ("reference_h100",), ("reference_gpu",)),
    Pair("H200 from H100", ("reference_gpu",), ("reference_h100",)),
)


class Errors(NamedTuple):
    """Mean absolute errors, percent, over draws; None: that is not forecast.

    `inside` is the part of the corrected forecasts' intervals that held, `width` the mean factor
    from their middle to either end.
    """

    own_runs: int
    other_host: float
    corrected: float
    inside: float
    width: float
    alone: float | None


def known_here(pair: Pair, folder: Path) -> Known:
    """Return the runs of a pair of hosts; node types of the other are named so."""
    ours = _steps(tables(pair.here, folder / "here", train=False))
    theirs = _steps(tables(pair.there, folder / "there", train=False))
    profiles = theirs["run"].filter((pl.col("purpose") == "profile") | (pl.col("probe") != _STEPS))
    if _STEPS not in profiles["probe"]:
        profiles = theirs["run"]
    (host_id,) = ours["run"]["host_id"].unique()
    both = {
        "run": pl.concat([ours["run"], profiles]),
        **{name: pl.concat([ours[name], theirs[name]]) for name in ("scenario", "sample")},
    }
    return known_of(told_apart(both, host_id), trained)


def errors(known: Known, chance: np.random.Generator) -> Iterator[Errors]:
    """Yield how wrong forecasts of this host are, by number of its runs that are drawn."""
    found = _from_others(known)
    own = known.own
    logarithms, steps = found.uncorrected([one.scenario for one in own])
    left = np.log([one.step_s for one in own]) - logarithms
    families = np.array([family(one.scenario.workload.dnn) for one in own])
    for count in (one for one in COUNTS if 2 * one <= len(own)):
        rows = []
        for _ in range(DRAWS):
            drawn = chance.choice(len(own), count, replace=False)
            judged = np.flatnonzero(~np.isin(families, families[drawn]))
            if len(judged) < _FEWEST_JUDGED:
                continue
            moved = Moved(_taken(steps, drawn), left[drawn])
            change, deviations = moved.predict(_taken(steps, judged))
            rest, half = left[judged] - change, NORMAL * deviations
            alone = _alone(known, drawn, judged) if count >= FEWEST_RUNS + 1 else np.nan
            inside = float((np.abs(rest) <= half).mean())
            rows.append(
                [_percent(left[judged]), _percent(rest), inside, float(np.exp(half).mean()), alone]
            )
        other, corrected, inside, width, alone = np.mean(rows, axis=0)
        yield Errors(
            count, other, corrected, inside, width, None if np.isnan(alone) else float(alone)
        )


def candidates(names: Iterable[str], worker: str) -> list[Scenario]:
    """Return the runs of networks that may be chosen, on nodes of a type."""
    return [
        Curve(
            dnn=dnn,
            framework="pytorch",
            strategy="all_reduce",
            image_size=64,
            batch_size=batch_size,
            worker=(worker,),
            link_mbps=500,
            workers=(workers,),
        ).scenario(workers, "emulated")
        for dnn, workers, batch_size in product(sorted(names), *_SETUPS)
    ]


def chosen(found: PredictDDL, scenarios: Sequence[Scenario], count: int) -> list[Scenario]:
    """Return the runs that tell most of a host: forecasts of all of them vary least then."""
    _, steps = found.uncorrected(scenarios)
    taken: list[int] = []
    while len(taken) < count:
        free = [place for place in range(len(scenarios)) if place not in taken]
        taken.append(min(free, key=lambda place: variance(steps, [*taken, place])))
    return [scenarios[place] for place in taken]


def variance(steps: Steps, measured: Sequence[int]) -> float:
    """Return the mean variance of all steps when some have been measured."""
    which = np.array(measured)
    _, deviations = Moved(_taken(steps, which), np.zeros(len(which))).predict(steps)
    return float((deviations**2).mean())


def _steps(of: Tables) -> dict[str, pl.DataFrame]:
    return {name: of[name] for name in ("run", "scenario", "sample")}


def _from_others(known: Known) -> PredictDDL:
    """Return a fit to the other host's runs alone."""
    return PredictDDL.fit(known.without(lambda one: one in known.own))


def _alone(known: Known, drawn: NDArray[np.int_], judged: NDArray[np.int_]) -> float:
    """Return the error of a fit to the drawn runs alone, percent."""
    own = known.own
    scenarios = {own[place].scenario for place in drawn}
    only = known.without(lambda one: one.scenario not in scenarios)
    forecast, _ = model.ours(_ALONE)(only)([own[place].scenario for place in judged])
    return _percent(np.log([own[place].step_s for place in judged]) - forecast)


def _taken(steps: Steps, which: NDArray[np.int_]) -> Steps:
    return Steps(steps.networks[which], steps.parts[which], steps.deviations[which])


def _percent(left: NDArray[np.float64]) -> float:
    """Return the mean absolute error of forecasts whose logarithms are off by so much."""
    return 100 * float(np.abs(np.expm1(-left)).mean())


def _table(found: Mapping[str, Sequence[Errors]]) -> pl.DataFrame:
    return pl.DataFrame(
        [{"pair": title, **one._asdict()} for title, rows in found.items() for one in rows]
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.few", description=__doc__)
    parser.add_argument("--choose", type=int, metavar="N", help="runs to measure on a host")
    parser.add_argument("--worker", default="emu.avx2.s15", help="their node type")
    return parser.parse_args()


def main() -> None:
    """Print what few runs are worth, or which ones to measure."""
    asked = _arguments()
    with one_thread(), tempfile.TemporaryDirectory() as folder:
        if asked.choose:
            known = known_here(PAIRS[0], Path(folder))
            fit = _from_others(known)
            names = candidates(fit.known.source.names, asked.worker)
            runs = chosen(fit, names, asked.choose)
            sys.stdout.write("\n".join(one.label for one in runs) + "\n")
            return
        found = {}
        for place, pair in enumerate(PAIRS):
            known = known_here(pair, Path(folder, str(place)))
            found[pair.title] = list(errors(known, np.random.default_rng(SEED)))
    with pl.Config(tbl_rows=-1, tbl_width_chars=120, float_precision=2):
        sys.stdout.write(f"{_table(found)}\n")


if __name__ == "__main__":
    main()
