"""What forecasts of several systems rest on: profiles of workers, graphs of networks."""

from collections.abc import Iterator
from contextlib import contextmanager

from models.system import NotCovered
from warehouse.records import Scenario
from warehouse.requirements import Refusal, Requirement

# What predictors of asynchronous training rest on: profiles of one worker, links, contention.


STEPS = ("run", "scenario", "operation", "timing", "step", "sample", "link")
"""Raw tables with the steps of a profile, operation by operation, and the speed of its links."""


def out_of_scope_for_servers(scenario: Scenario) -> Refusal | None:
    """Refuse other training than asynchronous TensorFlow's with parameter servers."""
    kind, framework = scenario.strategy.kind, scenario.workload.framework
    if (kind, framework) == ("async_parameter_server", "tensorflow"):
        order = scenario.strategy.order
        is_known = order in ("framework", "tic")
        return None if is_known else Refusal(f"it knows no transfers in {order} order")
    reason = f"it is about asynchronous training of tensorflow, not {kind} of {framework}"
    return Refusal(reason, foreign=True)


def profiled_scenarios(scenario: Scenario) -> tuple[Scenario, ...]:
    """Return what is profiled of a scenario: one worker of each type, and no cross traffic."""
    others = tuple(group for group in scenario.nodes if group.role != "worker")
    alone = scenario.strategy.model_copy(update={"workers": 1})
    return tuple(
        scenario.model_copy(
            update={"strategy": alone, "nodes": (group.one, *others), "cross_traffic": None}
        )
        for group in scenario.worker_groups
    )


def profile_inputs(scenario: Scenario, *, on_its_link: bool = False) -> tuple[Requirement, ...]:
    """Return asks for a trace of each type of worker by itself."""
    return tuple(
        Requirement("tf_trace", "own", profiled_scenario, on_its_link=on_its_link)
        for profiled_scenario in profiled_scenarios(scenario)
    )


def link_input(scenario: Scenario) -> Requirement:
    """Return an ask for the speed of the links that a scenario trains and is profiled on."""
    return Requirement("links", "cluster", scenario)


def inputs_of_profile_alone(scenario: Scenario) -> tuple[Requirement, ...] | Refusal:
    """Rest on profiles that have the servers, links and traffic of the scenario."""
    if refused := out_of_scope_for_servers(scenario):
        return refused
    if scenario.cross_traffic is not None:
        return Refusal("others use the servers' links too; this model knows nothing of that")
    return profile_inputs(scenario, on_its_link=True)


def inputs_of_like_workers(scenario: Scenario) -> tuple[Requirement, ...] | Refusal:
    """Rest on the profile of the one type of workers, and on the speed of its links."""
    if refused := out_of_scope_for_servers(scenario):
        return refused
    if len({group.one for group in scenario.worker_groups}) > 1:
        return Refusal("its workers are of several node types; this model knows like ones only")
    inputs = inputs_of_profile_alone(scenario)
    return inputs if isinstance(inputs, Refusal) else (*inputs, link_input(scenario))


# What predictors of DistributedDataParallel's iterations rest on.


def out_of_scope_for_allreduce(scenario: Scenario) -> Refusal | None:
    """Refuse other training than PyTorch's with all-reduces."""
    kind, framework = scenario.strategy.kind, scenario.workload.framework
    if (kind, framework) == ("all_reduce", "pytorch"):
        divided = Refusal("it knows whole replicas, not divided ones", foreign=True)
        return divided if scenario.strategy.is_divided else None
    reason = f"it is about all-reduces of pytorch, not {kind} of {framework}"
    return Refusal(reason, foreign=True)


def pass_inputs(scenario: Scenario, probe: str = "torch_compute") -> tuple[Requirement, ...]:
    """Return asks for the passes of the network on one node of each type, without any link."""
    changes = {"strategy": scenario.strategy.model_copy(update={"workers": 1}), "link_mbps": None}
    return tuple(
        Requirement(
            probe,
            "own",
            scenario.model_copy(update={**changes, "nodes": (group.one,)}),
            any_batch=True,
        )
        for group in scenario.worker_groups
    )


# Graphs of networks, as systems ask for them: one that cannot be had is refused like any other.


@contextmanager
def refusing_unknown_networks() -> Iterator[None]:
    """Refuse where a function of `networks.extraction` fails: other systems may forecast.

    The refusal is what a failed child process, which may lack memory, has said, or why there is no
    such graph.

    Raises:
        NotCovered: no graph was found.
    """
    try:
        yield
    except (ValueError, RuntimeError) as error:
        raise NotCovered(str(error)) from error
