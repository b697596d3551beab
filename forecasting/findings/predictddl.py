"""How one model does that is reused for networks which never ran (PredictDDL, sections II and IV).

What was forecast before it was measured comes from the ledger. What the paper's figures compare
besides is fitted to some of the round's runs and judged by the others
(`forecasting.findings.predictddl`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl
from pydantic import ValidationError

from forecasting.findings import cross_validation
from forecasting.findings.collection_time import (
    answering_s,
    collection_times,
    compare_with_ernest,
    workloads_of,
)
from forecasting.findings.cross_validation import RANDOM, ROWS, Contest, Fitting, regression
from forecasting.findings.store import Store, digest, known_digest
from forecasting.fits import mark_foreign_hosts
from forecasting.inputs import systems_of
from models.ernest import ERNEST
from models.predictddl import as_published, model, work
from models.predictddl.as_published import epoch_s
from models.predictddl.fit import Parameters
from models.predictddl.systems import PREDICTDDL, load_shipped_embedder, training_set_of
from models.predictddl.training_set import TrainingSet
from networks.catalogue import family
from studies import run_tables
from studies.rounds import Round
from warehouse.landing import landed_runs
from warehouse.records import Scenario
from warehouse.warehouse import Warehouse

# What regressions tell that see some of a round's runs (Figs. 1, 2, 6 and 9 to 11 of PredictDDL).
#
# Features of networks, kinds of regressors and amounts of data are compared by fits to some of the
# runs, judged by the others. Log-linear regression on work stands beside them: what any of these
# has to beat.


SHARES: Mapping[str, int] = {"50/50": 2, "67/33": 3, "80/20": 5}
"""Of runs, that fits see and do not see, and how many parts that takes (Fig. 11)."""
_KINDS = ("polynomial", "linear", "svr", "mlp")
LOG_LINEAR = "log-linear"
_LOG_LINEAR: Mapping[str, Fitting] = {
    LOG_LINEAR: cross_validation.fit_logarithms(work.fit_log_linear)
}
_BOXES: Mapping[str, Fitting] = {
    "black box": regression(as_published.no_features, "linear", named=True),
    "gray box": regression(as_published.size_features, "linear", named=True),
    **_LOG_LINEAR,
}
_FEATURES: Mapping[str, Fitting] = {
    "layers": regression(cross_validation.layers, "polynomial"),
    "parameters": regression(cross_validation.parameters, "polynomial"),
    "layers and parameters": regression(as_published.size_features, "polynomial"),
    "embedding": regression(cross_validation.embedding, "polynomial"),
    "all of these": regression(cross_validation.everything, "polynomial"),
    **_LOG_LINEAR,
}
_PUBLISHED = "PredictDDL as published"
_OURS = "PredictDDL, ours"
_SHOWN = ("vgg16", "mobilenetv3", "mobilenet_v3")
"""How names of the networks of Figs. 1 and 2 begin."""


@dataclass(frozen=True)
class PartialRegressions:
    """What regressions do that see some of the runs.

    Attributes:
        boxes: a black and a gray box, and log-linear regression (Figs. 1 and 2).
        of_two: the same by number of servers, as `Contest.by_servers`, of two networks: those that
            the figures show come first, then those that were measured on most numbers of servers;
            of these, with most runs.
        features: of networks, into a second-order polynomial, and log-linear regression (Fig. 6).
        beside: PredictDDL as published, the second-order polynomial that it comes to in the paper,
            ours, log-linear regression and Ernest pooled (Fig. 9 as the paper splits).
        kinds: of regressors on embeddings (Fig. 10).
        amounts: of runs that a second-order polynomial sees, random splits (Fig. 11).
    """

    boxes: Contest
    of_two: pl.DataFrame
    features: Contest
    beside: Contest
    kinds: Contest
    amounts: Contest


def regressions(
    known: TrainingSet, seen: str = "none", unseen: str = "none", store: Store | None = None
) -> PartialRegressions | None:
    """Return what regressions on some runs do on the others; None: one network was measured.

    Args:
        known: all runs.
        seen: the regressor of `models.predictddl.residuals` that ours has for networks in the fit.
        unseen: the one that it has for others.
        store: keeps forecasts, which take minutes; None: they are made.
    """
    if len(known.names) < 2:
        return None
    rests_on = known_digest(known)

    def kept(name: str, compute: Callable[[], pl.DataFrame], *more: str) -> pl.DataFrame:
        on = digest(rests_on, *more)
        return (store or Store()).frame(f"regressions.{name}", __name__, on, compute)

    boxes = kept("boxes", lambda: cross_validation.contest(known, _BOXES))
    features = kept("features", lambda: cross_validation.contest(known, _FEATURES))
    beside = kept("beside", lambda: _beside(known, seen, unseen), seen, unseen)
    of_two = boxes.filter(pl.col("dnn").is_in(select_two_networks(boxes)))
    return PartialRegressions(
        boxes=Contest.of(boxes),
        of_two=cross_validation.score_forecasts(of_two, "dnn", "workers"),
        features=Contest.of(features),
        beside=Contest.of(beside),
        kinds=Contest.of(kept("kinds", lambda: _of_kinds(known))),
        amounts=Contest.of(kept("amounts", lambda: _amounts(known))),
    )


def select_two_networks(rows: pl.DataFrame) -> list[str]:
    """Return two networks: the paper's, then those on most numbers of servers, with most runs."""
    counts = rows.group_by("dnn").agg(
        shown=pl.any_horizontal(pl.col("dnn").first().str.starts_with(prefix) for prefix in _SHOWN),
        servers=pl.col("workers").n_unique(),
        runs=pl.len(),
    )
    most = counts.sort("shown", "servers", "runs", "dnn", descending=[True, True, True, False])
    return most.head(2)["dnn"].to_list()


