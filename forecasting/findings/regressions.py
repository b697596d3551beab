"""What regressions tell that see some of a round's runs (Figs. 1, 2, 6 and 9 to 11 of PredictDDL).

Features of networks, kinds of regressors and amounts of data are compared by fits to some of the
runs, judged by the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from forecasting.findings import left_out
from forecasting.findings.left_out import FAMILIES, RANDOM, Contest, Fitting, regression
from models.predictddl import published
from models.predictddl.known import Known

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
        of_two: the same by number of servers, as `Contest.by_workers` with dnn, of the two networks
            that were measured on most numbers of servers; of these, with most runs.
        features: of networks, into a second-order polynomial (Fig. 6).
        beside: PredictDDL as published, and Ernest pooled (Fig. 9 as the paper splits).
        kinds: of regressors on embeddings (Fig. 10).
        amounts: of runs that a second-order polynomial sees, random splits (Fig. 11).
    """

    boxes: Contest
    of_two: pl.DataFrame
    features: Contest
    beside: Contest
    kinds: Contest
    amounts: Contest


def regressions(known: Known) -> Regressions | None:
    """Return what regressions on some runs do on the others; None: one network was measured."""
    if len(known.names) < 2:
        return None
    contest = left_out.contest
    boxes = contest(known, _BOXES)
    of_two = boxes.filter(pl.col("dnn").is_in(_most_measured(boxes)))
    return Regressions(
        boxes=Contest.of(boxes),
        of_two=left_out.scored(of_two, "dnn", "workers"),
        features=Contest.of(contest(known, _FEATURES)),
        beside=Contest.of(contest(known, _BESIDE)),
        kinds=Contest.of(_of_kinds(known)),
        amounts=Contest.of(_amounts(known)),
    )


def _most_measured(rows: pl.DataFrame) -> list[str]:
    """Return the two networks on most numbers of servers; of these, with most runs; by name."""
    counts = rows.group_by("dnn").agg(servers=pl.col("workers").n_unique(), runs=pl.len())
    most = counts.sort("servers", "runs", "dnn", descending=[True, True, False]).head(2)
    return most["dnn"].to_list()


def _of_kinds(known: Known) -> pl.DataFrame:
    parts = left_out.random_parts(len(known.runs), 5)
    families = left_out.family_parts(known)
    return pl.concat(
        left_out.forecasts(known, kind, fitting, its, split)
        for kind in _KINDS
        for split, its, fitting in (
            (RANDOM, parts, regression(left_out.embedding, kind)),
            (FAMILIES, families, left_out.chosen_by_quarters(known, kind)),
        )
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
