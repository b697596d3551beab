"""Throughput of asynchronous SGD with W workers, from the profile of one worker."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, sqrt
from statistics import NormalDist, fmean, stdev

import polars as pl

from models.async_sgd.compiled import Run, simulate, simulate_all
from models.async_sgd.link_profiles import link_profiles
from models.async_sgd.options import Options, Sharing
from models.async_sgd.parameters import LinkProfile, Parameters, Settings
from models.async_sgd.replaced import on_servers, replaced
from models.async_sgd.throughput import steps_per_s
from models.async_sgd.trace import Profile, read_profile
from models.async_sgd.tracer import untraced_s, without_tracer
from models.async_sgd.transfer_order import transfer_ranks
from models.profiled_run import (
    PREDICTED,
    metric_mean,
    of_run,
    only_run_id,
    profiled_scenario,
    refuse_unlike,
)
from warehouse.records import BadInput, NodeGroup, Placement, Scenario

__all__ = ["AsyncSGD", "Parameters", "Settings", "fit"]

_MIN_COUNTED_STEPS = 20
_ALONE_STEPS = 200


@dataclass(frozen=True)
class AsyncSGD:
    """The model of Li et al. (ICPE 2020), fitted to one profiled job."""

    parameters: Parameters
    profile: Profile

    def predict(self, scenarios: Sequence[Scenario]) -> pl.DataFrame:
        """Return scenario_id, value, low, high of throughput_steps_per_s, one row per scenario.

        Every seed simulates steps drawn from its own bootstrap sample of the profiled steps;
        `value` is the mean over seeds, `low` and `high` bound what one more seed would give.

        Raises:
            BadInput: a scenario with another workload, other node types, variables on other
                servers, an order that is not modelled, or a link nobody measured.
        """
        rows = [(one.scenario_id, *self._predict(one)) for one in scenarios]
        return pl.DataFrame(rows, schema=PREDICTED, orient="row")

    def with_servers(
        self, servers: int, placement: Placement, operations: pl.DataFrame
    ) -> "AsyncSGD":
        """Return this model of one server for scenarios of several, given its table operation.

        Such predictions take more for granted than those of a profile with as many servers.
        """
        scenario = on_servers(self.parameters.scenario, servers, placement)
        parameters = self.parameters.model_copy(update={"scenario": scenario, "replaced": True})
        mine = of_run(operations, self.parameters.run_id)
        return AsyncSGD(parameters, replaced(self.profile, mine, servers, placement))

    def parameters_json(self) -> str:
        """Return the parameters as canonical JSON; the profiled steps stay in their tables."""
        return self.parameters.canonical_json()

    @classmethod
    def from_json(
        cls,
        text: str,
        *,
        operations: pl.DataFrame,
        edges: pl.DataFrame,
        timings: pl.DataFrame,
        steps: pl.DataFrame,
        streams: pl.DataFrame | None = None,
    ) -> "AsyncSGD":
        """Read what `parameters_json` wrote, with the tables of the run it names."""
        parameters = Parameters.model_validate_json(text)
        tables = [of_run(one, parameters.run_id) for one in (operations, edges, timings, steps)]
        return cls(parameters, _read(parameters, tables, streams))

    def _predict(self, scenario: Scenario) -> tuple[float, float, float]:
        refuse_unlike(self.parameters.scenario, scenario)
        settings = self.parameters.settings
        traces = simulate_all(self.simulation(scenario, seed) for seed in range(settings.seeds))
        values = [steps_per_s(trace, settings.warm_up_steps) for trace in traces]
        mean = fmean(values)
        width = NormalDist().inv_cdf(0.5 + settings.coverage / 2)
        spread = stdev(values) ** 2 * (1 + 1 / len(values))
        margin = width * sqrt(spread + (settings.model_error * mean) ** 2)
        return mean, max(0.0, mean - margin), mean + margin

    def simulation(self, scenario: Scenario, seed: int) -> Run:
        """Return what is simulated to predict a scenario, with one of the seeds."""
        settings, strategy = self.parameters.settings, scenario.strategy
        link = _link_of(self.parameters, scenario)
        step_operations = len(self.profile.graph.names) * strategy.workers * settings.seeds
        affordable = settings.simulated_operations // step_operations
        probed = link.downlink_measured is not None
        alone = strategy.servers == 1 and not probed
        sharing: Sharing = "equal" if alone else settings.several_servers
        own = sharing == "max_min"
        left = 1 - (scenario.cross_traffic or 0)
        options = Options(
            workers=strategy.workers,
            steps=max(settings.warm_up_steps + _MIN_COUNTED_STEPS, affordable),
            downlink_Bps=left * link.downlink_Bps,
            uplink_Bps=left * link.uplink_Bps,
            worker_downlink_Bps=link.downlink_Bps if own else inf,
            worker_uplink_Bps=link.uplink_Bps if own else inf,
            sharing=sharing,
            downlink_spread=link.downlink_spread,
            uplink_spread=link.uplink_spread,
            newcomer_weight=1.0 if probed else settings.newcomer_weight,
            newcomer_pause_s=settings.newcomer_pause_s,
            downlink_measured=link.downlink_measured if own else None,
            uplink_measured=link.uplink_measured if own else None,
            window_bytes=settings.window_bytes if strategy.flow_control else None,
            ranks=transfer_ranks(self.profile, strategy.order, seed),
            inter_op_threads=worker_group(self.parameters.scenario).inter_op_threads,
            cores=worker_cores(self.parameters.scenario),
            server_cores=server_cores(scenario) if settings.share_server_cores else None,
            client_gap_s=(self.parameters.client_gap_s,),
            seed=seed,
        )
        steps = random.Random(seed).choices(self.profile.steps, k=len(self.profile.steps))
        return Run(self.profile.graph, steps, options)


def _link_of(parameters: Parameters, scenario: Scenario) -> LinkProfile:
    for link in parameters.links:
        if link.link_mbps == scenario.link_mbps:
            return link
    known = ", ".join(f"{one.link_mbps}" for one in parameters.links)
    raise BadInput(
        f"{scenario.label}: no link of {scenario.link_mbps} Mb/s was measured, only {known}; "
        "measure it with the links probe"
    )


def fit(
    *,
    runs: pl.DataFrame,
    scenarios: pl.DataFrame,
    operations: pl.DataFrame,
    edges: pl.DataFrame,
    timings: pl.DataFrame,
    steps: pl.DataFrame,
    samples: pl.DataFrame,
    links: pl.DataFrame,
    contention: pl.DataFrame | None = None,
    streams: pl.DataFrame | None = None,
    settings: Settings | None = None,
) -> AsyncSGD:
    """Fit to one profile of 1 worker, and to the link it was taken on.

    Args:
        runs: table run, where the profile and the speeds of links are found; may hold other runs.
        scenarios: table scenario, where its scenario is found.
        operations: table operation of exactly one run, the profile.
        edges: table edge; rows of other runs are left out here and in the next three.
        timings: table timing.
        steps: table step.
        samples: table sample, for `client_gap_s`.
        links: table link of the profiled link, and of those of other speeds that are asked about.
            The mean over trials of the goodput of a single flow is the link's speed in each
            direction.
        contention: table contention of those links and of the profile's type of worker, if probed.
        streams: table stream, if packets were captured.
        settings: how to simulate.

    Raises:
        BadInput: tables that are incomplete or contradict each other.
    """
    settings = settings or Settings()
    run_id = only_run_id(operations, "operation")
    scenario = profiled_scenario(run_id, runs, scenarios)
    parameters = Parameters(
        run_id=run_id,
        scenario=scenario,
        client_gap_s=metric_mean(samples, run_id, "client_gap_s"),
        links=tuple(link_profiles(runs, links, contention)),
        settings=settings,
    )
    tables = [of_run(one, run_id) for one in (operations, edges, timings, steps)]
    return AsyncSGD(parameters, _read(parameters, tables, streams))


def worker_group(scenario: Scenario) -> NodeGroup:
    """Return the (first) group of workers."""
    return next(group for group in scenario.nodes if group.role == "worker")


def worker_cores(scenario: Scenario) -> float:
    """Return how many operations a worker can run at the speed of one that runs alone.

    A worker with a share of less than the threads of one operation is full with that one.
    """
    group = worker_group(scenario)
    return max((group.cpu_share or group.inter_op_threads) / group.threads, 1.0)


def server_cores(scenario: Scenario) -> float:
    """Return how many operations a server can run at the speed of one that runs alone."""
    group = next(group for group in scenario.nodes if group.role == "server")
    return max(group.cpu_share or group.threads, 1.0)


def _alone_s(parameters: Parameters, profile: Profile) -> float:
    """Return how long one worker takes for a step, in the mean over steps that are drawn alike."""
    alone = parameters.scenario.with_workers(1)
    asked = AsyncSGD(parameters, profile).simulation(alone, 0).options
    # As the profiled steps were traced, whatever is supposed of other ones.
    options = replace(asked, steps=_ALONE_STEPS, window_bytes=None, ranks=None)
    trace = simulate(profile.graph, profile.steps, options)
    return float((trace.step_ends_s - trace.step_starts_s).mean())


def _read(
    parameters: Parameters, tables: Sequence[pl.DataFrame], streams: pl.DataFrame | None
) -> Profile:
    operations, edges, timings, steps = tables
    scenario = parameters.scenario
    link = _link_of(parameters, scenario)
    profile = read_profile(
        operations,
        edges,
        timings,
        steps,
        None if streams is None else of_run(streams, parameters.run_id),
        downlink_Bps=link.downlink_Bps,
        uplink_Bps=link.uplink_Bps,
        inter_op_threads=worker_group(scenario).inter_op_threads,
        cores=worker_cores(scenario),
    )
    target_s = untraced_s(timings, steps)
    if target_s is not None:
        profile = without_tracer(profile, target_s, partial(_alone_s, parameters))
    if not parameters.replaced:
        return profile
    strategy = scenario.strategy
    return replaced(profile, operations, strategy.servers, strategy.placement)
