"""Figures of PredictDDL: one model reused for networks that never ran, regressions, waiting.

What was forecast before it was measured comes from the ledger. What the paper compares besides is
fitted to some of the round's runs and judged by the others (`cross_validation`).
"""

from collections.abc import Callable, Mapping

import polars as pl
from pydantic import ValidationError

from forecasting.findings import cross_validation
from forecasting.findings.cross_validation import (
    ROWS,
    Fitting,
    errors_by_servers,
    regression,
    score_forecasts,
)
from forecasting.findings.figure import MeasuredRound, PaperFigure
from forecasting.findings.mark import Mark
from forecasting.findings.store import digest, known_digest
from forecasting.inputs import systems_of
from models.ernest import ERNEST
from models.predictddl import as_published, model, work
from models.predictddl.as_published import epoch_s
from models.predictddl.fit import Parameters
from models.predictddl.systems import PREDICTDDL
from models.predictddl.training_set import TrainingSet
from networks.catalogue import family
from warehouse.landing import landed_runs
from warehouse.records import Scenario

ABOUT = ("predictddl", "predictddl_paper")
"""A round is about reuse if one of these forecast something that was measured."""
DRAWN = ("predictddl", "predictddl_paper", "log_linear", "ernest_pooled", "ernest")
"""Systems whose forecasts are drawn; tables have all."""
SEEN, OTHERS, NEW_TYPE = "seen", "other networks", "a type without steps"
"""What a fit knew of a point: steps of its network, on types of nodes that it has steps of; these
types alone; not all of its types. Where no point is on types with steps, networks alone count."""
MOST_RATIO = 100.0
"""Predicted / actual, or its inverse, that is drawn; what is beyond it stands at the edge."""
SHARES: Mapping[str, int] = {"50/50": 2, "67/33": 3, "80/20": 5}
"""Of runs, that fits see and do not see, and how many parts that takes (Fig. 11)."""
_KINDS = ("polynomial", "linear", "svr", "mlp")
_LOG_LINEAR: Mapping[str, Fitting] = {
    "log-linear": cross_validation.fit_logarithms(work.fit_log_linear)
}
_BOXES: Mapping[str, Fitting] = {
    "black box": regression(as_published.no_features, "linear", named=True),
    "gray box": regression(as_published.size_features, "linear", named=True),
    **_LOG_LINEAR,
}
_EMBEDDING = regression(cross_validation.embedding, "polynomial")
_FEATURES: Mapping[str, Fitting] = {
    "layers": regression(cross_validation.layers, "polynomial"),
    "parameters": regression(cross_validation.parameters, "polynomial"),
    "layers and parameters": regression(as_published.size_features, "polynomial"),
    "embedding": _EMBEDDING,
    "all of these": regression(cross_validation.everything, "polynomial"),
    **_LOG_LINEAR,
}
_PUBLISHED, _OURS = "PredictDDL as published", "PredictDDL, ours"


def is_about(found: MeasuredRound) -> bool:
    """Tell whether a system of `ABOUT` that the study has was judged."""
    own = {system.name for system in systems_of(found.round.study)}.intersection(ABOUT)
    return not found.judged.filter(pl.col("system").is_in(own)).is_empty()


def learned_steps(found: MeasuredRound) -> TrainingSet:
    """Return the steps that fits saw: not those that only judge, which are of this host."""
    ids: dict[bool, set[str]] = {True: set(), False: set()}
    for curve in found.round.study.curves:
        scenarios = curve.scenarios(found.round.backend)
        ids[curve.is_judged] |= {scenario.scenario_id for scenario in scenarios}
    hidden = ids[True] - ids[False]
    return found.steps.without(lambda step: step.scenario.scenario_id in hidden)


def trained_networks(found: MeasuredRound) -> frozenset[str]:
    """Return the networks that fits may see steps of, here or on other hosts."""
    own = {curve.dnn for curve in found.round.study.curves if not curve.is_judged}
    return frozenset(own | {run.scenario.workload.dnn for run in learned_steps(found).runs})


