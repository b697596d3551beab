"""How one model does that is reused for networks which never ran (PredictDDL, sections II and IV).

What was forecast before it was measured comes from the ledger. What the paper's figures compare
besides is fitted to some of the round's runs and judged by the others
(`forecasting.findings.regressions`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl

from forecasting.chosen import systems_of
from forecasting.findings.answering import answering_s, compared
from forecasting.findings.left_out import ROWS, Contest
from forecasting.findings.regressions import Regressions, regressions
from forecasting.findings.regressors import regressors
from forecasting.findings.store import Store
from forecasting.findings.waiting import waiting, workloads_of
from forecasting.fits import told_apart
from models.ernest.systems import ERNEST
from models.predictddl.known import Known
from models.predictddl.published import epoch_s
from models.predictddl.systems import known_of, trained
from networks.families import family
from studies import landed
from studies.rounds import Round
from warehouse.landing import landed_runs
from warehouse.records import Scenario
from warehouse.warehouse import Warehouse

ABOUT = ("predictddl", "predictddl_paper")
"""A round is about reuse if one of these forecast something that was measured."""
SEEN, OTHERS, NEW_TYPE = "seen", "other networks", "a type without steps"
"""What a fit knew of a point: steps of its network, on types of nodes that it has steps of; these
types alone; not all of its types. Where no point is on types with steps, networks alone count."""
_PROBES = ("torch_throughput", "inventory")


@dataclass(frozen=True)
class Reuse:
    """How a round's forecasts of networks did, and what they asked for.

    Attributes:
        workloads: dnn, family, known (`network`, `family` or `neither` is among train scenarios),
            runs (measured), judged (scenarios) and forecasts' (Table II).
        judged: what was in the ledger before it was measured (Figs. 9 and 12): as `Contest`, `of`
            being systems and `split` one of `SEEN`, `OTHERS` and `NEW_TYPE`.
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


def reuse(
    round_: Round,
    judged: pl.DataFrame,
    landing: Path,
    warehouse: Warehouse,
    store: Store | None = None,
) -> Reuse | None:
    """Return how reused models did; None where no system of `ABOUT` was judged.

    Args:
        round_: that has landed.
        judged: as `forecasting.findings.judged.judged_of` returns it.
        landing: where its runs landed, and those of other studies.
        warehouse: that keeps fits.
        store: keeps what takes long; None: it is computed.
    """
    about = {system.name for system in systems_of(round_.study)}.intersection(ABOUT)
    if judged.filter(pl.col("system").is_in(about)).is_empty():
        return None
    data = Measured(round_, landing)
    rows = rows_of(judged, data)
    floors = judged.unique("scenario_id")["noise_floor_percent"].drop_nulls()
    workloads = workloads_of(round_, judged)
    chosen = regressors(judged, warehouse)
    waited = waiting(round_, workloads, judged, landed_runs(landing))
    is_there = not waited.filter(~pl.col("expected"), system=ERNEST.name).is_empty()
    is_compared = is_there and ABOUT[0] in about
    ours = answering_s(data.learned, workloads, store) if is_compared else []
    return Reuse(
        workloads=_workloads(data, judged),
        judged=Contest.of(rows),
        regressors=chosen,
        noise_floor=sum(floors) / len(floors) if len(floors) else None,
        noise_n=len(floors),
        regressions=regressions(data.known, *_regressors(chosen), store),
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
    def scenarios(self) -> Mapping[str, Scenario]:
        """What judges, by id."""
        found = [
            one
            for curve in self._round.study.curves
            if curve.is_judged
            for one in curve.scenarios(self._round.backend)
        ]
        return {one.scenario_id: one for one in found}

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


def rows_of(judged: pl.DataFrame, data: Measured) -> pl.DataFrame:
    """Return `ROWS` of forecasts in the ledger, `split` being one of `SEEN`, `OTHERS`, `NEW_TYPE`.

    Args:
        judged: as `forecasting.findings.judged.judged_of` returns it.
        data: what fits may have seen.
    """
    points = {name: data.scenarios[name] for name in judged["scenario_id"].unique()}
    types = {name: {group.node_type for group in one.worker_groups} for name, one in points.items()}
    with_steps = {name for name, its in types.items() if its <= data.learned.node_types}

    def split(name: str) -> str:
        if with_steps and name not in with_steps:
            return NEW_TYPE
        return SEEN if points[name].workload.dnn in data.trained else OTHERS

    rows = [
        (
            system,
            split(name),
            points[name].workload.dnn,
            points[name].strategy.workers,
            epoch_s(points[name], predicted_s),
            epoch_s(points[name], measured_s),
        )
        for system, name, predicted_s, measured_s in judged.select(
            "system", "scenario_id", "predicted", "measured"
        ).iter_rows()
    ]
    found = pl.DataFrame(rows, schema=ROWS, orient="row")
    return found.sort("of", "split", "dnn", "workers", maintain_order=True)


def _regressors(chosen: pl.DataFrame) -> tuple[str, str]:
    """Return the regressors of the fit of most forecasts, for networks in it and for others."""
    for row in chosen.head(1).iter_rows(named=True):
        return row["seen"], row["unseen"]
    return "none", "none"


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
