"""The profiles that a fit names, read from their tables without what the tracer added."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import polars as pl

from models.async_sgd.compiled import simulate
from models.async_sgd.configuration import link_of, options_of, worker_cores
from models.async_sgd.parameters import Parameters, Profiled
from models.async_sgd.replaced import replaced
from models.async_sgd.trace import Profile, read_profile
from models.async_sgd.tracer import untraced_s, without_tracer
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
    parameters: Parameters, profiled: Profiled, scenario: Scenario, steps: int, profile: Profile
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
    profiled: Profiled,
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
    return replaced(profile, operations, strategy.servers, strategy.placement)