# What was in the ledger before it was measured (Figs. 9 and 12, Table II).


def workloads(found: MeasuredRound) -> pl.DataFrame | None:
    """Return how networks are known, how many of their scenarios were measured, and judged."""
    if not is_about(found):
        return None
    trained = trained_networks(found)
    families = {family(name) for name in trained}
    counts = dict(found.judged.group_by("dnn").agg(pl.col("scenario_id").n_unique()).iter_rows())
    measured = [run.scenario.workload.dnn for run in found.steps.runs]
    rows = [
        {
            "network": name,
            "family": family(name),
            "known": "trained on"
            if name in trained
            else "its family is trained on"
            if family(name) in families
            else "of another family",
            "measured": measured.count(name),
            "judged": counts.get(name, 0),
        }
        for name in sorted(set(measured))
    ]
    return pl.DataFrame(rows).sort("known", "family", "network")


def ledger_rows(found: MeasuredRound) -> pl.DataFrame | None:
    """Return `ROWS` of forecasts in the ledger, `split` being `SEEN`, `OTHERS` or `NEW_TYPE`."""
    if not is_about(found):
        return None
    points = {
        scenario.scenario_id: scenario
        for curve in found.round.study.curves
        if curve.is_judged
        for scenario in curve.scenarios(found.round.backend)
    }
    return rows_of(found.judged, points, found)


def rows_of(
    judged: pl.DataFrame, points: Mapping[str, Scenario], found: MeasuredRound
) -> pl.DataFrame:
    """Return `ROWS` of judged forecasts; `points` are what judges, by id."""
    with_steps, trained = learned_steps(found).node_types, trained_networks(found)
    known = {
        name
        for name in judged["scenario_id"].unique()
        if {group.node_type for group in points[name].worker_groups} <= with_steps
    }

    def split(name: str) -> str:
        if known and name not in known:
            return NEW_TYPE
        return SEEN if points[name].workload.dnn in trained else OTHERS

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


def ledger_errors(found: MeasuredRound) -> pl.DataFrame | None:
    """Return errors of systems by what they had seen."""
    rows = ledger_rows(found)
    return None if rows is None else score_forecasts(rows).sort("split", "error_percent")


def ledger_ratios(found: MeasuredRound) -> pl.DataFrame | None:
    """Return predicted / actual by network of the systems that are drawn."""
    rows = ledger_rows(found)
    return None if rows is None else drawn_ratios(rows)


def drawn_ratios(rows: pl.DataFrame) -> pl.DataFrame:
    """Return predicted / actual of `DRAWN`, in its order, so that colours are always the same."""
    place = pl.col("of").replace_strict(DRAWN, range(len(DRAWN)), default=None)
    scores = score_forecasts(rows.filter(pl.col("of").is_in(DRAWN)), "dnn")
    return scores.sort(place, maintain_order=True).with_columns(
        pl.col("ratio").clip(1 / MOST_RATIO, MOST_RATIO)
    )


def servers(found: MeasuredRound) -> pl.DataFrame | None:
    """Return errors by number of servers, and the least and greatest of networks (Fig. 12)."""
    rows = ledger_rows(found)
    if rows is None:
        return None
    ours = rows.filter(pl.col("of").is_in(ABOUT))
    errors = errors_by_servers(score_forecasts(ours, "dnn", "workers"))
    return errors.with_columns(by=pl.format("{}, {}", "of", "split"))


