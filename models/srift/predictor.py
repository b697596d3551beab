"""Srift: how long an iteration of synchronous training takes (Luo et al., section 4)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist, geometric_mean

import numpy as np
import polars as pl

from models.predictddl.observations import ObservedStep, observed_steps
from models.profiled_run import PREDICTED
from models.srift import allreduce as learned
from models.srift.allreduce import Speed, place
from models.srift.allreduce_samples import fit_alpha_beta
from models.srift.iteration import (
    MEASURE,
    Configuration,
    ConfigurationGroup,
    Performance,
    step_time_s,
)
from models.srift.parameters import STREAMS, Parameters, ProfiledNetwork, Settings, mean_error
from models.srift.profiles import NetworkKey, ProfileTables, allreduces_by_place, profile
from models.system import Tables
from warehouse.records import BadInput, Scenario

__all__ = ["Parameters", "Settings", "Srift", "fit"]

_SD_OF_MEAN_ERROR = sqrt(np.pi / 2)
"""Standard deviation of a normal distribution over its mean absolute deviation."""


@dataclass(frozen=True)
class Srift:
    """The models, fitted to everything that the profile runs of a study measured."""

    parameters: Parameters

    def predict(self, scenarios: Sequence[Scenario]) -> pl.DataFrame:
        """Return scenario_id, value, low, high of step_time_s, one row per scenario.

        `low` and `high` are what follows if all-reduces are faster, or slower, than the model of
        bandwidth says by as much as it errs, and what else the model errs.

        Raises:
            BadInput: a scenario that was not profiled: its network, a node type, its links.
        """
        rows = [(scenario.scenario_id, *self._predict(scenario)) for scenario in scenarios]
        return pl.DataFrame(rows, schema=PREDICTED, orient="row")

    def parameters_json(self) -> str:
        """Return the parameters as canonical JSON."""
        return self.parameters.canonical_json()

    def performance(self, network: NetworkKey, link_mbps: Speed) -> Performance:
        """Return what simulator and optimiser need to know of a network on links of a speed.

        Raises:
            BadInput: the network was not profiled, or no links of that speed.
        """
        profiled = self._network(network, link_mbps)
        settings = self.parameters.settings
        streams = settings.streams
        return Performance(
            layer_bytes=profiled.layer_bytes,
            nodes={
                name: node.model_copy(
                    update={"latency": node.latency.at_pace(self.parameters.pace)}
                )
                for name, node in profiled.nodes.items()
            },
            bandwidth=learned.SpeedBandwidth(model=self.parameters.bandwidth, link_mbps=link_mbps),
            buckets=settings.buckets,
            probability=profiled.probability,
            streams=STREAMS[self.parameters.library] if streams == "library" else streams,
            slowdown=profiled.slowdown if settings.slowdown else 0.0,
            hindrance=profiled.hindrance if settings.slowdown else 0.0,
        )

    def interval(
        self, performance: Performance, configuration: Configuration
    ) -> tuple[float, float, float]:
        """Return the step time of a configuration, and the ends of its interval."""
        settings = self.parameters.settings
        width = NormalDist().inv_cdf(0.5 + settings.coverage / 2)
        factor = 1 + width * _SD_OF_MEAN_ERROR * self.parameters.bandwidth_error
        slow, value, fast = (
            step_time_s(
                performance.model_copy(
                    update={"bandwidth": performance.bandwidth.model_copy(update={"factor": by})}
                ),
                configuration,
            )
            for by in (1 / factor, 1.0, factor)
        )
        other = width * settings.model_error * value
        low = value - sqrt((value - fast) ** 2 + other**2)
        return value, max(low, 0.0), value + sqrt((slow - value) ** 2 + other**2)

    def check_profiled(
        self, performance: Performance, node_types: Sequence[str], link_mbps: Speed
    ) -> None:
        """Refuse node types without profile of a network, or on which no all-reduce was probed.

        Raises:
            BadInput: naming the node type, and what measures it.
        """
        for name in node_types:
            performance.node(name)
            if place(name, link_mbps) not in self.parameters.places:
                raise BadInput(
                    f"no all-reduce was probed on {place(name, link_mbps)}, only on "
                    f"{', '.join(self.parameters.places)}; {MEASURE}"
                )

    def _predict(self, scenario: Scenario) -> tuple[float, float, float]:
        if scenario.strategy.kind != "all_reduce":
            raise BadInput(f"{scenario.label}: srift predicts all_reduce only")
        devices = scenario.strategy.devices_per_node
        performance = self.performance(NetworkKey.of(scenario), scenario.link_mbps)
        workers = [node for node in scenario.nodes if node.role == "worker"]
        ranks = scenario.strategy.workers * devices
        names = [worker.node_type for worker in workers]
        if ranks > 1:
            self.check_profiled(performance, names, scenario.link_mbps)
        known = self.parameters.node_groups
        for worker in workers:
            name = worker.node_type
            if name in known and worker.bare != known[name]:
                raise BadInput(
                    f"node type {name!r} was profiled with another definition than it has now; "
                    f"profile it again: {MEASURE}"
                )
        counts: dict[tuple[str, int], int] = {}
        for worker in workers:
            batch_size = (worker.batch_size or scenario.workload.batch_size) * devices
            key = (worker.node_type, batch_size)
            counts[key] = counts.get(key, 0) + worker.count
        groups = tuple(
            ConfigurationGroup(node_type=name, count=count, batch_size=batch_size)
            for (name, batch_size), count in counts.items()
        )
        return self.interval(performance.with_devices(devices), Configuration(groups=groups))

    def _network(self, network: NetworkKey, link_mbps: Speed) -> ProfiledNetwork:
        by_network: dict[str, list[ProfiledNetwork]] = {}
        for profiled in self.parameters.networks:
            name = f"{profiled.dnn} at {profiled.image_size} px"
            by_network.setdefault(name, []).append(profiled)
        wanted = f"{network.dnn} at {network.image_size} px"
        if (networks := by_network.get(wanted)) is None:
            names = ", ".join(sorted(by_network))
            raise BadInput(f"{wanted} has no compute profile, only {names} have one; {MEASURE}")
        for profiled in networks:
            if profiled.link_mbps == link_mbps:
                return profiled
        raise BadInput(
            f"links of {_speed(link_mbps)} were not probed, only "
            f"{', '.join(_speed(profiled.link_mbps) for profiled in networks)}; {MEASURE}"
        )


def fit(tables: Tables, settings: Settings | None = None) -> Srift:
    """Fit to the raw tables of all profile runs of a study, of one backend and host.

    Each network on each node type has its compute profile; all-reduces, of one library, have one
    model for all node types, link speeds and world sizes. Repeats of a probe count together.

    Args:
        tables: run, whose `config` has the speed of links; scenario; compute, layer and layer_time
            of the same runs; allreduce and cluster_node; link, for b_cap; sample, for
            `largest_batch_size`, `backward_slowdown`, `allreduce_slowdown` and `straggling_share`,
            and `step_time_s` of runs that trained, where measured.
        settings: how to fit and predict.

    Raises:
        BadInput: tables that are empty, incomplete or contradict each other.
    """
    settings = settings or Settings()
    for name in ("compute", "allreduce", "link"):
        if tables[name].is_empty():
            raise BadInput(f"srift: table {name} has no rows of these profile runs; {MEASURE}")
    runs, allreduce = tables["run"], tables["allreduce"]
    places, hardware = allreduces_by_place(runs, allreduce, tables["cluster_node"])
    model = (
        learned.fit(allreduce, places, hardware, settings.grid)
        if settings.bandwidth == "learned"
        else fit_alpha_beta(allreduce, places)
    )
    probed = ProfileTables(tables)
    networks = tuple(_networks(probed, settings))
    return Srift(
        Parameters(
            settings=settings,
            library=str(allreduce["library"][0]),
            bandwidth=model,
            bandwidth_error=mean_error(model, allreduce, places),
            places=tuple(sorted(hardware)),
            node_groups=probed.node_groups(),
            networks=networks,
            run_ids=tuple(runs["run_id"].unique().sort()),
            pace=training_factor(observed_steps(tables), networks),
        )
    )


def _networks(probed: ProfileTables, settings: Settings) -> Iterator[ProfiledNetwork]:
    slowdowns = _or_usual(probed.slowdowns("backward_slowdown"), 0.0)
    hindrances = _or_usual(probed.slowdowns("allreduce_slowdown"), 0.0)
    shares = _or_usual(probed.slowdowns("straggling_share"), 1.0)
    speeds = probed.links
    for network, tables in probed.networks().items():
        for link_mbps, links in speeds.items():
            at_speed = {name: of_type._replace(links=links) for name, of_type in tables.items()}
            profiled = profile(at_speed)
            share = shares[network] if settings.slowdown else 1.0
            yield ProfiledNetwork(
                dnn=network.dnn,
                image_size=network.image_size,
                link_mbps=link_mbps,
                slowdown=slowdowns[network],
                hindrance=hindrances[network],
                layer_bytes=profiled.layer_bytes,
                probability=profiled.probability,
                nodes={
                    name: node.model_copy(update={"latency": node.latency.straggling(share)})
                    for name, node in profiled.nodes.items()
                },
            )


def _or_usual(measured: Mapping[NetworkKey, float], unknown: float) -> Mapping[NetworkKey, float]:
    """Return what was measured of some networks; of others the mean of those, if any was."""
    usual = float(np.mean(list(measured.values()))) if measured else unknown
    return defaultdict(lambda: usual, measured)


def _speed(link_mbps: Speed) -> str:
    return "no set speed" if link_mbps is None else f"{link_mbps:g} Mb/s"


# How much longer steps of one node take in training than in its profile. Not in the paper.


def training_factor(trained: Iterable[ObservedStep], networks: Sequence[ProfiledNetwork]) -> float:
    """Return the geometric mean of measured steps over what profiles say of the same batch.

    A single node exchanges nothing and waits for nobody, so that the rest is in how it computes: a
    profile times batch sizes in turns and rests between a step's passes and its update, training
    does neither.

    Args:
        trained: mean steps of scenarios, s; those of several nodes or devices, or of networks and
            node types without a profile, do not count.
        networks: the profiles.

    Returns: 1 where no step counts.
    """
    known = {
        (network.dnn, network.image_size, node_type): node.latency
        for network in networks
        for node_type, node in network.nodes.items()
    }
    ratios = []
    for observed in trained:
        load, strategy = observed.scenario.workload, observed.scenario.strategy
        (group, *others) = observed.scenario.worker_groups
        latency = known.get((load.dnn, load.image_size, group.node_type))
        if latency is None or others or strategy.workers * strategy.devices_per_node > 1:
            continue
        ratios.append(observed.step_s / float(latency.alone_s(group.batch_size or load.batch_size)))
    return geometric_mean(ratios) if ratios else 1.0
