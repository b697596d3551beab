"""How predictions depend on WIN (3.2.2), and throughput while workers drift apart (Fig. 16)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from models.async_sgd.graph import Resource
from models.async_sgd.predictor import AsyncSGD
from models.async_sgd.synthetic_trace import Trace

FACTORS = (0.5, 1.0, 1.5)
HYPOTHETICAL_BYTES = 2**20
"""A window to try where every tensor is shorter than the announced one: 1 MiB."""
SEEDS = 2
"""The same for all windows, so that few will do."""
WINDOW_SCHEMA = {
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
    return pl.DataFrame(rows, schema=WINDOW_SCHEMA, orient="row")


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


# Throughput while workers that started together drift apart (Fig. 16 of the paper).


CONVERGENCE_SCHEMA = {"step": pl.Int32, "steps_per_s": pl.Float64}


def measured_throughput(steps: pl.DataFrame, window: int) -> pl.DataFrame:
    """Return the throughput out of the barrier of a measured run; see `throughput_of_starts`.

    Args:
        steps: table step of one run: worker, step and start_us. Workers that ended sooner than
            others decide how far it goes.
        window: steps of each worker that are averaged.
    """
    by_worker = steps.sort("worker", "step").partition_by("worker", maintain_order=True)
    count = min((rows.height for rows in by_worker), default=0)
    starts_s = np.array([rows["start_us"].to_numpy()[:count] / 1e6 for rows in by_worker])
    return throughput_of_starts(starts_s.reshape(len(by_worker), count), window)


def simulated_throughput(trace: Trace, window: int) -> pl.DataFrame:
    """Return the throughput of a synthetic trace, whose workers start at once."""
    return throughput_of_starts(trace.step_starts_s, window)


def throughput_of_starts(starts_s: NDArray[np.float64], window: int) -> pl.DataFrame:
    """Return the steps per second of all workers, by their number of steps since the start.

    Args:
        starts_s: when each step started, seconds; shape (workers, steps).
        window: steps of each worker that are averaged.

    Returns:
        step (the first of a window) and steps_per_s: the sum over workers of `window` divided by
        the time from the start of that step to the start of the one `window` steps later.
        Windows do not overlap; there is no row where there are not enough steps.
    """
    firsts = starts_s[:, ::window]
    if firsts.shape[1] < 2:
        return pl.DataFrame(schema=CONVERGENCE_SCHEMA)
    steps_per_s = (window / np.diff(firsts, axis=1)).sum(axis=0)
    rows = {"step": np.arange(len(steps_per_s)) * window, "steps_per_s": steps_per_s}
    return pl.DataFrame(rows, schema=CONVERGENCE_SCHEMA)
