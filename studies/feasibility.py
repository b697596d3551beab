"""Can this study run here? Asked before anything runs."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import networks
from profilers.clusters.emulated import check_shares
from profilers.clusters.fleet import BACKENDS
from profilers.clusters.netns import check_count
from profilers.clusters.node_types import check_isa, fleet_types, node_group
from profilers.clusters.ssh import check_machines
from studies.curve import Curve
from studies.parts import Probe, parts
from studies.requirements import check_settings, tell
from studies.starts import nodes, starts
from studies.study import Study
from warehouse.records import Backend, BadInput, NodeGroup, Role

_FIELDS: Mapping[Probe, str] = {
    "links": "links.flows",
    "contention": "links.flows",
    "allreduce": "allreduce.world_sizes",
}
"""What decides on how many nodes a probe runs, where it is not the curve."""


def check_study(study: Study, source: Path, backend: Backend) -> None:
    """Refuse networks, node types, numbers of nodes and settings that are not possible here.

    Raises:
        BadInput: naming the file and the field.
        MissingTool: a probe needs a program that this host lacks.
    """
    for index, curve in enumerate(study.curves):
        field = f"{source}: jobs[{index}]"
        _check_network(curve, field)
        for name in curve.worker:
            tell(f"{field}.worker", partial(_check_type, "worker", name, backend))
        if curve.server is not None:
            tell(f"{field}.server", partial(_check_type, "server", curve.server, backend))
        trained_by, how_many = curve.cluster(max(curve.workers)), "mix" if curve.mix else "workers"
        tell(f"{field}.{how_many}", partial(_check_nodes, trained_by, backend))
    flows = max(study.links.flows) if study.links is not None else 1
    for part in parts(study, backend):
        most = max(part.curve.workers)
        if part.probe == "links" and flows > most:
            raise BadInput(
                f"{source}: links.flows: {flows} simultaneous flows, but {part.curve.dnn} on such "
                f"links has at most {most} workers; use fewer flows"
            )
    for start in starts(study, backend):
        field = _FIELDS.get(start[0].probe, f"jobs[{study.curves.index(start[0].curve)}].workers")
        tell(f"{source}: {field}", partial(_check_nodes, nodes(start, study), backend))
    check_settings(study, source, backend)


def _check_nodes(groups: Sequence[NodeGroup], backend: Backend) -> None:
    if backend == "emulated":
        check_shares(groups)
        check_count(sum(group.count for group in groups))
    if backend == "ssh":
        check_machines(groups)


def _check_type(role: Role, name: str, backend: Backend) -> None:
    group = node_group(role, name, 1)
    if (name in fleet_types()) != (backend in BACKENDS):
        raise BadInput(f"there are no nodes of type {name!r} on backend {backend}")
    check_isa(group)


def _check_network(curve: Curve, field: str) -> None:
    try:
        networks.check(curve.dnn, framework=curve.framework)
    except ValueError as error:
        raise BadInput(f"{field}.dnn: {error}") from None
    try:
        networks.check(curve.dnn, curve.image_size, framework=curve.framework)
    except ValueError as error:
        raise BadInput(f"{field}.image_size: {error}") from None
