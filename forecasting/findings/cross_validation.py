"""Epochs by regressions that saw some of a round's runs, judged by its other runs.

That is how the paper judges: no forecast here was made before its step was measured. An epoch takes
as many steps as `models.predictddl.as_published.EPOCH_IMAGES` ask for.

Source: Assogba et al., PredictDDL, sections II and IV.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from random import Random

import numpy as np
import polars as pl
from numpy.typing import NDArray

from models import ernest
from models.predictddl import as_published, model
from models.predictddl.as_published import OfNetwork, PublishedRegressors
from models.predictddl.observations import ObservedStep, one_thread
from models.predictddl.training_set import TrainingSet
from networks.catalogue import family
from networks.primitives import PrimitiveGraph
from warehouse.records import BadInput, Scenario

Floats = NDArray[np.float64]
StepForecaster = Callable[[Sequence[Scenario]], Floats]
Fitting = Callable[[TrainingSet], StepForecaster]
Parts = Sequence[Hashable]
"""Which part each run belongs to: a part is forecast from all others."""
RANDOM, FAMILIES = "random", "families"
ROWS = {
    "of": pl.String,
    "split": pl.String,
    "dnn": pl.String,
    "workers": pl.Int64,
    "predicted_s": pl.Float64,
    "measured_s": pl.Float64,
}
"""Forecasts of epochs: by what, and what it had not seen; seconds."""
_SEED = 32
_QUARTERS = 4


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


def random_parts(count: int, parts: int) -> Parts:
    """Return the part of each of so many runs: as large as can be alike, and drawn by a seed."""
    drawn = [place % parts for place in range(count)]
    Random(_SEED).shuffle(drawn)
    return drawn


def family_parts(known: TrainingSet) -> Parts:
    """Return the family of each run's network."""
    return [family(run.scenario.workload.dnn) for run in known.runs]


def contest(
    known: TrainingSet,
    fittings: Mapping[str, Fitting],
    of_families: Mapping[str, Fitting] | None = None,
) -> pl.DataFrame:
    """Return `ROWS` of random fifths (the paper's 80/20) and of families, each left out in turn.

    Args:
        known: all runs.
        fittings: by name.
        of_families: those that fit in another way where families are left out.
    """
    fifths, families = random_parts(len(known.runs), 5), family_parts(known)
    return pl.concat(
        forecasts(known, name, fit, parts, split)
        for name, fitting in fittings.items()
        for split, parts, fit in (
            (RANDOM, fifths, fitting),
            (FAMILIES, families, (of_families or {}).get(name, fitting)),
        )
    )


def forecasts(
    known: TrainingSet, name: str, fitting: Fitting, parts: Parts, split: str
) -> pl.DataFrame:
    """Return `ROWS`: each part by a fit to the others; none of a part to which nothing is fitted.

    Args:
        known: all runs.
        name: of what is fitted.
        fitting: fits it.
        parts: of each run.
        split: what to call this.
    """
    rows: list[tuple[str, str, str, int, float, float]] = []
    for part in dict.fromkeys(parts):
        out = [step for step, its in zip(known.runs, parts, strict=True) if its == part]
        left = set(map(id, out))
        if len(left) == len(known.runs):
            continue
        rest = known.without(lambda step, left=left: id(step) in left)  # type: ignore[misc]
        # As everywhere here: on a busy host, threads on small matrices take fifty times as long.
        with one_thread():
            try:
                steps_s = fitting(rest)([step.scenario for step in out])
            except BadInput:
                continue
        rows += [_row(name, split, step, float(s)) for step, s in zip(out, steps_s, strict=True)]
    return pl.DataFrame(rows, schema=ROWS, orient="row")


def regression(of_network: OfNetwork, *kinds: str, named: bool = False) -> Fitting:
    """Return what fits the best of some kinds of regressors to features of networks."""
    if len(kinds) == 1 and not as_published.GRIDS[kinds[0]]:
        # Nothing is to be chosen, and choosing takes four times as long as fitting.
        only = as_published.RegressorChoice(kind=kinds[0], settings={}, error=0.0)
        chosen = as_published.Parameters(chosen=only, best_of_kinds=())
        return lambda known: PublishedRegressors(known, of_network, named, chosen).steps_s
    return lambda known: (
        PublishedRegressors.fit(known, of_network, kinds=kinds, named=named).steps_s
    )


def fit_best_by_quarters(known: TrainingSet, *kinds: str) -> Fitting:
    """Return what fits the best of some kinds to embeddings, where families are left out in turn.

    Choosing takes long. So it is done once for each quarter of the families, by the runs of the
    other three: settings for a family are chosen without it, and without its quarter.
    """
    names = sorted(set(map(family, known.names)))
    chosen: dict[int, as_published.Parameters] = {}

    def fit(rest: TrainingSet) -> StepForecaster:
        (out,) = set(names) - set(map(family, rest.names))
        quarter = names.index(out) % _QUARTERS
        if quarter not in chosen:
            left = set(names[quarter::_QUARTERS])
            others = known.without(lambda step: family(step.scenario.workload.dnn) in left)
            chosen[quarter] = PublishedRegressors.fit(others, embedding, kinds=kinds).parameters
        return PublishedRegressors(rest, embedding, named=False, parameters=chosen[quarter]).steps_s

    return fit


def fit_logarithms(fitting: model.Fitting) -> Fitting:
    """Return what fits a model of logarithms of seconds."""

    def fit(known: TrainingSet) -> StepForecaster:
        forecast = fitting(known)
        return lambda scenarios: np.exp(forecast(scenarios)[0])

    return fit


def fit_ernest(known: TrainingSet) -> StepForecaster:
    """Fit Ernest's terms to all runs, whatever the network."""
    weights = ernest.fit(
        [ernest.features(run.scenario) for run in known.runs], known.steps_s.tolist()
    )
    return lambda scenarios: np.maximum(
        np.array([ernest.features(scenario) for scenario in scenarios]) @ weights, 1e-6
    )


def embedding(known: TrainingSet, graph: PrimitiveGraph) -> Sequence[float]:
    """Return the embedding of a graph, made once."""
    values: Sequence[float] = known.embedding((graph.dnn, graph.image_size), graph).tolist()
    return values


def layers(known: TrainingSet, graph: PrimitiveGraph) -> Sequence[float]:
    """Return the number of layers."""
    return as_published.size_features(known, graph)[:1]


def parameters(known: TrainingSet, graph: PrimitiveGraph) -> Sequence[float]:
    """Return the number of parameters."""
    return as_published.size_features(known, graph)[1:]


def everything(known: TrainingSet, graph: PrimitiveGraph) -> Sequence[float]:
    """Return the embedding, layers and parameters."""
    return [*embedding(known, graph), *as_published.size_features(known, graph)]


def _row(
    name: str, split: str, step: ObservedStep, predicted_s: float
) -> tuple[str, str, str, int, float, float]:
    scenario = step.scenario
    return (
        name,
        split,
        scenario.workload.dnn,
        scenario.strategy.workers,
        as_published.epoch_s(scenario, predicted_s),
        as_published.epoch_s(scenario, step.step_s),
    )
