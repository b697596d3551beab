"""Where the error of a prediction comes from: compute, wire, overlap or queueing.

The time from step to step of one worker of W is

    client gap + compute + wire - overlap + queueing,

where all but the last are those of a worker alone: it computes or parses, a link sends, both at
once. Queueing is what other workers add, T(W) - T(1): waits for links, but also what a busy host,
another link and another run change.
"""

import polars as pl

from models.async_sgd.predictor import AsyncSGD
from models.async_sgd.profiles import tracer_excess_s
from models.async_sgd.timeline import Timeline, replay_steps, timeline_of_profile
from warehouse.records import BadInput

PARTS = ("compute_s", "wire_s", "overlap_s")
CAUSES = (*PARTS, "queueing_s")


def step_parts(timeline: Timeline) -> pl.DataFrame:
    """Return what the steps of one worker are made of, one row per step, in seconds.

    Returns:
        step, step_s, compute_s (the worker has something to compute), wire_s (a link is sending, in
        either direction, to or from any server; summed over links) and overlap_s: how much shorter
        the step is than compute and wire together; negative where it is longer, which is time in
        which the server works or nothing does.

    Raises:
        BadInput: steps of several workers.
    """
    if len(timeline.workers) != 1:
        raise BadInput(f"parts of steps: expected those of 1 worker, found {timeline.workers}")
    busy = _busy(timeline.intervals)
    computing = pl.col("resource") == "worker"
    sending = pl.col("resource").is_in(["downlink", "uplink"])
    used = busy.group_by("step").agg(
        compute_s=pl.col("busy_us").filter(computing).sum() / 1e6,
        wire_s=pl.col("busy_us").filter(sending).sum() / 1e6,
    )
    step_s = (pl.col("end_us") - pl.col("start_us")) / 1e6
    return (
        timeline.steps.select("step", step_s=step_s)
        .join(used, on="step", maintain_order="left")
        .with_columns(overlap_s=pl.col("compute_s") + pl.col("wire_s") - pl.col("step_s"))
    )


def replay_errors(
    model: AsyncSGD,
    *,
    operations: pl.DataFrame,
    edges: pl.DataFrame,
    timings: pl.DataFrame,
    steps: pl.DataFrame,
    streams: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Return how the steps that a model replays alone differ from the profile it was fitted to.

    Args:
        model: a model of asynchronous SGD; of several profiles its first one counts.
        operations: table operation of the profile; so the next three and the last.
        edges: table edge.
        timings: table timing.
        steps: table step.
        streams: table stream, if packets were captured: they tell when links were sending, whether
            or not the model was shown them. Else links send at the measured speed.

    Returns:
        One row with compute_s, wire_s, overlap_s: simulated less measured, means over steps in
        seconds, with the sign that they have in the sum. What the tracer adds to a step is
        taken off the measured computations, as for the model.
    """
    (group,) = model.simulation(model.parameters.scenario, 0)
    link = group.options
    assert isinstance(link.downlink_Bps, float) and isinstance(link.uplink_Bps, float)
    profile = timeline_of_profile(
        *(operations, edges, timings, steps, streams),
        downlink_Bps=link.downlink_Bps,
        uplink_Bps=link.uplink_Bps,
        since_ready=True,
    )
    simulated, measured = (
        step_parts(timeline).select(pl.col(PARTS).mean()).row(0)
        for timeline in (replay_steps(model), profile)
    )
    compute_s, wire_s, overlap_s = (
        simulated_s - measured_s
        for simulated_s, measured_s in zip(simulated, measured, strict=True)
    )
    excess_s = tracer_excess_s(timings, steps)
    return pl.DataFrame(
        {"compute_s": [compute_s + excess_s], "wire_s": [wire_s], "overlap_s": [-overlap_s]}
    )


def attribute_errors(judged: pl.DataFrame, differences: pl.DataFrame) -> pl.DataFrame:
    """Say of predictions of one job where their errors come from.

    Args:
        judged: scenario_id, workers, predicted and measured (steps/s of all workers).
        differences: what `replay_errors` returns for the model that predicted.

    Returns:
        scenario_id, predicted_s and measured_s (a worker's time from step to step), and parts of
        their difference that add up to it: compute_s, wire_s, overlap_s as they are without other
        workers, and queueing_s, all that other workers add.

    Raises:
        BadInput: a throughput that is not above 0.
    """
    slow = judged.filter(~((pl.col("predicted") > 0) & (pl.col("measured") > 0)))
    if not slow.is_empty():
        raise BadInput(
            f"scenario {slow['scenario_id'][0]}: expected throughputs above 0, found "
            f"{slow['predicted'][0]} predicted and {slow['measured'][0]} measured"
        )
    queueing_s = pl.col("predicted_s") - pl.col("measured_s") - pl.sum_horizontal(PARTS)
    return (
        judged.select(
            "scenario_id",
            predicted_s=pl.col("workers") / pl.col("predicted"),
            measured_s=pl.col("workers") / pl.col("measured"),
        )
        .join(differences.select(PARTS), how="cross")
        .with_columns(queueing_s=queueing_s)
    )


def _busy(intervals: pl.DataFrame) -> pl.DataFrame:
    """Return step, resource, server and busy_us: the length of the union of what ran there."""
    place = ["step", "resource", "server"]
    before = pl.col("end_us").cum_max().shift(1).over(place)
    fresh = pl.col("end_us") - pl.max_horizontal("start_us", before)
    return (
        intervals.sort("start_us", "end_us")
        .with_columns(busy_us=fresh.clip(lower_bound=0))
        .group_by(place)
        .agg(pl.col("busy_us").sum())
    )
