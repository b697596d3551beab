"""Running the probes a round still needs, and landing what each returns as soon as it is there."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from assets.progress import Progress
from assets.rounds import Part, Round, refreshed
from assets.study import Job
from profilers import contention, links, tf_throughput, tf_trace
from profilers.clusters import Cluster, open_cluster
from profilers.result import ProbeResult, RunContext, failed
from warehouse.durable import remove, temporary
from warehouse.landing import land, landed_runs
from warehouse.records import ProbeFailed, Purpose


def measure_links(round_: Round, landing: Path, progress: Progress) -> Round:
    """Probe every link speed the round has not probed yet; return the round as it is then.

    Raises:
        ProbeFailed: a probe failed; its failed run has landed. So in the next three functions.
    """
    settings = round_.study.links
    for part in round_.missing_of("links"):
        nodes = part.job.nodes(max(settings.flows))
        with (
            _context(round_, "profile", landing) as context,
            open_cluster(round_.backend, nodes, part.link_mbps) as cluster,
        ):
            started_at = datetime.now(UTC)
            try:
                result = links.measure(
                    cluster,
                    context,
                    flows=settings.flows,
                    seconds=settings.seconds,
                    trials=settings.trials,
                    progress=progress.say,
                )
            except ProbeFailed as error:
                result = failed("links", cluster, None, context, started_at, error)
            _land(landing, result)
        progress.finished(part.name)
        _raise_if_failed(part.name, result)
    return refreshed(round_, landed_runs(landing))


def measure_contention(round_: Round, landing: Path, progress: Progress) -> Round:
    """Probe what transfers get of links and worker types the round has not probed yet."""
    settings = round_.study.links
    for part in round_.missing_of("contention"):
        assert settings.contention_s is not None
        nodes = part.job.nodes(max(settings.flows))
        with (
            _context(round_, "profile", landing) as context,
            open_cluster(round_.backend, nodes, part.link_mbps) as cluster,
        ):
            result = contention.measure(
                cluster,
                context,
                flows=settings.flows,
                seconds=settings.contention_s,
                trials=settings.trials,
                progress=progress.say,
            )
            _land(landing, result)
        progress.finished(part.name)
        _raise_if_failed(part.name, result)
    return refreshed(round_, landed_runs(landing))


def trace_profiles(round_: Round, landing: Path, progress: Progress) -> Round:
    """Trace one worker of every job the round has not profiled yet; return the round then."""
    settings = round_.study.profile
    for part in round_.missing_of("tf_trace"):
        assert part.scenario is not None
        with (
            _context(round_, "profile", landing) as context,
            open_cluster(round_.backend, part.scenario.nodes, part.link_mbps) as cluster,
        ):
            result = tf_trace.profile(
                cluster,
                part.scenario,
                context,
                traced_steps=settings.traced_steps,
                untraced_steps=settings.untraced_steps,
                capture=settings.capture,
                progress=progress.say,
            )
            _land(landing, result)
        progress.finished(part.name)
        _raise_if_failed(part.name, result)
    return refreshed(round_, landed_runs(landing))


def measure_throughput(round_: Round, landing: Path, progress: Progress) -> Round:
    """Measure what the round has not measured yet, on one cluster for each job; return it then."""
    by_job: defaultdict[Job, list[Part]] = defaultdict(list)
    for part in round_.missing_of("tf_throughput"):
        by_job[part.job].append(part)
    for job, parts in by_job.items():
        largest = max(part.scenario.strategy.workers for part in parts if part.scenario)
        with (
            _context(round_, "measurement", landing) as context,
            open_cluster(round_.backend, job.cluster(largest), parts[0].link_mbps) as cluster,
        ):
            results = _measured(round_, parts, cluster, context, progress)
            # Land each before the next is measured: a kill loses only what is under way.
            for part, result in results:
                _land(landing, result)
                progress.finished(part.name)
                last = part.name, result
        _raise_if_failed(*last)
    return refreshed(round_, landed_runs(landing))


def _measured(
    round_: Round, parts: list[Part], cluster: Cluster, context: RunContext, progress: Progress
) -> Iterator[tuple[Part, ProbeResult]]:
    settings = round_.study.measure
    results = tf_throughput.measure(
        cluster,
        [part.scenario for part in parts if part.scenario],
        context,
        windows=settings.windows,
        window_s=settings.window_s,
        progress=progress.say,
    )
    yield from zip(parts, results, strict=True)


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


def _land(landing: Path, result: ProbeResult) -> None:
    land(landing, result.run, result.scenario, result.tables, result.artefacts)


def _raise_if_failed(name: str, result: ProbeResult) -> None:
    if result.run.status == "failed":
        raise ProbeFailed(f"{name} failed: {result.run.error}; its run has landed")
