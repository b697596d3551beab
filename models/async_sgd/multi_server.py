"""A profile of one server, as if its variables were on several."""

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from models.async_sgd.graph import Resource, StepGraph
from models.async_sgd.trace import Profile
from networks.variables import place
from warehouse.records import BadInput, Placement, Scenario

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
        BadInput: more than one server already, or no variables.
    """
    graph = profile.graph
    if max(graph.servers) > 0:
        raise BadInput(
            f"re-placing variables: expected a profile of 1 server, found {max(graph.servers) + 1}"
        )
    variable_of, sizes_bytes = _variables(graph, operations)
    placed = place(list(sizes_bytes.values()), servers, placement)
    server_of = dict(zip(sizes_bytes, placed, strict=True))
    on = tuple(
        server_of[variable_of[i]] if i in variable_of else 0 for i in range(len(graph.names))
    )
    return replace(profile, graph=replace(graph, servers=on))


def variable_bytes(profile: Profile, operations: pl.DataFrame) -> tuple[int, ...]:
    """Return the bytes of each variable of a profiled job, in the order in which they are created.

    Raises:
        BadInput: no variables.
    """
    return tuple(_variables(profile.graph, operations)[1].values())


def scenario_on_servers(scenario: Scenario, servers: int, placement: Placement) -> Scenario:
    """Return a scenario as it is with this many servers."""
    strategy = scenario.strategy.model_copy(update={"servers": servers, "placement": placement})
    nodes = tuple(
        group if group.role == "worker" else group.model_copy(update={"count": servers})
        for group in scenario.nodes
    )
    return scenario.model_copy(update={"strategy": strategy, "nodes": nodes})


def _variables(graph: StepGraph, operations: pl.DataFrame) -> tuple[dict[int, int], dict[int, int]]:
    """Return the variable of each operation that belongs to one, and the bytes of each variable."""
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
    return variable_of, sizes_bytes


def _variable_of(graph: StepGraph, variables: Sequence[int]) -> dict[int, int]:
    """Return the variable of each operation that belongs to exactly one.

    That is the one from which it can be reached without leaving the server and its links or, where
    there is none, the one that can be reached from it.
    """
    theirs = [resource is not Resource.WORKER for resource in graph.resources]
    after: list[set[int]] = [{i} if i in set(variables) else set() for i in range(len(theirs))]
    for operation in graph.topological:
        for target in graph.successors[operation]:
            if theirs[operation] and theirs[target]:
                after[target] |= after[operation]
    before: list[set[int]] = [set(one) for one in after]
    for operation in reversed(graph.topological):
        if theirs[operation] and not after[operation]:
            for target in graph.successors[operation]:
                if theirs[target]:
                    before[operation] |= before[target]
    return {i: min(one) for i, one in enumerate(before) if theirs[i] and len(one) == 1}