def _beside(known: TrainingSet, seen: str, unseen: str) -> pl.DataFrame:
    fittings = {
        _PUBLISHED: regression(cross_validation.embedding, *_KINDS),
        "second-order polynomial of the embedding": _FEATURES["embedding"],
        _OURS: cross_validation.fit_logarithms(model.fit_with(seen)),
        **_LOG_LINEAR,
        "Ernest, pooled": cross_validation.fit_ernest,
    }
    of_families = {
        _PUBLISHED: cross_validation.fit_best_by_quarters(known, *_KINDS),
        _OURS: cross_validation.fit_logarithms(model.fit_with(unseen)),
    }
    return cross_validation.contest(known, fittings, of_families)


def _of_kinds(known: TrainingSet) -> pl.DataFrame:
    return cross_validation.contest(
        known,
        {kind: regression(cross_validation.embedding, kind) for kind in _KINDS},
        {kind: cross_validation.fit_best_by_quarters(known, kind) for kind in _KINDS},
    )


def _amounts(known: TrainingSet) -> pl.DataFrame:
    return pl.concat(
        cross_validation.forecasts(
            known,
            name,
            _FEATURES["embedding"],
            cross_validation.random_parts(len(known.runs), parts),
            RANDOM,
        )
        for name, parts in SHARES.items()
    )


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
        regressors: rows of `forecasting.findings.predictddl`.
        noise_floor, noise_n: of these scenarios, percent, and how many have one.
        regressions: None: too few networks were measured.
        waiting: rows of `forecasting.findings.collection_time` (Fig. 13).
        compared: rows of `forecasting.findings.collection_time`; empty where PredictDDL says
            nothing, or nobody measured Ernest's own runs.
    """

    workloads: pl.DataFrame
    judged: Contest
    regressors: pl.DataFrame
    noise_floor: float | None
    noise_n: int
    regressions: PartialRegressions | None
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
        judged: as `forecasting.findings.study.judged_forecasts` returns it.
        landing: where its runs landed, and those of other studies.
        warehouse: that keeps fits.
        store: keeps what takes long; None: it is computed.
    """
    about = {system.name for system in systems_of(round_.study)}.intersection(ABOUT)
    if judged.filter(pl.col("system").is_in(about)).is_empty():
        return None
    data = RoundSteps(round_, landing)
    rows = rows_of(judged, data)
    floors = judged.unique("scenario_id")["noise_floor_percent"].drop_nulls()
    workloads = workloads_of(round_, judged)
    chosen = regressors(judged, warehouse)
    waited = collection_times(round_, workloads, judged, landed_runs(landing))
    is_there = not waited.filter(~pl.col("expected"), system=ERNEST.name).is_empty()
    is_compared = is_there and ABOUT[0] in about
    answering = answering_s(data.learned, workloads, store) if is_compared else []
    return Reuse(
        workloads=_workloads(data, judged),
        judged=Contest.of(rows),
        regressors=chosen,
        noise_floor=sum(floors) / len(floors) if len(floors) else None,
        noise_n=len(floors),
        regressions=regressions(data.known, *_regressors(chosen), store),
        waiting=waited,
        compared=compare_with_ernest(waited, answering),
    )


