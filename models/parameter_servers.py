"""What predictors of asynchronous training rest on: profiles of one worker, links, contention."""

from typing import TypedDict

import polars as pl

from models.profiled_run import like_workers
from models.system import Tables
from warehouse.asks import Ask, Refusal
from warehouse.records import Scenario

STEPS = ("run", "scenario", "operation", "timing", "step", "sample", "link")
"""Raw tables with the steps of a profile, operation by operation, and the speed of its links."""


class Steps(TypedDict):
    """Those tables, as fits take them."""

    runs: pl.DataFrame
    scenarios: pl.DataFrame
    operations: pl.DataFrame
    timings: pl.DataFrame
    steps: pl.DataFrame
    samples: pl.DataFrame
    links: pl.DataFrame


def steps_of(tables: Tables) -> Steps:
    """Return `STEPS` by the names that fits give them."""
    return Steps(
        runs=tables["run"],
        scenarios=tables["scenario"],
        operations=tables["operation"],
        timings=tables["timing"],
        steps=tables["step"],
        samples=tables["sample"],
        links=tables["link"],
    )


def foreign(scenario: Scenario) -> Refusal | None:
    """Refuse other training than asynchronous TensorFlow's with parameter servers."""
    kind, framework = scenario.strategy.kind, scenario.workload.framework
    if (kind, framework) == ("async_parameter_server", "tensorflow"):
        return None
    reason = f"it is about asynchronous training of tensorflow, not {kind} of {framework}"
    return Refusal(reason, foreign=True)


def as_profiled(scenario: Scenario) -> tuple[Scenario, ...]:
    """Return what is profiled of a scenario: one worker of each type, and no cross traffic."""
    others = tuple(group for group in scenario.nodes if group.role != "worker")
    alone = scenario.strategy.model_copy(update={"workers": 1})
    return tuple(
        scenario.model_copy(
            update={"strategy": alone, "nodes": (group.one, *others), "cross_traffic": None}
        )
        for group in scenario.worker_groups
    )


def profiles(scenario: Scenario, *, on_its_link: bool = False) -> tuple[Ask, ...]:
    """Return asks for a trace of each type of worker by itself."""
    return tuple(
        Ask("tf_trace", "own", one, on_its_link=on_its_link) for one in as_profiled(scenario)
    )


def links(scenario: Scenario) -> Ask:
    """Return an ask for the speed of the links that a scenario trains and is profiled on."""
    return Ask("links", "cluster", scenario)


def of_the_profile_alone(scenario: Scenario) -> tuple[Ask, ...] | Refusal:
    """Rest on profiles that have the servers, links and traffic of the scenario."""
    if refused := foreign(scenario):
        return refused
    if scenario.cross_traffic is not None:
        return Refusal("others use the servers' links too; this model knows nothing of that")
    return profiles(scenario, on_its_link=True)


def of_like_workers(scenario: Scenario) -> tuple[Ask, ...] | Refusal:
    """Rest on the profile of the one type of workers, and on the speed of its links."""
    if refused := foreign(scenario):
        return refused
    if not like_workers(scenario):
        return Refusal("its workers are of several node types; this model knows like ones only")
    found = of_the_profile_alone(scenario)
    return found if isinstance(found, Refusal) else (*found, links(scenario))