def regressors(found: MeasuredRound) -> pl.DataFrame | None:
    """Return what each judged fit chose, and its errors on families left out; most used first."""
    if not is_about(found):
        return None
    forecasts = found.judged.filter(system=PREDICTDDL.name)
    counts = dict(forecasts.group_by("fit_id").len().iter_rows())
    fits = found.warehouse.query("fits", system=PREDICTDDL.name)
    rows = []
    for fit_id, text in fits.select("fit_id", "parameters").unique("fit_id").iter_rows():
        if fit_id not in counts:
            continue
        try:
            fitted = Parameters.model_validate_json(text)
        except ValidationError:
            continue  # Of another version.
        row = {"forecasts": counts[fit_id], "seen": fitted.seen, "unseen": fitted.unseen}
        left_out = {
            name: fitted.left_out.get(name) for name in ("predictddl", "log_linear", "histogram")
        }
        rows.append({**row, "answers": fitted.answers, **left_out})
    by = ("forecasts", "seen", "unseen")
    return pl.DataFrame(rows).sort(by, descending=True) if rows else None


# What regressions tell that see some of a round's runs (Figs. 1, 2, 6 and 9 to 11).
#
# Features of networks, kinds of regressors and amounts of data are compared by fits to some of the
# runs, judged by the others. Log-linear regression on work stands beside them: what any of these
# has to beat.


def contest(
    name: str, compute: Callable[[TrainingSet], pl.DataFrame], *more: str
) -> Callable[[MeasuredRound], pl.DataFrame | None]:
    """Return figures of a contest by what was left out.

    The home keeps its forecasts, by the steps of the round and `more`.
    """

    def rows(found: MeasuredRound) -> pl.DataFrame | None:
        if not is_about(found) or len((known := found.steps).names) < 2:
            return None
        kept = found.store.frame(
            f"regressions.{name}",
            __name__,
            digest(known_digest(known), *more),
            lambda: compute(known),
        )
        return score_forecasts(kept).sort("split", "error_percent")

    return rows


def beside(found: MeasuredRound) -> pl.DataFrame | None:
    """Return ours, with the regressors of the judged fit, beside the paper's and Ernest's."""
    chosen = regressors(found)
    seen, unseen = "none", "none"
    if chosen is not None:
        seen, unseen = chosen.select("seen", "unseen").row(0)

    def compute(known: TrainingSet) -> pl.DataFrame:
        fittings = {
            _PUBLISHED: regression(cross_validation.embedding, *_KINDS),
            "second-order polynomial of the embedding": _EMBEDDING,
            _OURS: cross_validation.fit_logarithms(model.fit_with(seen)),
            **_LOG_LINEAR,
            "Ernest, pooled": cross_validation.fit_ernest,
        }
        of_families = {
            _PUBLISHED: cross_validation.fit_best_by_quarters(known, *_KINDS),
            _OURS: cross_validation.fit_logarithms(model.fit_with(unseen)),
        }
        return cross_validation.contest(known, fittings, of_families)

    return contest("beside", compute, seen, unseen)(found)


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
            _EMBEDDING,
            cross_validation.random_parts(len(known.runs), parts),
            cross_validation.RANDOM,
        )
        for name, parts in SHARES.items()
    )


# How long systems have others measure before they can answer (Fig. 13).


def waiting(found: MeasuredRound) -> pl.DataFrame | None:
    """Return seconds of the runs that fits saw, and errors, by system and number of networks.

    Networks are in the order of the study. Where forecasts by Ernest's own runs were judged, only
    the scenarios that it forecast count, for all systems. Source: section IV-B5.
    """
    if not is_about(found):
        return None
    of_ernest = found.judged.filter(system=ERNEST.name)
    judged = found.judged
    if of_ernest.height:
        judged = judged.filter(pl.col("scenario_id").is_in(of_ernest["scenario_id"].to_list()))
    order = dict.fromkeys(curve.dnn for curve in found.round.study.curves)
    networks = [name for name in order if name in set(judged["dnn"])]
    took_s = {run.run_id: run.took_s for run in landed_runs(found.landing)}
    seen = dict(found.warehouse.query("fits", system=None).select("fit_id", "run_ids").iter_rows())
    rows = []
    for (system,), of_system in judged.group_by("system", maintain_order=True):
        for count in range(1, len(networks) + 1):
            part = of_system.filter(pl.col("dnn").is_in(networks[:count]))
            runs = {run for fit_id in part["fit_id"].unique() for run in seen[fit_id]}
            rows.append(
                {
                    "system": system,
                    "workloads": count,
                    "measuring_s": sum(took_s[run] for run in runs if run in took_s),
                    "n": part.height,
                    "error_percent": part["error_percent"].abs().mean(),
                }
            )
    return pl.DataFrame(rows)


