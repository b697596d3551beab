"""Baselines, each fitted to profiles of one worker: docs/baselines.md."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import polars as pl
from pydantic import Field

from models.async_sgd.profiles import tracer_excess_s
from models.inputs import (
    STEPS,
    inputs_of_like_workers,
    inputs_of_profile_alone,
    link_input,
    out_of_scope_for_allreduce,
    pass_inputs,
)
from models.phases import compute_busy_s, phases, transfer_s
from models.profiled_run import PointForecaster, metric_mean, profiled_scenario, run_ids_of
from models.srift import latency
from models.srift.latency import Latency
from models.system import System, Tables
from warehouse.records import BadInput, NodeGroup, Record, Scenario
from warehouse.requirements import Refusal, Requirement


class _OfOneProfile(PointForecaster):
    run_id: str
    scenario: Scenario


# Linear scaling, the baseline of every predictor: each worker is as fast as it is alone.


_STEP_TIME = "step_time_s"


class WorkerProfile(Record):
    """A profiled run, its scenario, and seconds per step of its one worker, untraced."""

    run_id: str
    scenario: Scenario
    step_time_s: float


class LinearScaling(PointForecaster):
    """W workers do W times the steps of one: of the profiled runs, one of each type of worker."""

    profiled: tuple[WorkerProfile, ...] = Field(min_length=1)

    def value(self, scenario: Scenario) -> float:
        """Return the throughput, in steps of all workers a second."""
        step_time_s = {
            profile.scenario.worker_groups[0].one: profile.step_time_s for profile in self.profiled
        }
        return sum(group.count / step_time_s[group.one] for group in scenario.worker_groups)


def fit_linear_scaling(tables: Tables) -> LinearScaling:
    """Fit to the `step_time_s` of profile runs: seconds from a step's start to the next's.

    Raises:
        BadInput: no step time of a profile.
    """
    run_ids = run_ids_of(tables["sample"].filter(pl.col("metric") == _STEP_TIME))
    if not run_ids:
        raise BadInput(
            f"table sample: expected {_STEP_TIME} of a profile, found none; profile again"
        )
    return LinearScaling(
        profiled=tuple(
            WorkerProfile(
                run_id=run_id,
                scenario=profiled_scenario(tables, run_id),
                step_time_s=metric_mean(tables, run_id, _STEP_TIME),
            )
            for run_id in run_ids
        )
    )


LINEAR = System(
    name="linear",
    version="1",
    what="Baseline: W workers do W times the steps of one.",
    source="baseline",
    tables=("run", "scenario", "sample"),
    inputs=inputs_of_profile_alone,
    fit=fit_linear_scaling,
    load=lambda text, _: LinearScaling.model_validate_json(text),
    in_words="linear scaling",
)


# The bound that no system can beat: the server's links are full, whatever the workers do.


class LineRate(_OfOneProfile):
    """As many steps as the links carry, for any workers: one of them included.

    `transfer_s` is what a profiled step takes of the busiest direction of a link.
    """

    transfer_s: float = Field(gt=0)

    def value(self, scenario: Scenario) -> float:
        """Return the throughput, in steps of all workers a second."""
        return 1 / self.transfer_s


def fit_line_rate(tables: Tables) -> LineRate:
    """Fit to the bytes of a profiled step and the speed of its links: that of a single flow.

    Raises:
        BadInput: no bytes, or no speed of a direction.
    """
    run_id = tables["operation"]["run_id"][0]
    return LineRate(
        run_id=run_id,
        scenario=profiled_scenario(tables, run_id),
        transfer_s=max(transfer_s(tables).values()),
    )


def _requires_line_rate(scenario: Scenario) -> tuple[Requirement, ...] | Refusal:
    inputs = inputs_of_profile_alone(scenario)
    # A step has the same bytes on every type of worker.
    return inputs if isinstance(inputs, Refusal) else (inputs[0], link_input(scenario))


LINE_RATE = System(
    name="line_rate",
    version="1",
    what="Bound: the server's link is full in its busier direction, whatever W.",
    source="baseline",
    tables=("run", "scenario", "operation", "link"),
    inputs=_requires_line_rate,
    fit=fit_line_rate,
    load=lambda text, _: LineRate.model_validate_json(text),
)


# Cynthia (Zheng et al., ICPP 2019) as ICPE 2020 prints it, and its variant.


LEAST_COMPUTING = 0.5
"""Of the traced computation, however much tracing seems to cost; as async_sgd/profiles.py."""


class Cynthia(_OfOneProfile):
    """T_p, T_C and U_1 in the terms of section 1 of ICPE 2020, of a profiled run."""

    compute_s: float = Field(ge=0)
    transfer_s: float = Field(gt=0)
    utilisation: float = Field(gt=0, le=1)

    def value(self, scenario: Scenario) -> float:
        """W / (T_p max(1, W U_1) + 2 T_C): ICPE 2020, section 1, in steps and not in examples."""
        workers = scenario.strategy.workers
        computing_s = self.compute_s * max(1.0, workers * self.utilisation)
        return workers / (computing_s + 2 * self.transfer_s)


def fit_cynthia(tables: Tables, *, halved: bool = False) -> Cynthia:
    """Fit to one profile of 1 worker and 1 server.

    T_p is the time of a step in which the worker computes, less what tracing adds to a step; T_C
    the mean of both directions' bytes at the link's speed; U_1 the part of an untraced step that
    2 T_C makes up, at most 1.

    Args:
        tables: `STEPS` of the profile and of its link.
        halved: whether T_C is halved (ICPE 2020, section 4.4).

    Raises:
        BadInput: tables that are incomplete or contradict each other.
    """
    run_id = tables["operation"]["run_id"][0]
    both_ways_s = sum(transfer_s(tables).values()) * (0.5 if halved else 1.0)
    traced_s = compute_busy_s(tables)
    untraced_s = traced_s - tracer_excess_s(tables["timing"], tables["step"])
    return Cynthia(
        run_id=run_id,
        scenario=profiled_scenario(tables, run_id),
        compute_s=max(untraced_s, LEAST_COMPUTING * traced_s),
        transfer_s=both_ways_s / 2,
        utilisation=min(both_ways_s / metric_mean(tables, run_id, _STEP_TIME), 1.0),
    )


CYNTHIA = System(
    name="cynthia",
    version="1",
    what="Baseline: a closed form of computation, communication and utilisation (ICPP 2019).",
    source="Zheng, Xu, Chen, Zhou, Liu, ICPP 2019, as compared in ICPE 2020, section 4.4",
    tables=STEPS,
    inputs=inputs_of_like_workers,
    fit=fit_cynthia,
    load=lambda text, _: Cynthia.model_validate_json(text),
)
CYNTHIA_HALF = replace(
    CYNTHIA,
    name="cynthia_half",
    what="Baseline: Cynthia with communication times halved (ICPE 2020, section 4.4).",
    source="ICPE 2020, section 4.4",
    fit=partial(fit_cynthia, halved=True),
)


# The queueing model of Lin et al. (MASCOTS 2018), as far as ICPE 2020 tells.


class Lin(_OfOneProfile):
    """A closed queueing network in which each worker is a customer, of a profiled run.

    Workers queue for the downlink, the uplink and the server; for `delay_s` each is by itself.
    """

    downlink_s: float = Field(gt=0)
    uplink_s: float = Field(gt=0)
    update_s: float = Field(ge=0)
    delay_s: float = Field(ge=0)

    def value(self, scenario: Scenario) -> float:
        """Return the throughput, in steps of all workers a second."""
        demands_s = (self.downlink_s, self.uplink_s, self.update_s)
        return mva(demands_s, self.delay_s, scenario.strategy.workers)


def mva(demands_s: Sequence[float], delay_s: float, customers: int) -> float:
    """Return the throughput, customers per second, of a closed network with queues and a delay.

    Args:
        demands_s: what a customer takes of each queue, in seconds, per round.
        delay_s: how long it is away from all queues per round.
        customers: how many there are, 1 or more.

    Source: Reiser, Lavenberg, "Mean-Value Analysis of Closed Multichain Queuing Networks",
    JACM 1980. Exact where queues serve exponential times in order, or all present equally.
    """
    waiting = [0.0] * len(demands_s)
    throughput = 0.0
    for present in range(1, customers + 1):
        residence_s = [s * (1 + queue) for s, queue in zip(demands_s, waiting, strict=True)]
        throughput = present / (delay_s + sum(residence_s))
        waiting = [throughput * s for s in residence_s]
    return throughput


def fit_lin(tables: Tables) -> Lin:
    """Fit to the phases of one profile of 1 worker and 1 server.

    What tracing adds to a step is taken off the time that the worker is by itself.

    Args:
        tables: `STEPS` of the profile and of its link, and stream if packets were captured.

    Raises:
        BadInput: tables that are incomplete or contradict each other.
    """
    run_id = tables["operation"]["run_id"][0]
    mean = phases(tables).drop("step").mean().row(0, named=True)
    if not (mean["downlink_s"] > 0 and mean["uplink_s"] > 0):
        raise BadInput(
            f"run {run_id}: expected downlink and uplink phases above 0 s, found "
            f"{mean['downlink_s']:g} and {mean['uplink_s']:g}; profile again"
        )
    own_s = mean["start_s"] + mean["compute_s"] + metric_mean(tables, run_id, "client_gap_s")
    return Lin(
        run_id=run_id,
        scenario=profiled_scenario(tables, run_id),
        downlink_s=mean["downlink_s"],
        uplink_s=mean["uplink_s"],
        update_s=mean["update_s"],
        delay_s=max(own_s - tracer_excess_s(tables["timing"], tables["step"]), 0.0),
    )


LIN = System(
    name="lin",
    version="1",
    what="Baseline: workers queue for each phase of a step (Lin et al., MASCOTS 2018).",
    source="Lin, Paolieri, Chou, Golubchik, MASCOTS 2018, as compared in ICPE 2020, section 4.4",
    tables=(*STEPS, "stream"),
    inputs=inputs_of_like_workers,
    fit=fit_lin,
    load=lambda text, _: Lin.model_validate_json(text),
)


# The baseline of synchronous training: an iteration takes as long as on the slowest node alone.


class SingleNodePasses(Record):
    """How long passes of a network take on one node of a type.

    `training` is what tells it from a replica in float32 by plain SGD; empty: nothing does.
    """

    dnn: str
    image_size: int
    node_type: str
    latency: Latency
    training: str = ""


class IdealScaling(PointForecaster):
    """Linear scaling, of every profiled network and node type: exchanges take no time."""

    alone: tuple[SingleNodePasses, ...]

    def value(self, scenario: Scenario) -> float:
        """Return the seconds of a step, for which all nodes wait for the slowest."""
        return max(self._step_s(scenario, group) for group in scenario.nodes)

    def _step_s(self, scenario: Scenario, group: NodeGroup) -> float:
        load = scenario.workload
        wanted = load.dnn, load.image_size, group.node_type, _training(scenario)
        for passes in self.alone:
            if (passes.dnn, passes.image_size, passes.node_type, passes.training) == wanted:
                return float(passes.latency.alone_s(group.batch_size or load.batch_size))
        raise BadInput(
            f"{scenario.label}: {load.dnn} has no compute profile on {group.node_type}; list it in "
            "a study and `stepcast run STUDY.yaml`"
        )


def fit_ideal_scaling(tables: Tables) -> IdealScaling:
    """Fit to table compute of any number of profiles of one node.

    Raises:
        BadInput: a profile with fewer than two batch sizes.
    """
    alone = []
    for (run_id,), rows in tables["compute"].group_by("run_id", maintain_order=True):
        scenario = profiled_scenario(tables, str(run_id))
        alone.append(
            SingleNodePasses(
                dnn=scenario.workload.dnn,
                image_size=scenario.workload.image_size,
                node_type=scenario.nodes[0].node_type,
                latency=latency.fit(rows),
                training=_training(scenario),
            )
        )
    return IdealScaling(alone=tuple(alone))


def _training(scenario: Scenario) -> str:
    """Return what tells training from that of a replica in float32 by plain SGD, in words."""
    kind = scenario.strategy.kind if scenario.strategy.kind == "single" else ""
    return ", ".join(filter(None, (kind, scenario.workload.recipe)))


def _requires_passes(scenario: Scenario) -> tuple[Requirement, ...] | Refusal:
    """Rest on passes that were measured as they are asked about, whatever the recipe."""
    if (scenario.strategy.kind, scenario.workload.framework) == ("single", "pytorch"):
        return pass_inputs(scenario)
    return out_of_scope_for_allreduce(scenario) or pass_inputs(scenario)


IDEAL_SCALING = System(
    name="ideal_scaling",
    version="1",
    what="Baseline: an iteration takes as long as on the slowest node alone.",
    source="baseline",
    tables=("run", "scenario", "compute"),
    inputs=_requires_passes,
    fit=fit_ideal_scaling,
    load=lambda text, _: IdealScaling.model_validate_json(text),
    pooled=True,
    in_words="linear scaling",
    any_recipe=True,
)
