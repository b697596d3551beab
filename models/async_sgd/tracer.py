"""What tracing itself costs, taken off the profiled steps again."""

from dataclasses import replace
from statistics import fmean

import polars as pl

from models.async_sgd.graph import Resource
from models.async_sgd.trace import Profile

_LEAST_SCALE = 0.5


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


def without_tracer(profile: Profile, excess_s: float) -> Profile:
    """Return the profile with `excess_s` less of work at the worker in a step, on average.

    The tracer's work comes out of the worker's cores, so it slows all that the worker computes:
    all of it is scaled by one factor, never below a half.
    """
    if not excess_s:
        return profile
    mine = [resource is Resource.WORKER for resource in profile.graph.resources]
    work_s = fmean(
        sum(s for s, chosen in zip(step.seconds, mine, strict=True) if chosen)
        for step in profile.steps
    )
    scale = max(1 - excess_s / work_s, _LEAST_SCALE) if work_s else 1.0
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
