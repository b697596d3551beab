"""The profiles that a fit names: without what the tracer added, and on as many servers as asked."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean

import polars as pl

from models.async_sgd.graph import Resource, StepGraph
from models.async_sgd.parameters import Parameters, ProfiledRun, link_of, options_of, worker_cores
from models.async_sgd.simulator import simulate
from models.async_sgd.trace import Profile, read_profile
from models.profiled_run import of_run
from models.system import Tables
from networks.variables import place
from warehouse.records import BadInput, Placement, Scenario

_ALONE_STEPS = 200


def read_profiles(parameters: Parameters, tables: Tables) -> Iterator[Profile]:
    """Yield the profile of each run that the parameters name; tables may hold other runs.

    Raises:
        BadInput: as `models.async_sgd.trace.read_profile`.
    """
    for profiled in parameters.profiled:
        yield _read(parameters, profiled, tables_of_run(tables, profiled.run_id))


def tables_of_run(tables: Tables, run_id: str) -> Tables:
    """Return the tables that `read_profile` reads, of one run."""
    return {name: of_run(tables[name], run_id) for name in ("operation", "edge", "timing", "step")}


def alone_s(
    parameters: Parameters, profiled: ProfiledRun, scenario: Scenario, steps: int, profile: Profile
) -> float:
    """Return how long a worker that is alone takes for a step on the links of a scenario.

    That is the mean over `steps` steps, drawn from the profile's, whose transfers are sent as they
    were when it was traced: in order of arrival and whole.
    """
    options = options_of(parameters, profiled, scenario, workers=1, steps=steps, seed=0)
    trace = simulate(profile.graph, profile.steps, replace(options, window_bytes=None))
    return float((trace.step_ends_s - trace.step_starts_s).mean())


def _read(parameters: Parameters, profiled: ProfiledRun, tables: Tables) -> Profile:
    scenario = profiled.scenario
    link = link_of(parameters, scenario)
    profile = read_profile(
        tables,
        downlink_Bps=link.downlink_Bps,
        uplink_Bps=link.uplink_Bps,
        inter_op_threads=scenario.worker_groups[0].inter_op_threads,
        cores=worker_cores(scenario),
    )
    target_s = untraced_s(tables["timing"], tables["step"])
    if target_s is not None:
        took_s = partial(alone_s, parameters, profiled, scenario, _ALONE_STEPS)
        profile = without_tracer(profile, target_s, took_s)
    if not parameters.replaced:
        return profile
    strategy = scenario.strategy
    return place_on_servers(profile, tables["operation"], strategy.servers, strategy.placement)


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
    scaled = profile
    for _ in range(_MOST_TRIALS):
        scale = scales[0] + (scales[1] - scales[0]) * (seconds - low_s) / (high_s - low_s)
        scaled = scale_computations(profile, scale)
        took_s = simulated_s(scaled)
        if abs(took_s - seconds) <= _TOLERANCE * seconds:
            break
        if took_s < seconds:
            scales, low_s = (scale, scales[1]), took_s
        else:
            scales, high_s = (scales[0], scale), took_s
    return scaled


def scale_computations(profile: Profile, scale: float) -> Profile:
    """Return the profile with all computations of the worker longer or shorter by a factor."""
    on_worker = [resource is Resource.WORKER for resource in profile.graph.resources]
    steps = tuple(
        replace(
            step,
            seconds=tuple(
                s * scale if chosen else s
                for s, chosen in zip(step.seconds, on_worker, strict=True)
            ),
        )
        for step in profile.steps
    )
    return replace(profile, steps=steps)


_VARIABLES = ("Variable", "VariableV2", "VarHandleOp")


def place_on_servers(
    profile: Profile, operations: pl.DataFrame, servers: int, placement: Placement
) -> Profile:
    """Put the variables of a profile of one server on several; times and sizes stay.

    A server's operation goes where the one variable is that it works on, and a transfer where the
    server's operations are that send or wait for it. What belongs to several variables, such as the
    learning rate, stays on server 0; really it would be sent to each. A variable counts as many
    bytes as the largest transfer of it; one that is not sent, as none.

    Args:
        profile: of one worker and one server.
        operations: table operation of that run; variables are created in its order.
        servers: how many there shall be.
        placement: the rule that divides them.

    Raises:
        BadInput: no variables.
    """
    graph = profile.graph
    rows = operations.sort("operation").filter(
        pl.col("type").is_in(_VARIABLES), pl.col("resource") == "ps"
    )
    variables: list[int] = rows["operation"].to_list()
    if not variables:
        raise BadInput(
            f"re-placing variables: expected operations of type {', '.join(_VARIABLES)} on the "
            "server, found none; profile again"
        )
    variable_of = _variable_of(graph, variables)
    sizes_bytes = dict.fromkeys(variables, 0)
    for operation, variable in variable_of.items():
        sizes_bytes[variable] = max(sizes_bytes[variable], graph.sizes_bytes[operation])
    placed = place(list(sizes_bytes.values()), servers, placement)
    server_of = dict(zip(sizes_bytes, placed, strict=True))
    on = tuple(
        server_of[variable_of[i]] if i in variable_of else 0 for i in range(len(graph.names))
    )
    return replace(profile, graph=replace(graph, servers=on))


def scenario_on_servers(scenario: Scenario, servers: int, placement: Placement) -> Scenario:
    """Return a scenario as it is with this many servers."""
    strategy = scenario.strategy.model_copy(update={"servers": servers, "placement": placement})
    nodes = tuple(
        group if group.role == "worker" else group.model_copy(update={"count": servers})
        for group in scenario.nodes
    )
    return scenario.model_copy(update={"strategy": strategy, "nodes": nodes})


def _variable_of(graph: StepGraph, variables: Sequence[int]) -> dict[int, int]:
    """Return the variable of each operation that belongs to exactly one.

    That is the one from which it can be reached without leaving the server and its links or, where
    there is none, the one that can be reached from it.
    """
    off_worker = [resource is not Resource.WORKER for resource in graph.resources]
    after: list[set[int]] = [{i} if i in set(variables) else set() for i in range(len(off_worker))]
    for operation in graph.topological:
        for target in graph.successors[operation]:
            if off_worker[operation] and off_worker[target]:
                after[target] |= after[operation]
    before: list[set[int]] = [set(reachable) for reachable in after]
    for operation in reversed(graph.topological):
        if off_worker[operation] and not after[operation]:
            for target in graph.successors[operation]:
                if off_worker[target]:
                    before[operation] |= before[target]
    return {
        i: min(reachable)
        for i, reachable in enumerate(before)
        if off_worker[i] and len(reachable) == 1
    }
