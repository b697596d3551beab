"""The profiles that a fit names, without what the tracer added, and how much that was."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from statistics import fmean

import polars as pl

from models.async_sgd.configuration import link_of, options_of, worker_cores
from models.async_sgd.graph import Resource
from models.async_sgd.multi_server import place_on_servers
from models.async_sgd.parameters import Parameters, ProfiledRun
from models.async_sgd.simulator import simulate
from models.async_sgd.trace import Profile, read_profile
from models.profiled_run import of_run
from warehouse.records import Scenario

_ALONE_STEPS = 200


def read_profiles(
    parameters: Parameters,
    *,
    operations: pl.DataFrame,
    edges: pl.DataFrame,
    timings: pl.DataFrame,
    steps: pl.DataFrame,
    streams: pl.DataFrame | None,
) -> Iterator[Profile]:
    """Yield the profile of each run that the parameters name; tables may hold other runs.

    Raises:
        BadInput: as `models.async_sgd.trace.read_profile`.
    """
    tables = (operations, edges, timings, steps)
    for profiled in parameters.profiled:
        mine = [of_run(table, profiled.run_id) for table in tables]
        captured = None if streams is None else of_run(streams, profiled.run_id)
        yield _read(parameters, profiled, mine, captured)


def alone_s(
    parameters: Parameters, profiled: ProfiledRun, scenario: Scenario, steps: int, profile: Profile
) -> float:
    """Return how long a worker that is alone takes for a step on the links of a scenario.

    That is the mean over `steps` steps, drawn from the profile's, whose transfers are sent as they
    were when it was traced: in order of arrival and whole.
    """
    asked = options_of(parameters, profiled, scenario, workers=1, steps=steps, seed=0)
    trace = simulate(profile.graph, profile.steps, replace(asked, window_bytes=None))
    return float((trace.step_ends_s - trace.step_starts_s).mean())


def _read(
    parameters: Parameters,
    profiled: ProfiledRun,
    tables: list[pl.DataFrame],
    streams: pl.DataFrame | None,
) -> Profile:
    operations, edges, timings, steps = tables
    scenario = profiled.scenario
    link = link_of(parameters, scenario)
    profile = read_profile(
        operations,
        edges,
        timings,
        steps,
        streams,
        downlink_Bps=link.downlink_Bps,
        uplink_Bps=link.uplink_Bps,
        inter_op_threads=scenario.worker_groups[0].inter_op_threads,
        cores=worker_cores(scenario),
    )
    target_s = untraced_s(timings, steps)
    if target_s is not None:
        took_s = partial(alone_s, parameters, profiled, scenario, _ALONE_STEPS)
        profile = without_tracer(profile, target_s, took_s)
    if not parameters.replaced:
        return profile
    strategy = scenario.strategy
    return place_on_servers(profile, operations, strategy.servers, strategy.placement)


# What tracing itself costs, taken off the profiled steps again.


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
    low, high = (scale_computations(profile, scale) for scale in scales)
    low_s, high_s = simulated_s(low), simulated_s(high)
    if not low_s < seconds < high_s:
        return low if seconds <= low_s < high_s else high if low_s < high_s else profile
    found = profile
    for _ in range(_MOST_TRIALS):
        scale = scales[0] + (scales[1] - scales[0]) * (seconds - low_s) / (high_s - low_s)
        found = scale_computations(profile, scale)
        took_s = simulated_s(found)
        if abs(took_s - seconds) <= _TOLERANCE * seconds:
            break
        if took_s < seconds:
            scales, low_s = (scale, scales[1]), took_s
        else:
            scales, high_s = (scales[0], scale), took_s
    return found


def scale_computations(profile: Profile, scale: float) -> Profile:
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
