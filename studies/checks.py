"""Can this study run here? Asked before anything runs."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import networks
from profilers.clusters.emulated import check_shares
from profilers.clusters.fleet import BACKENDS
from profilers.clusters.netns import check_count
from profilers.clusters.node_types import check_host, fleet_types, node_group
from profilers.clusters.ssh import check_machines
from profilers.probe import RequestedScenarios
from profilers.probes import PROBES
from studies.curve import Curve
from studies.planned_runs import (
    SystemInputs,
    group_by_start,
    nodes_of,
    requested_scenarios,
    required_runs,
)
from studies.study import Study
from warehouse.records import Backend, BadInput, MissingTool, NodeGroup, Role


def check_study(study: Study, source: Path, backend: Backend, asking: SystemInputs) -> None:
    """Refuse networks, node types, numbers of nodes and settings that are not possible here.

    Raises:
        BadInput: naming the file and the field.
        MissingTool: a probe needs a program that this host lacks.
    """
    for curve in study.curves:
        place = f"{source}: {study.place_of(curve)}"
        _check_network(curve, place)
        for name in curve.worker:
            name_field(f"{place}.worker", partial(_check_type, "worker", name, backend))
        if curve.server is not None:
            name_field(f"{place}.server", partial(_check_type, "server", curve.server, backend))
        trained_by = curve.scenarios(backend)[-1].nodes
        field = "mix" if curve.mix else "workers"
        name_field(f"{place}.{field}", partial(_check_nodes, trained_by, backend))
    _check_hidden(study, source, backend)
    try:
        needed = required_runs(study, backend, asking)
    except BadInput as error:
        raise BadInput(f"{source}: {error}") from None
    used = {need.probe for need in needed}
    if idle := [name for name in study.probes if name not in used]:
        why = "no chosen system asks for it, and it judges no test scenario"
        if study.only_profiles:
            why = "it can tell nothing of what is listed under train"
        raise BadInput(f"{source}: probes.{idle[0]}: nothing of it is needed: {why}; leave it out")
    for start in group_by_start(needed):
        field = f"{source}: probes.{start[0].probe}"
        name_field(field, partial(_check_nodes, nodes_of(start), backend))
    wanted = requested_scenarios(study, backend, asking)
    _check_train(study, source, backend, wanted)
    for name, asked in wanted.items():
        ours = [need for need in needed if need.probe == name]
        name_field(f"{source}: probes.{name}", partial(PROBES[name].check, asked, ours, backend))


def _check_train(
    study: Study, source: Path, backend: Backend, wanted: Mapping[str, RequestedScenarios]
) -> None:
    """Refuse train scenarios that would be of no use to any chosen system, or named probe."""
    use = "no named probe concerns it; leave it out, or name one that does"
    if not study.only_profiles:
        use = "no chosen system learns from it; leave it out, or choose a system that does"
    shown = {scenario for asked in wanted.values() for scenario in asked.train}
    for curve in study.curves:
        if not curve.is_judged and shown.isdisjoint(curve.scenarios(backend)):
            raise BadInput(f"{source}: {study.place_of(curve)}: {use}")


def _check_hidden(study: Study, source: Path, backend: Backend) -> None:
    """Refuse test scenarios that are train scenarios where links are as they are."""
    curves = [curve for curve in study.curves if not curve.is_judged]
    shown = {scenario for curve in curves for scenario in curve.scenarios(backend)}
    for curve in study.curves:
        if curve.is_judged and (both := shown & set(curve.scenarios(backend))):
            raise BadInput(
                f"{source}: {study.place_of(curve)}: on {backend}, whose links are as they are, "
                f"{min(one.label for one in both)} is a train scenario too, where fits would see "
                "it; leave one out"
            )


def name_field(field: str, check: Callable[[], None]) -> None:
    """Say of which field a check complains.

    Raises:
        BadInput: as the check, behind the field; MissingTool too.
    """
    try:
        check()
    except (BadInput, MissingTool) as error:
        raise type(error)(f"{field}: {error}") from None


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
    if backend not in BACKENDS:
        check_host(group)


def _check_network(curve: Curve, field: str) -> None:
    try:
        networks.check(curve.dnn, framework=curve.framework)
    except ValueError as error:
        raise BadInput(f"{field}.dnn: {error}") from None
    try:
        networks.check(curve.dnn, curve.image_size, framework=curve.framework)
    except ValueError as error:
        raise BadInput(f"{field}.image_size: {error}") from None
