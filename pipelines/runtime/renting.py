"""From a plan to nodes: which stay, which are given back, which are launched."""

from collections.abc import Callable

from pipelines.runtime.events import Decision, Launch, Proceed, Release, Restart
from pipelines.runtime.planning import Kind, Plan
from pipelines.runtime.state import Rented, State


def carry_out(
    state: State, plan: Plan, price: Callable[[Kind], float]
) -> tuple[State, tuple[Decision, ...]]:
    """Return the nodes of a plan, those that stay first and in their order, and what that takes.

    A node that stays needs its program started anew, unless it waits for training to begin or is
    still on its way. So rank 0 has been there before, where there is one that has.
    """
    places = [
        (Kind(group.node_type, group.market), group.batch_size)
        for group in plan.forecast.configuration.groups
        for _ in range(group.count)
    ]
    kept: list[Rented] = []
    decisions: list[Decision] = [Proceed(plan)]
    for node in state.nodes:
        place = next((one for one in places if one[0] == node.kind), None)
        if place is None:
            state = state.without(node.name)
            decisions.append(Release(node.name))
            continue
        places.remove(place)
        node = node.but(batch_size=place[1])
        if node.trained:
            decisions.append(Restart(node.name))
            node = node.but(ready=False, trained=False)
        kept.append(node)
    new = [
        Rented(
            name=f"node{number}",
            node_type=kind.node_type,
            market=kind.market,
            usd_per_hour=price(kind),
            batch_size=batch_size,
            since_s=state.at_s,
        )
        for number, (kind, batch_size) in enumerate(places, state.launched)
    ]
    decisions += [Launch(node.name, node.kind) for node in new]
    state = state.but(nodes=(*kept, *new), launched=state.launched + len(new))
    return state, tuple(decisions)
