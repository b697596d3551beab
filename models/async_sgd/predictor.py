"""Throughput of asynchronous SGD with W workers, from profiles of one worker of each type."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import NormalDist, fmean, stdev

import polars as pl

from models.async_sgd.parameters import (
    Parameters,
    ProfiledRun,
    Settings,
    link_profiles,
    options_of,
    steps_of,
)
from models.async_sgd.profiles import alone_s, place_on_servers, read_profiles, scenario_on_servers
from models.async_sgd.simulator import simulate_all, simulate_together
from models.async_sgd.synthetic_trace import Trace, steps_per_s
from models.async_sgd.trace import Profile, transfer_ranks
from models.async_sgd.workers import Workers
from models.profiled_run import PREDICTED, metric_mean, of_run, profiled_scenario, run_ids_of
from models.system import Tables
from warehouse.records import Placement, Scenario

__all__ = ["AsyncSGD", "Parameters", "Settings", "fit"]

_ALONE_STEPS = 20


@dataclass(frozen=True)
class AsyncSGD:
    """The model of Li et al. (ICPE 2020), fitted to one job profiled with each type of worker.

    `profiles` are those of `parameters.profiled`.
    """

    parameters: Parameters
    profiles: tuple[Profile, ...]

    def predict(self, scenarios: Sequence[Scenario]) -> pl.DataFrame:
        """Return scenario_id, value, low, high of throughput_steps_per_s, one row per scenario.

        Every seed simulates steps drawn from its own bootstrap sample of the profiled steps;
        `value` is the mean over seeds, `low` and `high` bound what one more seed would give.

        Raises:
            BadInput: a link nobody measured.
        """
        rows = [(scenario.scenario_id, *self._predict(scenario)) for scenario in scenarios]
        return pl.DataFrame(rows, schema=PREDICTED, orient="row")

    def with_servers(
        self, servers: int, placement: Placement, operations: pl.DataFrame
    ) -> "AsyncSGD":
        """Return this model of one server for scenarios of several, given its table operation.

        Such predictions take more for granted than those of a profile with as many servers.
        """
        profiled = tuple(
            run.model_copy(
                update={"scenario": scenario_on_servers(run.scenario, servers, placement)}
            )
            for run in self.parameters.profiled
        )
        parameters = self.parameters.model_copy(update={"profiled": profiled, "replaced": True})
        profiles = (
            place_on_servers(profile, of_run(operations, run.run_id), servers, placement)
            for profile, run in zip(self.profiles, profiled, strict=True)
        )
        return AsyncSGD(parameters, tuple(profiles))

    def parameters_json(self) -> str:
        """Return the parameters as canonical JSON; the profiled steps stay in their tables."""
        return self.parameters.canonical_json()

    @classmethod
    def from_json(cls, text: str, tables: Tables) -> "AsyncSGD":
        """Read what `parameters_json` wrote, with the tables of the runs it names."""
        parameters = Parameters.model_validate_json(text)
        return cls(parameters, tuple(read_profiles(parameters, tables)))

    def _predict(self, scenario: Scenario) -> tuple[float, float, float]:
        settings = self.parameters.settings
        traces = simulate_all(self.simulation(scenario, seed) for seed in range(settings.seeds))
        values = [steps_per_s(trace, settings.warm_up_steps) for trace in traces]
        mean = fmean(values)
        width = NormalDist().inv_cdf(0.5 + settings.coverage / 2)
        spread = stdev(values) ** 2 * (1 + 1 / len(values))
        margin = width * sqrt(spread + (settings.model_error * mean) ** 2)
        return mean, max(0.0, mean - margin), mean + margin

    def simulation(self, scenario: Scenario, seed: int) -> tuple[Workers, ...]:
        """Return what is simulated to predict a scenario, with one of the seeds.

        Raises:
            BadInput: as `predict`.
        """
        # How many workers are like those of each profile, by its place.
        kinds = [run.scenario.worker_groups[0].one for run in self.parameters.profiled]
        counts: dict[int, int] = {}
        for group in scenario.worker_groups:
            place = kinds.index(group.one)
            counts[place] = counts.get(place, 0) + group.count
        profiles = [self.profiles[place] for place in counts]
        operations = [len(profile.graph.names) for profile in profiles]
        steps = steps_of(
            self.parameters.settings,
            list(counts.values()),
            operations,
            [self._alone_s(place, scenario) for place in counts] if len(counts) > 1 else [1.0],
        )
        source, is_ordered = random.Random(seed), scenario.strategy.order == "tic"
        return tuple(
            Workers(
                profile.graph,
                profile.steps,
                replace(
                    options_of(
                        self.parameters,
                        self.parameters.profiled[place],
                        scenario,
                        workers=counts[place],
                        steps=each,
                        seed=seed,
                        ranks=transfer_ranks(profile) if is_ordered else None,
                    ),
                    picked=tuple(source.choices(range(len(profile.steps)), k=len(profile.steps))),
                ),
            )
            for place, profile, each in zip(counts, profiles, steps, strict=True)
        )

    def simulated(self, scenario: Scenario, seed: int, *, steps: int) -> Trace:
        """Return a simulation of so many steps of each worker; all of them start at once.

        Raises:
            BadInput: as `predict`.
        """
        groups = self.simulation(scenario, seed)
        return simulate_together(
            [group._replace(options=replace(group.options, steps=steps)) for group in groups]
        )

    def _alone_s(self, place: int, scenario: Scenario) -> float:
        """Return how long a worker of a profile takes from step to step if it is alone."""
        profiled, profile = self.parameters.profiled[place], self.profiles[place]
        took_s = alone_s(self.parameters, profiled, scenario, _ALONE_STEPS, profile)
        return took_s + profiled.client_gap_s


def fit(tables: Tables, settings: Settings | None = None) -> AsyncSGD:
    """Fit to a profile of 1 worker of each type, and to the link they were taken on.

    Args:
        tables: `STEPS` and edge of the profiles, one run for each type of worker; link of all links
            that are asked about, and contention of those and of the types of worker, if probed.
        settings: how to simulate.

    Raises:
        BadInput: tables that are incomplete or contradict each other.
    """
    parameters = parameters_of(tables, settings or Settings())
    return AsyncSGD(parameters, tuple(read_profiles(parameters, tables)))


def parameters_of(tables: Tables, settings: Settings) -> Parameters:
    """Return what is fitted besides the profiled steps; tables and errors as in `fit`."""
    profiled = tuple(
        ProfiledRun(
            run_id=run_id,
            scenario=profiled_scenario(tables, run_id),
            client_gap_s=metric_mean(tables, run_id, "client_gap_s"),
        )
        for run_id in run_ids_of(tables["operation"])
    )
    return Parameters(profiled=profiled, links=tuple(link_profiles(tables)), settings=settings)
