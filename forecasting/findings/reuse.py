"""How one model does that is reused for networks which never ran (PredictDDL, sections II and IV).

What was forecast before it was measured comes from the ledger. What the paper's figures compare
besides is fitted to some of the round's runs and judged by the others
(`forecasting.findings.regressions`).
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl

from forecasting.chosen import systems_of
from forecasting.findings.answering import answering_s, compared
from forecasting.findings.left_out import ROWS, Contest
from forecasting.findings.regressions import Regressions, regressions
from forecasting.findings.regressors import regressors
from forecasting.findings.waiting import waiting, workloads_of
from forecasting.fits import told_apart
from models.ernest.systems import ERNEST
from models.predictddl.known import Known
from models.predictddl.systems import known_of, trained
from networks.families import family
from studies import landed
from studies.rounds import Round
from warehouse.landing import landed_runs
from warehouse.warehouse import Warehouse

ABOUT = ("predictddl", "predictddl_paper")
"""A round is about reuse if one of these forecast something that was measured."""
_PROBES = ("torch_throughput", "inventory")


@dataclass(frozen=True)
class Reuse:
    """How a round's forecasts of networks did, and what they asked for.

    Attributes:
        workloads: dnn, family, known (`network`, `family` or `neither` is among train scenarios),
            runs (measured), judged (scenarios) and forecasts' (Table II).
        judged: what was in the ledger before it was measured (Figs. 9 and 12): as `Contest`, `of`
            being systems and `split` where the network was (`seen`, `other networks`).
        regressors: rows of `forecasting.findings.regressors`.
        noise_floor, noise_n: of these scenarios, percent, and how many have one.
        regressions: None: too few networks were measured.
        waiting: rows of `forecasting.findings.waiting` (Fig. 13).
        compared: rows of `forecasting.findings.answering`; empty where PredictDDL says nothing,
            or nobody measured Ernest's own runs.
    """

    workloads: pl.DataFrame
    judged: Contest
    regressors: pl.DataFrame
    noise_floor: float | None
    noise_n: int
    regressions: Regressions | None
    waiting: pl.DataFrame
    compared: pl.DataFrame


def reuse(round_: Round, judged: pl.DataFrame, landing: Path, warehouse: Warehouse) -> Reuse | None:
    """Return how reused models did; None where no system of `ABOUT` was judged.

    Args:
        round_: that has landed.
        judged: as `forecasting.findings.judged.judged_of` returns it.
        landing: where its runs landed, and those of other studies.
        warehouse: that keeps fits.
    """
    about = {system.name for system in systems_of(round_.study)}.intersection(ABOUT)
    if judged.filter(pl.col("system").is_in(about)).is_empty():
        return None
    data = Measured(round_, landing)
    rows = _rows(judged, data.trained)
    floors = judged.unique("scenario_id")["noise_floor_percent"].drop_nulls()
    workloads = workloads_of(round_, judged)
    waited = waiting(round_, workloads, judged, landed_runs(landing))
    is_there = not waited.filter(~pl.col("expected"), system=ERNEST.name).is_empty()
    ours = answering_s(data.learned, workloads) if is_there and ABOUT[0] in about else []
    return Reuse(
        workloads=_workloads(data, judged),
        judged=Contest.of(rows),
        regressors=regressors(judged, warehouse),
        noise_floor=sum(floors) / len(floors) if len(floors) else None,
        noise_n=len(floors),
        regressions=regressions(data.known),
        waiting=waited,
        compared=compared(waited, ours),
    )


class Measured:
    """Steps that landed in a round, and which networks fits may see."""

    def __init__(self, round_: Round, landing: Path) -> None:
        self._round, self._landing = round_, landing

    @cached_property
    def trained(self) -> frozenset[str]:
        """Networks that fits may see steps of, here or on other hosts."""
        own = {curve.dnn for curve in self._round.study.curves if not curve.is_judged}
        return frozenset(own | {one.scenario.workload.dnn for one in self.learned.runs})

    @cached_property
    def known(self) -> Known:
        """All steps, those that judge too."""
        names = ("run", "scenario", "sample")
        runs = list(self._round.runs_of(*_PROBES).values())
        runs += [run for run in self._round.learned if run.probe in _PROBES]
        found = [landed.tables(self._landing, run) for run in runs]
        tables = {
            name: pl.concat([one[name] for one in found if name in one], how="diagonal")
            for name in names
        }
        return known_of(told_apart(tables, self._round.host_id), trained)

    @cached_property
    def learned(self) -> Known:
        """The steps that fits saw: not those that only judge, which are of this host."""
        ids: dict[bool, set[str]] = {True: set(), False: set()}
        for curve in self._round.study.curves:
            scenarios = curve.scenarios(self._round.backend)
            ids[curve.is_judged] |= {one.scenario_id for one in scenarios}
        hidden = ids[True] - ids[False]
        return self.known.without(lambda one: one.scenario.scenario_id in hidden)


def _rows(judged: pl.DataFrame, seen: frozenset[str]) -> pl.DataFrame:
    is_seen = pl.col("dnn").is_in(list(seen))
    rows = judged.select(
        of="system",
        split=pl.when(is_seen).then(pl.lit("seen")).otherwise(pl.lit("other networks")),
        dnn="dnn",
        workers=pl.col("workers").cast(pl.Int64),
        predicted_s="predicted",
        measured_s="measured",
    )
    return rows.cast(pl.Schema(ROWS)).sort("of", "split", "dnn", "workers", maintain_order=True)


def _workloads(data: Measured, judged: pl.DataFrame) -> pl.DataFrame:
    families = {family(name) for name in data.trained}
    counts = dict(judged.group_by("dnn").agg(pl.col("scenario_id").n_unique()).iter_rows())
    measured = [one.scenario.workload.dnn for one in data.known.runs]
    rows = [
        (name, family(name), _known_as(name, data.trained, families), measured.count(name), n)
        for name in sorted(set(measured))
        for n in (counts.get(name, 0),)
    ]
    return pl.DataFrame(rows, ["dnn", "family", "known", "runs", "judged"], orient="row").sort(
        "known", "family", "dnn"
    )


def _known_as(name: str, names: frozenset[str], families: set[str]) -> str:
    if name in names:
        return "network"
    return "family" if family(name) in families else "neither"
