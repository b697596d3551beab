"""What tracing itself costs, taken off the profiled steps again."""

from collections.abc import Callable
from dataclasses import replace
from statistics import fmean

import polars as pl

from models.async_sgd.graph import Resource
from models.async_sgd.trace import Profile

_LEAST_SCALE, _MOST_SCALE = 0.5, 1.5
_MOST_TRIALS = 12
_TOLERANCE = 1e-3


def tracer_excess_s(timings: pl.DataFrame, steps: pl.DataFrame) -> float:
    """Return the mean seconds that tracing adds to a step until its last operation ends.

    The traced and the untraced steps are those of one run of one job. 0 where nothing is added or
    no step was run without the tracer.
    """
    untraced = steps.filter(~pl.col("traced"))
    if untraced.is_empty():
        return 0.0
    ends_us = timings.group_by("step").agg((pl.col("start_us") + pl.col("duration_us")).max())
    untraced_us = untraced["end_us"] - untraced["start_us"]
    return max(fmean(ends_us.to_series(1)) - fmean(untraced_us), 0.0) / 1e6


def untraced_s(timings: pl.DataFrame, steps: pl.DataFrame) -> float | None:
    """Return the mean seconds until a step's last operation ends without the tracer.

    None if no step was run without it.
    """
    if steps.filter(~pl.col("traced")).is_empty():
        return None
    ends_us = timings.group_by("step").agg((pl.col("start_us") + pl.col("duration_us")).max())
    return fmean(ends_us.to_series(1)) / 1e6 - tracer_excess_s(timings, steps)


def without_tracer(
    profile: Profile, seconds: float, simulated_s: Callable[[Profile], float]
) -> Profile:
    """Return the profile with computations such that a worker that is alone takes `seconds` a step.

    The tracer's work comes out of the worker's cores, so it slows all that the worker computes:
    all of it is scaled by one factor, by no more than a half.

    Args:
        profile: with the tracer's work in it.
        seconds: mean time of a step until its last operation ends.
        simulated_s: returns what the simulation of one worker takes for that.
    """
    scales = _LEAST_SCALE, _MOST_SCALE
    low, high = (scaled(profile, scale) for scale in scales)
    low_s, high_s = simulated_s(low), simulated_s(high)
    if not low_s < seconds < high_s:
        return low if seconds <= low_s < high_s else high if low_s < high_s else profile
    found = profile
    for _ in range(_MOST_TRIALS):
        scale = scales[0] + (scales[1] - scales[0]) * (seconds - low_s) / (high_s - low_s)
        found = scaled(profile, scale)
        took_s = simulated_s(found)
        if abs(took_s - seconds) <= _TOLERANCE * seconds:
            break
        if took_s < seconds:
            scales, low_s = (scale, scales[1]), took_s
        else:
            scales, high_s = (scales[0], scale), took_s
    return found


def scaled(profile: Profile, scale: float) -> Profile:
    """Return the profile with all computations of the worker longer or shorter by a factor."""
    mine = [resource is Resource.WORKER for resource in profile.graph.resources]
    steps = tuple(
        replace(
            step,
            seconds=tuple(
                s * scale if chosen else s for s, chosen in zip(step.seconds, mine, strict=True)
            ),
        )
        for step in profile.steps
    )
    return replace(profile, steps=steps)
