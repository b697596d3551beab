"""Running the probes a round still needs, and landing what each returns as soon as it is there."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

from profilers import (
    allreduce,
    async_steps,
    async_throughput,
    clock,
    contention,
    largest_batch,
    links,
    slowdown,
    tf_operations,
    tf_step_time,
    torch_operations,
    torch_passes,
    torch_step_time,
)
from profilers.clusters import Cluster, open_cluster
from profilers.clusters.fleet import BACKENDS
from profilers.iterations import Goal
from profilers.result import ProbeResult, RunContext, failed
from profilers.steady.hostlock import host_lock
from profilers.windows import Windows
from studies.asked import noted
from studies.lanes import Clusters, lanes, side_by_side
from studies.parts import Part, Probe
from studies.progress import Progress
from studies.rounds import Round, refreshed
from studies.starts import nodes, scenarios, together
from studies.study import Study
from warehouse.durable import remove, temporary
from warehouse.landing import land, landed_runs
from warehouse.records import ProbeFailed, Purpose

Say = Callable[[str], None]
Call = Callable[[Cluster, Sequence[Part], RunContext, Say], Iterable[ProbeResult]]


def profile(round_: Round, probe: Probe, landing: Path, progress: Progress) -> Round:
    """Run what the round lacks of one probe for predictors to see; return the round as it is then.

    Raises:
        ProbeFailed: a probe failed; its failed run has landed.
    """
    _run(round_, probe, "profile", landing, progress)
    return refreshed(round_, landed_runs(landing))


def measure(round_: Round, landing: Path, progress: Progress) -> Round:
    """Run all that the round lacks of what judges predictions; return the round as it is then.

    Raises:
        ProbeFailed: a probe failed; its failed run has landed.
    """
    for probe in dict.fromkeys(part.probe for part in round_.missing if not part.profiles):
        _run(round_, probe, "measurement", landing, progress)
    return refreshed(round_, landed_runs(landing))


def _run(round_: Round, probe: Probe, purpose: Purpose, landing: Path, progress: Progress) -> None:
    study, groups = round_.study, list(together(round_.missing_of(probe, purpose)))
    several = [groups]
    if probe in _OF_ONE_NODE and round_.backend in BACKENDS:
        several = lanes(groups, lambda parts: _node_types(parts, study))
    is_alone = len(several) <= 1

    def run(parts: Sequence[Part], clusters: Clusters) -> None:
        where = "" if is_alone else f"{' + '.join(sorted(_node_types(parts, study)))}: "
        cluster, last = open_cluster(round_.backend, nodes(parts, study), parts[0].link_mbps), None
        with _context(round_, purpose, landing) as context, clusters.opened(cluster):
            say = partial(_say, progress, where)
            results = _CALLS[probe](cluster, parts, context, say)
            # Land each before the next is measured: a kill loses only what is under way.
            for part, result in zip(parts, results, strict=True):
                clusters.go_on()
                told = noted(result.run, part.settings)
                land(landing, told, result.scenario, result.tables, result.artefacts)
                progress.finished(part.name)
                last = part.name, result
        assert last is not None
        _raise_if_failed(*last)

    with nullcontext() if is_alone else host_lock(progress.say):
        side_by_side(several, run)


def _node_types(parts: Sequence[Part], study: Study) -> set[str]:
    return {group.node_type for group in nodes(parts, study)}


def _say(progress: Progress, where: str, text: str) -> None:
    progress.say(f"{where}{text}")


def _links(
    cluster: Cluster, parts: Sequence[Part], context: RunContext, say: Say
) -> Iterator[ProbeResult]:
    asked, started_at = parts[0].settings, clock.now()
    try:
        yield links.measure(cluster, context, **asked, progress=say)
    except ProbeFailed as error:
        yield failed("links", cluster, None, context, started_at, error)


def _contention(
    cluster: Cluster, parts: Sequence[Part], context: RunContext, say: Say
) -> Iterator[ProbeResult]:
    yield contention.measure(cluster, context, **parts[0].settings, progress=say)


def _allreduce(
    cluster: Cluster, parts: Sequence[Part], context: RunContext, say: Say
) -> Iterable[ProbeResult]:
    asked = parts[0].settings | {
        "world_sizes": [int(part.config["world_size"]) for part in parts],
        "devices_per_node": parts[0].curve.devices_per_node,
    }
    return allreduce.measure(cluster, context, **asked, progress=say)


def _profile(
    cluster: Cluster, parts: Sequence[Part], context: RunContext, say: Say
) -> Iterator[ProbeResult]:
    probe, asked = _PROFILING[parts[0].probe](), parts[0].settings
    for scenario in scenarios(parts):
        yield probe(cluster, scenario, context, **asked, progress=say)


def _iterate(
    cluster: Cluster, parts: Sequence[Part], context: RunContext, say: Say
) -> Iterable[ProbeResult]:
    goal = Goal(**parts[0].settings)
    return torch_step_time.measure(cluster, scenarios(parts), context, goal=goal, progress=say)


def _train(
    cluster: Cluster, parts: Sequence[Part], context: RunContext, say: Say
) -> Iterable[ProbeResult]:
    probe = tf_step_time if parts[0].probe == "tf_sync" else async_throughput
    windows = Windows(**parts[0].settings)
    return probe.measure(cluster, scenarios(parts), context, windows, progress=say)


# Looked up when they are run: tests put other probes in their place.
_PROFILING: Mapping[Probe, Callable[[], Callable[..., ProbeResult]]] = {
    "tf_trace": lambda: async_steps.profile,
    "tf_operations": lambda: tf_operations.profile,
    "torch_operations": lambda: torch_operations.profile,
    "torch_memory": lambda: largest_batch.search,
    "torch_compute": lambda: torch_passes.profile,
    "slowdown": lambda: slowdown.measure,
}
_OF_ONE_NODE = _PROFILING.keys() - {"slowdown"}
"""Those of which several disturb each other only where their nodes share a machine."""
_CALLS: Mapping[Probe, Call] = {
    "links": _links,
    "contention": _contention,
    "allreduce": _allreduce,
    **dict.fromkeys(_PROFILING, _profile),
    "torch_throughput": _iterate,
    **dict.fromkeys(("tf_throughput", "tf_sync"), _train),
}


@contextmanager
def _context(round_: Round, purpose: Purpose, landing: Path) -> Iterator[RunContext]:
    """Give a probe its context; its scratch folder is removed, or swept after a kill."""
    landing.mkdir(parents=True, exist_ok=True)
    scratch = temporary(landing)
    scratch.mkdir()
    try:
        yield RunContext(round_.study.name, round_.repeat, purpose, scratch)
    finally:
        remove(scratch)


def _raise_if_failed(name: str, result: ProbeResult) -> None:
    if result.run.status == "failed":
        raise ProbeFailed(f"{name} failed: {result.run.error}; its run has landed")
