"""How one model does that is reused for networks which never ran (PredictDDL, sections II and IV).

What was forecast before it was measured comes from the ledger. What the paper's figures compare
besides (features of networks, kinds of regressors, amounts of data) is fitted here to some of the
round's runs and judged by the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl

from forecasting.findings import left_out
from forecasting.findings.left_out import RANDOM, ROWS, Contest, Fitting, regression
from forecasting.findings.waiting import waiting
from models.predictddl import published
from models.predictddl.known import Known
from models.predictddl.systems import known_of, trained
from networks.families import family
from studies import landed
from studies.rounds import Round
from warehouse.records import BadInput

ABOUT = ("predictddl", "predictddl_paper")
"""A round is about reuse if one of these forecast something that was measured."""
SHARES: Mapping[str, int] = {"50/50": 2, "67/33": 3, "80/20": 5}
"""Of runs, that fits see and do not see, and how many parts that takes (Fig. 11)."""
_KINDS = ("polynomial", "linear", "svr", "mlp")
_BOXES: Mapping[str, Fitting] = {
    "black box": regression(published.nothing, "linear", named=True),
    "gray box": regression(published.size, "linear", named=True),
}
_FEATURES: Mapping[str, Fitting] = {
    "layers": regression(left_out.layers, "polynomial"),
    "parameters": regression(left_out.parameters, "polynomial"),
    "layers and parameters": regression(published.size, "polynomial"),
    "embedding": regression(left_out.embedding, "polynomial"),
    "all of these": regression(left_out.everything, "polynomial"),
}
_BESIDE: Mapping[str, Fitting] = {
    "PredictDDL as published": _FEATURES["embedding"],
    "Ernest, pooled": left_out.ernest,
}


@dataclass(frozen=True)
class Regressions:
    """What regressions do that see some of the runs.

    Attributes:
        boxes: a black and a gray box (Figs. 1 and 2).
        features: of networks, into a second-order polynomial (Fig. 6).
        beside: PredictDDL as published, and Ernest pooled (Fig. 9 as the paper splits).
        kinds: of regressors on embeddings (Fig. 10).
        amounts: of runs that a second-order polynomial sees, random splits (Fig. 11).
    """

    boxes: Contest
    features: Contest
    beside: Contest
    kinds: Contest
    amounts: Contest


@dataclass(frozen=True)
class Reuse:
    """How a round's forecasts of networks did, and what they asked for.

    Attributes:
        workloads: dnn, family, known (`network`, `family` or `neither` is among train scenarios),
            runs (measured), judged (scenarios) and forecasts' (Table II).
        judged: what was in the ledger before it was measured (Figs. 9 and 12): as `Contest`, `of`
            being systems and `split` where the network was (`seen`, `other networks`).
        noise_floor, noise_n: of these scenarios, percent, and how many have one.
        regressions: None: too few networks were measured.
        waiting: rows of `forecasting.findings.waiting` (Fig. 13).
    """

    workloads: pl.DataFrame
    judged: Contest
    noise_floor: float | None
    noise_n: int
    regressions: Regressions | None
    waiting: pl.DataFrame


def reuse(round_: Round, judged: pl.DataFrame, landing: Path) -> Reuse | None:
    """Return how reused models did; None where no system of `ABOUT` was judged.

    Args:
        round_: that has landed.
        judged: as `forecasting.findings.judged.judged_of` returns it.
        landing: where its runs landed.
    """
    if judged.filter(pl.col("system").is_in(ABOUT)).is_empty():
        return None
    data = _Measured(round_, landing)
    rows = _rows(judged, data.trained)
    floors = judged.unique("scenario_id")["noise_floor_percent"].drop_nulls()
    return Reuse(
        workloads=_workloads(data, judged),
        judged=Contest.of(rows),
        noise_floor=sum(floors) / len(floors) if len(floors) else None,
        noise_n=len(floors),
        regressions=_regressions(data.known),
        waiting=waiting(round_, judged),
    )


class _Measured:
    """Steps that landed in a round, and which networks fits may see."""

    def __init__(self, round_: Round, landing: Path) -> None:
        self._round, self._landing = round_, landing

    @cached_property
    def trained(self) -> frozenset[str]:
        """Networks of train scenarios."""
        return frozenset(c.dnn for c in self._round.study.curves if not c.is_judged)

    @cached_property
    def known(self) -> Known:
        """All steps, those that judge too."""
        names = ("run", "scenario", "sample")
        runs = self._round.runs_of("torch_throughput", "inventory").values()
        found = [landed.tables(self._landing, run) for run in runs]
        tables = {
            name: pl.concat([one[name] for one in found if name in one], how="diagonal")
            for name in names
        }
        return known_of(tables, trained)


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


def _workloads(data: _Measured, judged: pl.DataFrame) -> pl.DataFrame:
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


def _regressions(known: Known) -> Regressions | None:
    if len(known.names) < 2:
        return None
    contest = left_out.contest
    try:
        kinds = {kind: left_out.settled(known, kind) for kind in _KINDS}
    except BadInput:
        return None
    return Regressions(
        boxes=Contest.of(contest(known, _BOXES)),
        features=Contest.of(contest(known, _FEATURES)),
        beside=Contest.of(contest(known, _BESIDE)),
        kinds=Contest.of(contest(known, kinds)),
        amounts=Contest.of(_amounts(known)),
    )


def _amounts(known: Known) -> pl.DataFrame:
    return pl.concat(
        left_out.forecasts(
            known,
            name,
            _FEATURES["embedding"],
            left_out.random_parts(len(known.runs), parts),
            RANDOM,
        )
        for name, parts in SHARES.items()
    )