_SPLITS = "Random fifths of all runs (the paper's 80/20), and families, are left out in turn. "
FIGURES = (
    PaperFigure(
        "Which networks were measured",
        "How many of their scenarios, and how many were judged.",
        workloads,
        printed="section IV-A2",
    ),
    PaperFigure(
        "Errors by network, beside Ernest",
        "Forecasts that were in the ledger before the steps were measured, by networks that train "
        "scenarios have (<em>seen</em>) and others; nodes of a type that no step was measured on "
        "stand apart. <em>Ratio</em>: predicted / actual, the paper's measure. The paper has 1 to "
        "4 % on CIFAR-10, 1 to 30 % on Tiny-ImageNet; Ernest's error is 9.8 times that.",
        ledger_errors,
        printed="section IV-B1",
    ),
    PaperFigure(
        "Predicted / actual by network",
        f"Closer to 1 is better. What is beyond {MOST_RATIO:g} times stands at the edge.",
        ledger_ratios,
        Mark("points", "ratio", ("dnn",), of="of", panel="split", log="x"),
        (),
    ),
    PaperFigure(
        "Errors by number of servers",
        "The last columns are the least and the greatest mean of a network. In the paper, errors "
        "of workloads are 0.1 to 23.5 % on 4, 8 and 16 servers.",
        servers,
        Mark("line", "workers", ("error_percent",), of="by"),
        printed="section IV-B4",
    ),
    PaperFigure(
        "Which regressors the fits chose",
        "For networks that were trained on (<em>seen</em>) and others, who answers for these, and "
        "mean absolute errors of logarithms on families left out of the fit.",
        regressors,
    ),
    PaperFigure(
        "The paper's split, after the fact",
        f"{_SPLITS}A fit sees other runs of the networks that it is judged by, and no forecast "
        "here is in the ledger.",
        beside,
        printed="section IV-B1",
    ),
    PaperFigure(
        "Whether sizes of a network help: black box and gray box",
        f"{_SPLITS}Linear regression of epochs on the network's name, the cluster and the batch "
        "(black box), and on numbers of layers and parameters too (gray box). The paper's gray box "
        "has errors that are less by 91.2 % (MobileNet-V3) and 99.5 % (VGG-16).",
        contest("boxes", lambda known: cross_validation.contest(known, _BOXES)),
    ),
    PaperFigure(
        "What features of a network are worth",
        f"{_SPLITS}Second-order polynomials of features of a network, and of the cluster. In the "
        "paper, errors with embeddings are less by 96.4 % than with layers, and by 97.4 % than "
        "with parameters.",
        contest("features", lambda known: cross_validation.contest(known, _FEATURES)),
    ),
    PaperFigure(
        "Which kind of regressor does best",
        f"{_SPLITS}Kinds of regressors on embeddings and the cluster, with the settings of the "
        "paper's grids that err least on networks left out of the runs that a fit sees.",
        contest("kinds", _of_kinds),
    ),
    PaperFigure(
        "Whether more data helps",
        "Second-order polynomials on embeddings and the cluster, which see a half, two thirds and "
        "four fifths of the runs. In the paper, more data does not make errors less.",
        contest("amounts", _amounts),
    ),
    PaperFigure(
        "Time before an answer",
        "Seconds of the runs that a system's fits saw, and its error, by number of networks that "
        "are judged, in the order of the study; a run that serves several counts once.",
        waiting,
        Mark("line", "workloads", ("measuring_s",), of="system", log="y"),
        printed="section IV-B5",
    ),
)
