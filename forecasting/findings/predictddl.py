"""Figures of PredictDDL: one model reused for networks that never ran, and waiting for it.

Forecasts are those of the ledger, which were there before anything that judges them was measured.
The paper's black and gray boxes and Ernest are systems too, and stand beside the others.
"""

from collections.abc import Mapping

import polars as pl

from forecasting.findings.figure import Mark, MeasuredRound, PaperFigure
from forecasting.inputs import systems_of
from models.ernest import ERNEST
from models.predictddl.as_published import epoch_s
from networks.catalogue import family
from warehouse.landing import landed_runs
from warehouse.records import Scenario

ABOUT = ("predictddl", "predictddl_paper")
"""A round is about reuse if one of these forecast something that was measured."""
SEEN, OTHERS, NEW_TYPE = "seen", "other networks", "a type without steps"
"""What a fit knew of a point: steps of its network, on types of nodes that it has steps of; these
types alone; not all of its types. Where no point is on types with steps, networks alone count."""
ROWS = {
    "of": pl.String,
    "split": pl.String,
    "dnn": pl.String,
    "workers": pl.Int64,
    "predicted_s": pl.Float64,
    "measured_s": pl.Float64,
}
"""Forecasts of epochs: by what, and what it had not seen; seconds."""


def score_forecasts(rows: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Return figures of each group of forecasts, in the order of rows; workers ascend.

    Columns: of, split, those of `by`, n, ratio (mean of predicted / actual, the paper's measure),
    error_percent (mean of absolute errors) and rmse_s. Networks are not the same on all numbers of
    servers, so workers stand beside dnn.
    """
    ratio = pl.col("predicted_s") / pl.col("measured_s")
    left = pl.col("predicted_s") - pl.col("measured_s")
    scores = rows.group_by("of", "split", *by, maintain_order=True).agg(
        n=pl.len(),
        ratio=ratio.mean(),
        error_percent=100 * (ratio - 1).abs().mean(),
        rmse_s=(left**2).mean().sqrt(),
    )
    return scores.sort("workers", maintain_order=True) if "workers" in by else scores


def errors_by_servers(by_servers: pl.DataFrame) -> pl.DataFrame:
    """Return errors on each number of servers, and how far those of single networks are apart.

    Args:
        by_servers: of `score_forecasts`, by dnn and workers.

    Returns: of, split, workers, networks (how many), n, error_percent (mean of all n), and the
        least and greatest mean of a network: of absolute errors, least_percent and most_percent,
        and of predicted / actual, lowest and highest.
    """
    error, ratio = pl.col("error_percent"), pl.col("ratio")
    errors = by_servers.group_by("of", "split", "workers", maintain_order=True).agg(
        networks=pl.len(),
        n=pl.col("n").sum(),
        error_percent=(error * pl.col("n")).sum() / pl.col("n").sum(),
        least_percent=error.min(),
        most_percent=error.max(),
        lowest=ratio.min(),
        highest=ratio.max(),
    )
    return errors.sort("of", "split", "workers", maintain_order=True)


def is_about(found: MeasuredRound) -> bool:
    """Tell whether a system of `ABOUT` that the study has was judged."""
    own = {system.name for system in systems_of(found.round.study)}.intersection(ABOUT)
    return not found.judged.filter(pl.col("system").is_in(own)).is_empty()


def learned(found: MeasuredRound) -> list[Scenario]:
    """Return what fits saw steps of: not what only judges, which is of this host."""
    ids: dict[bool, set[str]] = {True: set(), False: set()}
    for curve in found.round.study.curves:
        scenarios = curve.scenarios(found.round.backend)
        ids[curve.is_judged] |= {scenario.scenario_id for scenario in scenarios}
    hidden = ids[True] - ids[False]
    return [scenario for scenario in found.trained if scenario.scenario_id not in hidden]


def trained_networks(found: MeasuredRound) -> frozenset[str]:
    """Return the networks that fits may see steps of, here or on other hosts."""
    own = {curve.dnn for curve in found.round.study.curves if not curve.is_judged}
    return frozenset(own | {scenario.workload.dnn for scenario in learned(found)})


def workloads(found: MeasuredRound) -> pl.DataFrame | None:
    """Return how networks are known, how many of their scenarios were measured, and judged."""
    if not is_about(found):
        return None
    trained = trained_networks(found)
    families = {family(name) for name in trained}
    counts = dict(found.judged.group_by("dnn").agg(pl.col("scenario_id").n_unique()).iter_rows())
    measured = [scenario.workload.dnn for scenario in found.trained]
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
    trained = trained_networks(found)
    with_steps = {
        group.node_type for scenario in learned(found) for group in scenario.worker_groups
    }
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
    """Return errors of systems by what they had seen (Figs. 1, 2, 6 and 9)."""
    rows = ledger_rows(found)
    return None if rows is None else score_forecasts(rows).sort("split", "error_percent")


def servers(found: MeasuredRound) -> pl.DataFrame | None:
    """Return errors by number of servers, and the least and greatest of networks (Fig. 12)."""
    rows = ledger_rows(found)
    if rows is None:
        return None
    ours = rows.filter(pl.col("of").is_in(ABOUT))
    errors = errors_by_servers(score_forecasts(ours, "dnn", "workers"))
    return errors.with_columns(by=pl.format("{}, {}", "of", "split"))


def waiting(found: MeasuredRound) -> pl.DataFrame | None:
    """Return seconds of the runs that fits saw, and errors, by system and number of networks.

    Networks are in the order of the study. Where forecasts by Ernest's own runs were judged, only
    the scenarios that it forecast count, for all systems. Source: section IV-B5, Fig. 13.
    """
    if not is_about(found):
        return None
    judged = found.judged
    of_ernest = judged.filter(system=ERNEST.name)
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


FIGURES = (
    PaperFigure(
        "Which networks were measured",
        "How many of their scenarios, and how many were judged.",
        workloads,
        printed="section IV-A2",
    ),
    PaperFigure(
        "Errors by network, beside boxes and Ernest",
        "Forecasts that were in the ledger before the steps were measured, by networks that train "
        "scenarios have (<em>seen</em>) and others; nodes of a type that no step was measured on "
        "stand apart. <em>Ratio</em>: predicted / actual, the paper's measure. The paper has 1 to "
        "4 % on CIFAR-10, 1 to 30 % on Tiny-ImageNet; Ernest's error is 9.8 times that. Its gray "
        "box (layers and parameters) has errors that are less than the black box's by 91.2 % "
        "(MobileNet-V3) and 99.5 % (VGG-16); embeddings have 96.4 % less than layers.",
        ledger_errors,
        printed="section IV-B1",
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
        "Time before an answer",
        "Seconds of the runs that a system's fits saw, and its error, by number of networks that "
        "are judged, in the order of the study; a run that serves several counts once.",
        waiting,
        Mark("line", "workloads", ("measuring_s",), of="system", log="y"),
        printed="section IV-B5",
    ),
)
