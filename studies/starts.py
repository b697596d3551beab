"""What one start of programs measures, and on which nodes."""

from collections.abc import Iterator, Sequence

from studies.parts import Part, parts
from studies.study import Study
from warehouse.records import Backend, NodeGroup, Scenario


def starts(study: Study, backend: Backend) -> Iterator[list[Part]]:
    """Yield what each start measures of a round of which nothing has landed, in order."""
    needed = parts(study, backend)
    for probe, purpose in dict.fromkeys((part.probe, part.purpose) for part in needed):
        yield from together([one for one in needed if (one.probe, one.purpose) == (probe, purpose)])


def together(some: Sequence[Part]) -> Iterator[list[Part]]:
    """Yield parts of one probe that one start of its programs measures.

    They differ in numbers of workers, and in batch sizes where that needs no other start.
    """
    groups: dict[object, list[Part]] = {}
    for part in some:
        key: object = part
        if part.probe in ("allreduce", "tf_throughput", "tf_sync"):
            key = part.curve, part.link_mbps
        elif part.probe == "torch_throughput":
            either = {"batch_size": 1, "workers": (), "fitted": False}
            key = part.curve.model_copy(update=either), part.link_mbps
        groups.setdefault(key, []).append(part)
    yield from groups.values()


def nodes(start: Sequence[Part], study: Study) -> tuple[NodeGroup, ...]:
    """Return the nodes of the cluster that measures parts of one start."""
    part = start[0]
    match part.probe:
        case "links":
            return part.curve.link_nodes(_most_flows(study))
        case "contention":
            one_type = part.curve.model_copy(update={"worker": (part.config["worker"],)})
            return one_type.nodes(_most_flows(study))
        case "allreduce":
            ranks = max(int(one.config["world_size"]) for one in start)
            return part.curve.nodes(-(-ranks // part.curve.devices_per_node))
        case (
            "tf_trace"
            | "tf_operations"
            | "torch_operations"
            | "torch_memory"
            | "torch_compute"
            | "slowdown"
        ):
            assert part.scenario is not None
            return part.scenario.nodes
        case _:
            return part.curve.cluster(max(one.strategy.workers for one in scenarios(start)))


def scenarios(some: Sequence[Part]) -> list[Scenario]:
    """Return the scenarios of parts that have one."""
    return [part.scenario for part in some if part.scenario is not None]


def _most_flows(study: Study) -> int:
    assert study.links is not None  # a study without has no part that asks
    return max(study.links.flows)
