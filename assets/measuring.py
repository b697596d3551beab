"""Running the probes a round still needs, and landing what each returns as soon as it is there."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from assets.parts import Part, Probe
from assets.progress import Progress
from assets.rounds import Round, refreshed
from assets.study import Study
from profilers import (
    allreduce,
    contention,
    links,
    tf_throughput,
    tf_trace,
    torch_compute,
    torch_throughput,
)
from profilers.clusters import Cluster, open_cluster
from profilers.iterations import Goal
from profilers.result import ProbeResult, RunContext, failed
from warehouse.durable import remove, temporary
from warehouse.landing import land, landed_runs
from warehouse.records import NodeGroup, ProbeFailed, Purpose, Scenario

Say = Callable[[str], None]
Call = Callable[[Cluster, Sequence[Part], Study, RunContext, Say], Iterable[ProbeResult]]


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
    for parts in _together(round_.missing_of(probe, purpose)):
        first, last = parts[0], None
        with (
            _context(round_, first.purpose, landing) as context,
            open_cluster(round_.backend, _nodes(parts, round_.study), first.link_mbps) as cluster,
        ):
            results = _CALLS[probe](cluster, parts, round_.study, context, progress.say)
            # Land each before the next is measured: a kill loses only what is under way.
            for part, result in zip(parts, results, strict=True):
                land(landing, result.run, result.scenario, result.tables, result.artefacts)
                progress.finished(part.name)
                last = part.name, result
        assert last is not None
        _raise_if_failed(*last)


def _together(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Yield parts that one start of their programs measures.

    They differ in numbers of workers, and in batch sizes where that needs no other start.
    """
    groups: dict[object, list[Part]] = {}
    for part in parts:
        key: object = part
        if part.probe in ("allreduce", "tf_throughput", "tf_sync"):
            key = part.job, part.link_mbps
        elif part.probe == "torch_throughput":
            alike = part.job.model_copy(update={"batch_size": 1, "workers": ()})
            key = alike, part.link_mbps
        groups.setdefault(key, []).append(part)
    yield from groups.values()


def _nodes(parts: Sequence[Part], study: Study) -> Sequence[NodeGroup]:
    """Return the nodes of the cluster that measures parts."""
    part = parts[0]
    match part.probe:
        case "links":
            return part.job.link_nodes(max(study.links.flows))
        case "contention":
            one_type = part.job.model_copy(update={"worker": (part.config["worker"],)})
            return one_type.nodes(max(study.links.flows))
        case "allreduce":
            ranks = max(int(one.config["world_size"]) for one in parts)
            return part.job.nodes(-(-ranks // part.job.devices_per_node))
        case "tf_trace" | "torch_compute":
            assert part.scenario is not None
            return part.scenario.nodes
        case _:
            return part.job.cluster(max(one.strategy.workers for one in _scenarios(parts)))


def _links(
    cluster: Cluster, parts: Sequence[Part], study: Study, context: RunContext, say: Say
) -> Iterator[ProbeResult]:
    settings, started_at = study.links, datetime.now(UTC)
    try:
        yield links.measure(
            cluster,
            context,
            flows=settings.flows,
            seconds=settings.seconds,
            trials=settings.trials,
            progress=say,
        )
    except ProbeFailed as error:
        yield failed("links", cluster, None, context, started_at, error)


def _contention(
    cluster: Cluster, parts: Sequence[Part], study: Study, context: RunContext, say: Say
) -> Iterator[ProbeResult]:
    settings = study.links
    assert settings.contention_s is not None
    yield contention.measure(
        cluster,
        context,
        flows=settings.flows,
        seconds=settings.contention_s,
        trials=settings.trials,
        progress=say,
    )


def _allreduce(
    cluster: Cluster, parts: Sequence[Part], study: Study, context: RunContext, say: Say
) -> Iterable[ProbeResult]:
    settings = study.allreduce
    assert settings is not None
    return allreduce.measure(
        cluster,
        context,
        sizes_bytes=settings.sizes_bytes,
        world_sizes=[int(part.config["world_size"]) for part in parts],
        concurrent=settings.concurrent,
        trials=settings.trials,
        devices_per_node=parts[0].job.devices_per_node,
        progress=say,
    )


def _trace(
    cluster: Cluster, parts: Sequence[Part], study: Study, context: RunContext, say: Say
) -> Iterator[ProbeResult]:
    settings = study.profile
    assert settings is not None
    for scenario in _scenarios(parts):
        yield tf_trace.profile(
            cluster,
            scenario,
            context,
            traced_steps=settings.traced_steps,
            untraced_steps=settings.untraced_steps,
            capture=settings.capture,
            progress=say,
        )


def _compute(
    cluster: Cluster, parts: Sequence[Part], study: Study, context: RunContext, say: Say
) -> Iterator[ProbeResult]:
    settings = study.compute
    assert settings is not None
    for scenario in _scenarios(parts):
        yield torch_compute.profile(
            cluster,
            scenario,
            context,
            batch_sizes=settings.batch_sizes,
            trials=settings.trials,
            watched_trials=settings.watched_trials,
            progress=say,
        )


def _throughput(
    cluster: Cluster, parts: Sequence[Part], study: Study, context: RunContext, say: Say
) -> Iterable[ProbeResult]:
    settings = study.measure
    assert settings is not None
    return tf_throughput.measure(
        cluster,
        _scenarios(parts),
        context,
        windows=settings.windows,
        window_s=settings.window_s,
        progress=say,
    )


def _iterations(
    cluster: Cluster, parts: Sequence[Part], study: Study, context: RunContext, say: Say
) -> Iterable[ProbeResult]:
    settings = study.iterate
    assert settings is not None
    goal = Goal(settings.iterations, settings.interval, settings.most_s)
    return torch_throughput.measure(cluster, _scenarios(parts), context, goal=goal, progress=say)


_CALLS: Mapping[Probe, Call] = {
    "links": _links,
    "contention": _contention,
    "allreduce": _allreduce,
    "tf_trace": _trace,
    "torch_compute": _compute,
    "tf_throughput": _throughput,
    "torch_throughput": _iterations,
}


def _scenarios(parts: Sequence[Part]) -> list[Scenario]:
    return [part.scenario for part in parts if part.scenario is not None]


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
