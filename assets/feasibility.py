"""Can this study run here? Asked before anything runs."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import networks
from assets.job import Job
from assets.parts import all_reducing, parts
from assets.study import Study
from profilers.clusters.emulated import check_shares
from profilers.clusters.fleet import BACKENDS
from profilers.clusters.node_types import check_isa, fleet_types, node_group
from profilers.clusters.ssh import check_machines
from warehouse.records import Backend, BadInput, Role


def check_study(study: Study, source: Path, backend: Backend) -> None:
    """Do nothing if every network, node type and number of workers is possible on this host.

    Raises:
        BadInput: something is not; the message names the file and the field.
    """
    for index, job in enumerate(study.jobs):
        field = f"{source}: jobs[{index}]"
        _check_network(job, field)
        for name in job.worker:
            _tell(f"{field}.worker", partial(_check_type, "worker", name, backend))
        if job.server is not None:
            _tell(f"{field}.server", partial(_check_type, "server", job.server, backend))
        nodes, how_many = job.cluster(max(job.workers)), "mix" if job.mix else "workers"
        if backend == "emulated":
            _tell(f"{field}.{how_many}", partial(check_shares, nodes))
        if backend == "ssh":
            _tell(f"{field}.{how_many}", partial(check_machines, nodes))
    flows = max(study.links.flows) if study.links is not None else 1
    for part in parts(study, backend):
        most = max(part.job.workers)
        if part.probe == "links" and flows > most:
            raise BadInput(
                f"{source}: links.flows: {flows} simultaneous flows, but the job {part.job.dnn} on "
                f"such links has at most {most} workers; use fewer flows"
            )
        if part.probe == "allreduce" and backend == "emulated":
            nodes = all_reducing([part])
            _tell(f"{source}: allreduce.world_sizes", partial(check_shares, nodes))


def _check_type(role: Role, name: str, backend: Backend) -> None:
    group = node_group(role, name, 1)
    if (name in fleet_types()) != (backend in BACKENDS):
        raise BadInput(f"there are no nodes of type {name!r} on backend {backend}")
    check_isa(group)


def _check_network(job: Job, field: str) -> None:
    try:
        networks.check(job.dnn, framework=job.framework)
    except ValueError as error:
        raise BadInput(f"{field}.dnn: {error}") from None
    try:
        networks.check(job.dnn, job.image_size, framework=job.framework)
    except ValueError as error:
        raise BadInput(f"{field}.image_size: {error}") from None


def _tell(field: str, check: Callable[[], None]) -> None:
    try:
        check()
    except BadInput as error:
        raise BadInput(f"{field}: {error}") from None
