"""What regressions tell that see some of a round's runs (Figs. 1, 2, 6 and 9 to 11 of PredictDDL).

Features of networks, kinds of regressors and amounts of data are compared by fits to some of the
runs, judged by the others. Log-linear regression on work stands beside them: what any of these has
to beat.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import polars as pl

from forecasting.findings import left_out
from forecasting.findings.left_out import RANDOM, Contest, Fitting, regression
from forecasting.findings.store import Store, digest, known_digest
from models.predictddl import log_linear, model, published
from models.predictddl.known import Known

SHARES: Mapping[str, int] = {"50/50": 2, "67/33": 3, "80/20": 5}
"""Of runs, that fits see and do not see, and how many parts that takes (Fig. 11)."""
_KINDS = ("polynomial", "linear", "svr", "mlp")
LOG_LINEAR = "log-linear"
_LOG_LINEAR: Mapping[str, Fitting] = {LOG_LINEAR: left_out.of_logarithms(log_linear.fitted)}
_BOXES: Mapping[str, Fitting] = {
    "black box": regression(published.nothing, "linear", named=True),
    "gray box": regression(published.size, "linear", named=True),
    **_LOG_LINEAR,
}
_FEATURES: Mapping[str, Fitting] = {
    "layers": regression(left_out.layers, "polynomial"),
    "parameters": regression(left_out.parameters, "polynomial"),
    "layers and parameters": regression(published.size, "polynomial"),
    "embedding": regression(left_out.embedding, "polynomial"),
    "all of these": regression(left_out.everything, "polynomial"),
    **_LOG_LINEAR,
}
_PUBLISHED = "PredictDDL as published"
_OURS = "PredictDDL, ours"
_SHOWN = ("vgg16", "mobilenetv3", "mobilenet_v3")
"""How names of the networks of Figs. 1 and 2 begin."""


@dataclass(frozen=True)
class Regressions:
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
    known: Known, seen: str = "none", unseen: str = "none", store: Store | None = None
) -> Regressions | None:
    """Return what regressions on some runs do on the others; None: one network was measured.

    Args:
        known: all runs.
        seen: the regressor of `models.predictddl.learned` that ours has for networks in the fit.
        unseen: the one that it has for others.
        store: keeps forecasts, which take minutes; None: they are made.
    """
    if len(known.names) < 2:
        return None
    rests_on = known_digest(known)

    def kept(name: str, compute: Callable[[], pl.DataFrame], *more: str) -> pl.DataFrame:
        on = digest(rests_on, *more)
        return (store or Store()).frame(f"regressions.{name}", __name__, on, compute)

    boxes = kept("boxes", lambda: left_out.contest(known, _BOXES))
    features = kept("features", lambda: left_out.contest(known, _FEATURES))
    beside = kept("beside", lambda: _beside(known, seen, unseen), seen, unseen)
    of_two = boxes.filter(pl.col("dnn").is_in(two_shown(boxes)))
    return Regressions(
        boxes=Contest.of(boxes),
        of_two=left_out.scored(of_two, "dnn", "workers"),
        features=Contest.of(features),
        beside=Contest.of(beside),
        kinds=Contest.of(kept("kinds", lambda: _of_kinds(known))),
        amounts=Contest.of(kept("amounts", lambda: _amounts(known))),
    )


def two_shown(rows: pl.DataFrame) -> list[str]:
    """Return two networks: the paper's, then those on most numbers of servers, with most runs."""
    counts = rows.group_by("dnn").agg(
        shown=pl.any_horizontal(pl.col("dnn").first().str.starts_with(one) for one in _SHOWN),
        servers=pl.col("workers").n_unique(),
        runs=pl.len(),
    )
    most = counts.sort("shown", "servers", "runs", "dnn", descending=[True, True, True, False])
    return most.head(2)["dnn"].to_list()


def _beside(known: Known, seen: str, unseen: str) -> pl.DataFrame:
    fittings = {
        _PUBLISHED: regression(left_out.embedding, *_KINDS),
        "second-order polynomial of the embedding": _FEATURES["embedding"],
        _OURS: left_out.of_logarithms(model.ours(seen)),
        **_LOG_LINEAR,
        "Ernest, pooled": left_out.ernest,
    }
    of_families = {
        _PUBLISHED: left_out.chosen_by_quarters(known, *_KINDS),
        _OURS: left_out.of_logarithms(model.ours(unseen)),
    }
    return left_out.contest(known, fittings, of_families)


def _of_kinds(known: Known) -> pl.DataFrame:
    return left_out.contest(
        known,
        {kind: regression(left_out.embedding, kind) for kind in _KINDS},
        {kind: left_out.chosen_by_quarters(known, kind) for kind in _KINDS},
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
