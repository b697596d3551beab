"""Ernest: steps of a job as a black box, from a few runs that its own design chooses."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from models.inputs import out_of_scope_for_allreduce
from models.predictddl.observations import ObservedStep, batch_of, images_per_step, observed_steps
from models.profiled_run import PointForecaster
from models.system import System, Tables
from warehouse.records import BadInput, NodeGroup, Scenario
from warehouse.requirements import Refusal, Requirement

# Ernest's terms of a step: fixed, of the data that each machine has, of trees and of all machines.
#
# Source: Venkataraman et al., NSDI 2016, section 3.2: θ0 + θ1 (scale / machines) + θ2 log(machines)
# + θ3 machines, coefficients of 0 or more.


Floats = NDArray[np.float64]


def features(scenario: Scenario) -> Floats:
    """Return the four terms of a scenario, whose scale is the images of a step."""
    machines = scenario.strategy.workers
    return terms(machines, images_per_step(scenario) / machines)


def terms(machines: float, each: float) -> Floats:
    """Return the four terms of so many machines, each of which has so many images."""
    return np.array([1.0, each, np.log(machines), float(machines)])


def fit(rows: Sequence[Floats], seconds: Sequence[float]) -> Floats:
    """Return coefficients of 0 or more, by least squares of seconds."""
    coefficients, _ = scipy.optimize.nnls(np.array(rows), np.array(seconds))
    return np.asarray(coefficients)


# Which runs Ernest asks for: those whose coefficients would be known best for their cost.
#
# Source: Venkataraman et al., NSDI 2016, section 3.3: choose weights λ of runs so that the trace of
# the inverse of Σ λ x xᵀ is least while Σ λ cost is within a budget (A-optimal design), and take
# those whose weight is not small.


_TAKEN = 0.1
"""Least weight of a run that is taken."""
BUDGET = 0.5
"""Part of the machine time that all of them would take."""
_RIDGE = 1e-6
MACHINES = (1, 2, 4)
"""Numbers of machines that its own runs have."""
PARTS = (0.5, 1.0)
"""Of a batch, that its own runs have: Ernest runs jobs on a part of their data."""


@lru_cache
def design(batch_size: int) -> tuple[tuple[int, int], ...]:
    """Return pairs of machines, and images of each, that are worth running for a batch."""
    images = dict.fromkeys(max(1, round(part * batch_size)) for part in PARTS)
    points = tuple((count, each) for count in MACHINES for each in images)
    return tuple(
        point for point, weight in zip(points, weights(points), strict=True) if weight > _TAKEN
    )


def weights(points: Sequence[tuple[int, int]]) -> Floats:
    """Return the weight of each pair of machines and images."""
    rows = np.array([terms(count, each) for count, each in points])
    rows = rows / np.linalg.norm(rows, axis=0)
    cost = np.array([count * each for count, each in points], float)
    cost = cost / cost.sum()

    def uncertainty(given: Floats) -> float:
        information = (rows.T * given) @ rows + _RIDGE * np.eye(rows.shape[1])
        return float(np.trace(np.linalg.inv(information)))

    optimum = scipy.optimize.minimize(
        uncertainty,
        np.full(len(points), BUDGET),
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(points),
        constraints={"type": "ineq", "fun": lambda given: BUDGET - given @ cost},
        options={"maxiter": 300},
    )
    return np.asarray(optimum.x)


# Ernest as systems: pooled over all train scenarios, and with probes of its own.


POOL = ""


class Ernest(PointForecaster):
    """Coefficients by job: of a network, its images and a node type; of all jobs, `POOL`."""

    coefficients: Mapping[str, tuple[float, ...]]

    def value(self, scenario: Scenario) -> float:
        """Return seconds of a step: of nodes of several types, those of the slowest.

        Each type forecasts all machines with the batch that its own devices have, as its own runs
        do. The pool has no types, and the mean batch of all.
        """
        if POOL in self.coefficients:
            return self._of(POOL, features(scenario))
        of_types = []
        for group in scenario.worker_groups:
            job = _job(scenario, group)
            if job not in self.coefficients:
                raise BadInput(
                    f"{scenario.label}: Ernest has no run of {job}; list it in a study of "
                    "system ernest, and `stepcast run`"
                )
            row = terms(scenario.strategy.workers, float(batch_of(scenario, group)))
            of_types.append(self._of(job, row))
        return max(of_types)

    def _of(self, job: str, row: Floats) -> float:
        return max(float(row @ np.array(self.coefficients[job])), 1e-6)


def _job(scenario: Scenario, group: NodeGroup) -> str:
    load = scenario.workload
    return f"{load.dnn} {load.image_size}px {group.node_type} {scenario.link_mbps}"


def _fit_pooled(tables: Tables) -> Ernest:
    runs = observed_steps(tables)
    if not runs:
        raise BadInput("Ernest needs runs to fit to, found none; list some under train of a study")
    return Ernest(coefficients={POOL: _coefficients(runs)})


def _fit_probed(tables: Tables) -> Ernest:
    jobs: dict[str, list[ObservedStep]] = {}
    for run in observed_steps(tables):
        (group,) = run.scenario.worker_groups
        jobs.setdefault(_job(run.scenario, group), []).append(run)
    return Ernest(coefficients={job: _coefficients(runs) for job, runs in sorted(jobs.items())})


def _coefficients(runs: Sequence[ObservedStep]) -> tuple[float, ...]:
    rows = [features(run.scenario) for run in runs]
    return tuple(fit(rows, [run.step_s for run in runs]).tolist())


def _rests_on_own(scenario: Scenario) -> tuple[Requirement, ...] | Refusal:
    if refused := out_of_scope_for_allreduce(scenario):
        return refused
    if scenario.strategy.devices_per_node > 1:
        return Refusal("its own runs are of one device a node")
    return tuple(
        Requirement("torch_throughput", "own", _run(scenario, group, machines, images))
        for group in scenario.worker_groups
        for machines, images in design(group.batch_size or scenario.workload.batch_size)
    )


def _run(scenario: Scenario, group: NodeGroup, machines: int, images: int) -> Scenario:
    """Return the scenario of a run of its own: fewer machines of one type, fewer images."""
    nodes = (group.model_copy(update={"count": machines, "batch_size": None}),)
    return scenario.model_copy(
        update={
            "workload": scenario.workload.model_copy(update={"batch_size": images}),
            "strategy": scenario.strategy.model_copy(update={"workers": machines}),
            "nodes": nodes,
        }
    )


ERNEST_POOLED = System(
    name="ernest_pooled",
    version="1",
    what="Baseline: Ernest's terms fitted to all train scenarios at once, whatever the network.",
    source="Venkataraman et al., NSDI 2016, as Assogba et al., PredictDDL, section IV-B1",
    tables=("run", "scenario", "sample"),
    inputs=lambda scenario: (
        out_of_scope_for_allreduce(scenario)
        or (Requirement("torch_throughput", "train", scenario),)
    ),
    fit=_fit_pooled,
    load=lambda text, _: Ernest.model_validate_json(text),
    pooled=True,
    in_words="Ernest, pooled",
)
ERNEST = System(
    name="ernest",
    version="2",
    what="Baseline: Ernest, fitted to runs of the job itself that its design asks for.",
    source="Venkataraman et al., NSDI 2016, sections 3.2 and 3.3",
    tables=("run", "scenario", "sample"),
    inputs=_rests_on_own,
    fit=_fit_probed,
    load=lambda text, _: Ernest.model_validate_json(text),
    pooled=True,
    in_words="Ernest",
    only_named=True,
)
