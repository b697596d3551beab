"""What probes and fits require of a study's settings: asked of them before anything runs."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from models.ceer import fitted as ceer
from models.srift import allreduce as bandwidth
from models.srift import iteration, latency
from profilers import allreduce, captures, largest_batch, slowdown
from profilers.clusters.fleet import BACKENDS
from profilers.nodes import tf_sync_job
from studies.curve import BY_OPERATIONS
from studies.parts import judged_parts, parts
from studies.starts import nodes, starts
from studies.study import Study
from warehouse.records import Backend, BadInput, MissingTool


def tell(field: str, check: Callable[[], None]) -> None:
    """Say of which field a check complains.

    Raises:
        BadInput: as the check, behind the field; MissingTool too.
    """
    try:
        check()
    except (BadInput, MissingTool) as error:
        raise type(error)(f"{field}: {error}") from None


def check_settings(study: Study, source: Path, backend: Backend) -> None:
    """Refuse settings with which a probe would end, or of which nothing could be forecast.

    Raises:
        BadInput: naming the file and the field.
        MissingTool: a probe needs a program that this host lacks.
    """
    if study.kind == "asynchronous":
        _check_captures(study, source, backend)
    if study.kind == "ddp":
        _check_allreduce(study, source, backend)
        _check_compute(study, source, backend)
    if study.kind in BY_OPERATIONS:
        _check_operations(study, source, backend)


def _check_captures(study: Study, source: Path, backend: Backend) -> None:
    if backend in BACKENDS:
        return  # machines tell what they lack once they are up
    if study.links is not None and study.links.contention_s is not None:
        tell(f"{source}: links.contention_s", captures.check_tcpdump)
    if study.profile is not None and study.profile.capture:
        tell(f"{source}: profile.capture", captures.check_tcpdump)


def _check_allreduce(study: Study, source: Path, backend: Backend) -> None:
    assert study.allreduce is not None
    asked, clusters = study.allreduce, 0
    grid = asked.sizes_bytes, asked.world_sizes, asked.concurrent
    for start in starts(study, backend):
        if start[0].probe != "allreduce":
            continue
        clusters += 1
        curve, found = start[0].curve, nodes(start, study)
        types = {group.node_type for group in found}
        if types < set(curve.worker):
            raise BadInput(
                f"{source}: allreduce.world_sizes: expected one that takes a node of each type of "
                f"{' + '.join(curve.worker)}, found {max(asked.world_sizes)} ranks at most; add "
                f"{len(curve.worker) * curve.devices_per_node}"
            )
        ranks = sum(group.count for group in found) * curve.devices_per_node
        tell(f"{source}: allreduce", partial(allreduce.check_grid, *grid, ranks))
    mtu = allreduce.mtu_bytes(backend)
    tell(f"{source}: allreduce", partial(bandwidth.check_grid, *grid, mtu, clusters))


def _check_compute(study: Study, source: Path, backend: Backend) -> None:
    assert study.compute is not None
    asked = study.compute
    tell(f"{source}: compute.batch_sizes", partial(latency.check_batch_sizes, asked.batch_sizes))
    largest = asked.largest_up_to or max(asked.batch_sizes)
    for index, curve in enumerate(study.curves):
        for group in curve.cluster(max(curve.workers)):
            batch_size = group.batch_size or curve.batch_size
            check = partial(iteration.check_fits, group.node_type, batch_size, 1, largest)
            field = "mix" if curve.mix else "batch_size"
            tell(f"{source}: jobs[{index}].{field}", check)
    for part in parts(study, backend):
        if part.probe == "slowdown" and part.scenario is not None:
            check = partial(slowdown.check_workers, part.scenario)
            tell(f"{source}: compute.slowdown_trials", check)
        if part.probe == "torch_memory" and part.scenario is not None:
            check = partial(largest_batch.check_limited, backend, part.scenario.nodes[0])
            tell(f"{source}: compute.largest_up_to", check)


def _check_operations(study: Study, source: Path, backend: Backend) -> None:
    found = parts(study, backend)
    if study.kind == "synchronous":
        for part in found:
            if part.scenario is not None:
                field = f"{source}: jobs[{study.curves.index(part.curve)}]"
                tell(field, partial(tf_sync_job.check_supported, part.scenario))
    seen = [part.scenario for part in found if part.profiles and part.scenario is not None]
    for part in judged_parts(study, backend):
        assert part.scenario is not None
        if ceer.declines(part.scenario, part.scenario.workload.framework) is None:
            field = f"{source}: jobs[{study.curves.index(part.curve)}].workers"
            tell(field, partial(ceer.check_measured, part.scenario, seen))