class RoundSteps:
    """Steps that landed in a round, and which networks fits may see."""

    def __init__(self, round_: Round, landing: Path) -> None:
        self._round, self._landing = round_, landing

    @cached_property
    def trained(self) -> frozenset[str]:
        """Networks that fits may see steps of, here or on other hosts."""
        own = {curve.dnn for curve in self._round.study.curves if not curve.is_judged}
        return frozenset(own | {run.scenario.workload.dnn for run in self.learned.runs})

    @cached_property
    def scenarios(self) -> Mapping[str, Scenario]:
        """What judges, by id."""
        scenarios = [
            scenario
            for curve in self._round.study.curves
            if curve.is_judged
            for scenario in curve.scenarios(self._round.backend)
        ]
        return {scenario.scenario_id: scenario for scenario in scenarios}

    @cached_property
    def known(self) -> TrainingSet:
        """All steps, those that judge too."""
        names = ("run", "scenario", "sample")
        runs = list(self._round.runs_of(*_PROBES).values())
        runs += [run for run in self._round.learned if run.probe in _PROBES]
        landed = [run_tables.tables(self._landing, run) for run in runs]
        tables = {
            name: pl.concat([of_run[name] for of_run in landed if name in of_run], how="diagonal")
            for name in names
        }
        return training_set_of(
            mark_foreign_hosts(tables, self._round.host_id), load_shipped_embedder
        )

    @cached_property
    def learned(self) -> TrainingSet:
        """The steps that fits saw: not those that only judge, which are of this host."""
        ids: dict[bool, set[str]] = {True: set(), False: set()}
        for curve in self._round.study.curves:
            scenarios = curve.scenarios(self._round.backend)
            ids[curve.is_judged] |= {scenario.scenario_id for scenario in scenarios}
        hidden = ids[True] - ids[False]
        return self.known.without(lambda step: step.scenario.scenario_id in hidden)


def rows_of(judged: pl.DataFrame, data: RoundSteps) -> pl.DataFrame:
    """Return `ROWS` of forecasts in the ledger, `split` being one of `SEEN`, `OTHERS`, `NEW_TYPE`.

    Args:
        judged: as `forecasting.findings.study.judged_forecasts` returns it.
        data: what fits may have seen.
    """
    points = {name: data.scenarios[name] for name in judged["scenario_id"].unique()}
    types = {
        name: {group.node_type for group in point.worker_groups} for name, point in points.items()
    }
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
    forecasts = pl.DataFrame(rows, schema=ROWS, orient="row")
    return forecasts.sort("of", "split", "dnn", "workers", maintain_order=True)


def _regressors(chosen: pl.DataFrame) -> tuple[str, str]:
    """Return the regressors of the fit of most forecasts, for networks in it and for others."""
    for row in chosen.head(1).iter_rows(named=True):
        return row["seen"], row["unseen"]
    return "none", "none"


def _workloads(data: RoundSteps, judged: pl.DataFrame) -> pl.DataFrame:
    families = {family(name) for name in data.trained}
    counts = dict(judged.group_by("dnn").agg(pl.col("scenario_id").n_unique()).iter_rows())
    measured = [run.scenario.workload.dnn for run in data.known.runs]
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


# Which regressors PredictDDL chose in the fits whose forecasts were judged.


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
(see `models.predictddl.fit.Parameters`)."""


def regressors(judged: pl.DataFrame, warehouse: Warehouse) -> pl.DataFrame:
    """Return `COLUMNS` of each fit, those of most forecasts first.

    Args:
        judged: as `forecasting.findings.study.judged_forecasts` returns it.
        warehouse: that keeps fits.
    """
    forecasts = judged.filter(system=PREDICTDDL.name)
    counts = dict(forecasts.group_by("fit_id").len().iter_rows())
    fits = warehouse.query("fits", system=PREDICTDDL.name)
    rows = []
    for fit_id, text in fits.select("fit_id", "parameters").unique("fit_id").iter_rows():
        if fit_id not in counts:
            continue
        try:
            fitted = Parameters.model_validate_json(text)
        except ValidationError:
            continue  # Of another version.
        errors = [fitted.left_out.get(name) for name in ("predictddl", "log_linear", "histogram")]
        rows.append((counts[fit_id], fitted.seen, fitted.unseen, fitted.answers, *errors))
    return pl.DataFrame(rows, schema=COLUMNS, orient="row").sort(
        "n", "seen", "unseen", descending=True
    )
