"""Ernest as systems: pooled over all train scenarios, and with probes of its own."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import polars as pl

from models.ernest import design, features
from models.predictddl.observed import batch_of, observed
from models.profiled_run import PREDICTED
from models.srift.asks import foreign
from models.system import System, Tables
from warehouse.asks import Ask, Refusal
from warehouse.records import BadInput, NodeGroup, Scenario

MACHINES = (1, 2, 4)
"""Numbers of machines that its own runs have."""
PARTS = (0.5, 1.0)
"""Of a batch, that its own runs have: Ernest runs jobs on a part of their data."""
POOL = ""


@dataclass(frozen=True)
class Ernest:
    """Coefficients by job: of a network, its images and a node type; of all jobs, `POOL`."""

    coefficients: Mapping[str, tuple[float, ...]]

    def predict(self, scenarios: Sequence[Scenario]) -> pl.DataFrame:
        """Return scenario_id and value (step_time_s); low and high are NULL.

        Raises:
            BadInput: no run of the job was made.
        """
        rows = [(one.scenario_id, self._step_s(one), None, None) for one in scenarios]
        return pl.DataFrame(rows, schema=PREDICTED, orient="row")

    def parameters_json(self) -> str:
        """Return the coefficients as canonical JSON."""
        return json.dumps(self.coefficients, sort_keys=True, separators=(",", ":"))

    def _step_s(self, scenario: Scenario) -> float:
        """Return seconds of a step: of nodes of several types, those of the slowest.

        Each type forecasts all machines with the batch that its own devices have, as its own runs
        do. The pool has no types, and the mean batch of all.
        """
        if POOL in self.coefficients:
            return self._of(POOL, features.features(scenario))
        machines = scenario.strategy.workers
        of_types = []
        for group in scenario.worker_groups:
            job = _job(scenario, group)
            if job not in self.coefficients:
                raise BadInput(
                    f"{scenario.label}: Ernest has no run of {job}; list it in a study of "
                    "system ernest, and `stepcast run`"
                )
            row = features.terms(machines, float(batch_of(scenario, group)))
            of_types.append(self._of(job, row))
        return max(of_types)

    def _of(self, job: str, row: features.Floats) -> float:
        return max(float(row @ np.array(self.coefficients[job])), 1e-6)


def _job(scenario: Scenario, group: NodeGroup) -> str:
    load = scenario.workload
    return f"{load.dnn} {load.image_size}px {group.node_type} {scenario.link_mbps}"


def _fit_pooled(tables: Tables) -> Ernest:
    runs = observed(tables["run"], tables["scenario"], tables["sample"])
    if not runs:
        raise BadInput("Ernest needs runs to fit to, found none; list some under train of a study")
    rows = [features.features(one.scenario) for one in runs]
    found = features.fit(rows, [one.step_s for one in runs])
    return Ernest({POOL: tuple(found.tolist())})


def _fit_probed(tables: Tables) -> Ernest:
    jobs: dict[str, list[tuple[Scenario, float]]] = {}
    for one in observed(tables["run"], tables["scenario"], tables["sample"]):
        (group,) = one.scenario.worker_groups
        jobs.setdefault(_job(one.scenario, group), []).append((one.scenario, one.step_s))
    return Ernest(
        {
            job: tuple(
                features.fit(
                    [features.features(one) for one, _ in runs], [s for _, s in runs]
                ).tolist()
            )
            for job, runs in sorted(jobs.items())
        }
    )


def _rests_on_train(scenario: Scenario) -> tuple[Ask, ...] | Refusal:
    return foreign(scenario) or (Ask("torch_throughput", "train", scenario),)


def _rests_on_own(scenario: Scenario) -> tuple[Ask, ...] | Refusal:
    if refused := foreign(scenario):
        return refused
    if scenario.strategy.devices_per_node > 1:
        return Refusal("its own runs are of one device a node")
    return tuple(
        Ask("torch_throughput", "own", _run(scenario, group, machines, images))
        for group in scenario.worker_groups
        for machines, images in _design(group.batch_size or scenario.workload.batch_size)
    )


@lru_cache
def _design(batch_size: int) -> tuple[tuple[int, int], ...]:
    images = tuple(dict.fromkeys(max(1, round(part * batch_size)) for part in PARTS))
    return design.chosen(MACHINES, images)


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


def _load(text: str, tables: Tables) -> Ernest:
    return Ernest({job: tuple(found) for job, found in json.loads(text).items()})


ERNEST_POOLED = System(
    name="ernest_pooled",
    version="1",
    what="Baseline: Ernest's terms fitted to all train scenarios at once, whatever the network.",
    source="Venkataraman et al., NSDI 2016, as Assogba et al., PredictDDL, section IV-B1",
    tables=("run", "scenario", "sample"),
    rests_on=_rests_on_train,
    fit=_fit_pooled,
    load=_load,
    pooled=True,
    in_words="Ernest, pooled",
)
ERNEST = System(
    name="ernest",
    version="2",
    what="Baseline: Ernest, fitted to runs of the job itself that its design asks for.",
    source="Venkataraman et al., NSDI 2016, sections 3.2 and 3.3",
    tables=("run", "scenario", "sample"),
    rests_on=_rests_on_own,
    fit=_fit_probed,
    load=_load,
    pooled=True,
    in_words="Ernest",
    only_named=True,
)
