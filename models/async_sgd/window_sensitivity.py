"""How much predictions depend on the flow-control window WIN (section 3.2.2 of the paper)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import polars as pl

from models.async_sgd.graph import Resource
from models.async_sgd.predictor import AsyncSGD

FACTORS = (0.5, 1.0, 1.5)
HYPOTHETICAL_BYTES = 2**20
"""A window to try where every tensor is shorter than the announced one: 1 MiB."""
SEEDS = 2
"""The same for all windows, so that few will do."""
SCHEMA = {
    "workers": pl.Int32,
    "window": pl.String,
    "window_bytes": pl.Int64,
    "factor": pl.Float64,
    "bytes": pl.Int64,
    "value": pl.Float64,
    "change_percent": pl.Float64,
}


def window_sensitivity(
    model: AsyncSGD, announced_bytes: int | None, workers: Sequence[int] = (2, 3, 4)
) -> pl.DataFrame:
    """Predict with streams that are never suspended, and with WIN and WIN ± 50 %.

    The paper's rule suspends a stream once, after WIN. It changes nothing where no tensor is longer
    than the announced window; `HYPOTHETICAL_BYTES` then stands in for it.

    Args:
        model: a fitted model; of several profiles its first one counts.
        announced_bytes: the initial window of the profile's SETTINGS; None: not known.
        workers: numbers of workers to predict.

    Returns:
        workers, window (none, announced or hypothetical), window_bytes (WIN), factor, bytes (WIN
        times factor), value (steps/s of all workers), change_percent (against none).
    """
    largest = largest_transfer_bytes(model)
    hypothetical = announced_bytes is None or FACTORS[0] * announced_bytes >= largest
    window = "hypothetical" if hypothetical else "announced"
    window_bytes = HYPOTHETICAL_BYTES if hypothetical else announced_bytes
    assert window_bytes is not None
    rows: list[tuple[object, ...]] = []
    for count in workers:
        whole = _value(model, count, None)
        rows.append((count, "none", None, None, None, whole, 0.0))
        for factor in FACTORS:
            limit = round(factor * window_bytes)
            value = whole if limit >= largest else _value(model, count, limit)
            change = 100 * (value / whole - 1)
            rows.append((count, window, window_bytes, factor, limit, value, change))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def largest_transfer_bytes(model: AsyncSGD) -> int:
    """Return the size of the largest tensor that a step of the first profile transfers."""
    return max(_transfer_bytes(model), default=0)


def _transfer_bytes(model: AsyncSGD) -> Iterator[int]:
    graph = model.profile.graph
    for resource, size in zip(graph.resources, graph.sizes_bytes, strict=True):
        if resource in (Resource.DOWNLINK, Resource.UPLINK):
            yield size


def _value(model: AsyncSGD, workers: int, window_bytes: int | None) -> float:
    parameters = model.parameters
    settings = parameters.settings.model_copy(update={"window_bytes": window_bytes, "seeds": SEEDS})
    changed = replace(model, parameters=parameters.model_copy(update={"settings": settings}))
    scenario = parameters.scenario.with_workers(workers)
    return float(changed.predict([scenario])["value"][0])
