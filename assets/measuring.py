"""Running the probes a round still needs, and landing what each returns as soon as it is there."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from assets.lanes import Clusters, lanes, side_by_side
from assets.parts import MEASURING, Part, Probe, all_reducing
from assets.progress import Progress
from assets.rounds import Round, refreshed
from assets.study import Study
from profilers import (
    allreduce,
    contention,
    links,
    slowdown,
    tf_operations,
    tf_sync,
    tf_throughput,
    tf_trace,
    torch_compute,
    torch_memory,
    torch_operations,
    torch_throughput,
)
from profilers.clusters import Cluster, open_cluster
from profilers.clusters.fleet import BACKENDS
from profilers.hostlock import host_lock
from profilers.iterations import Goal
from profilers.result import ProbeResult, RunContext, failed
from profilers.windows import Windows
from warehouse.durable import remove, temporary
from warehouse.landing import land, landed_runs
from warehouse.records import NodeGroup, ProbeFailed, Purpose, Record, Scenario

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
    study, groups = round_.study, list(_together(round_.missing_of(probe, purpose)))
    several = [groups]
    if probe in _OF_ONE_NODE and round_.backend in BACKENDS:
        several = lanes(groups, lambda parts: _node_types(parts, study))
    is_alone = len(several) <= 1

    def run(parts: Sequence[Part], clusters: Clusters) -> None:
        where = "" if is_alone else f"{' + '.join(sorted(_node_types(parts, study)))}: "
        cluster, last = open_cluster(round_.backend, _nodes(parts, study), parts[0].link_mbps), None
        with _context(round_, purpose, landing) as context, clusters.opened(cluster):
            say = partial(_say, progress, where)
            results = _CALLS[probe](cluster, parts, study, context, say)
            # Land each before the next is measured: a kill loses only what is under way.
            for part, result in zip(parts, results, strict=True):
                clusters.go_on()
                land(landing, result.run, result.scenario, result.tables, result.artefacts)
                progress.finished(part.name)
                last = part.name, result
        assert last is not None
        _raise_if_failed(*last)

    with nullcontext() if is_alone else host_lock(progress.say):
        side_by_side(several, run)


def _say(progress: Progress, where: str, text: str) -> None:
    progress.say(f"{where}{text}")


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
            either = {"batch_size": 1, "workers": (), "fitted": False}
            key = part.job.model_copy(update=either), part.link_mbps
        groups.setdefault(key, []).append(part)
    yield from groups.values()


def _nodes(parts: Sequence[Part], study: Study) -> Sequence[NodeGroup]:
    """Return the nodes of the cluster that measures parts."""
    part = parts[0]
    match part.probe:
        case "links":
            return part.job.link_nodes(_most_flows(study))
        case "contention":
            one_type = part.job.model_copy(update={"worker": (part.config["worker"],)})
            return one_type.nodes(_most_flows(study))
        case "allreduce":
            return all_reducing(parts)
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
            return part.job.cluster(max(one.strategy.workers for one in _scenarios(parts)))


def _node_types(parts: Sequence[Part], study: Study) -> set[str]:
    return {group.node_type for group in _nodes(parts, study)}


def _most_flows(study: Study) -> int:
    return max(_settings(study.links)["flows"])


def _links(
    cluster: Cluster, parts: Sequence[Part], study: Study, context: RunContext, say: Say
) -> Iterator[ProbeResult]:
    asked, started_at = _settings(study.links, "contention_s"), datetime.now(UTC)
    try:
        yield links.measure(cluster, context, **asked, progress=say)
    except ProbeFailed as error:
        yield failed("links", cluster, None, context, started_at, error)


def _contention(
    cluster: Cluster, parts: Sequence[Part], study: Study, context: RunContext, say: Say
) -> Iterator[ProbeResult]:
    asked = _settings(study.links)
    asked["seconds"] = asked.pop("contention_s")
    yield contention.measure(cluster, context, **asked, progress=say)


def _allreduce(
    cluster: Cluster, parts: Sequence[Part], study: Study, context: RunContext, say: Say
) -> Iterable[ProbeResult]:
    asked = _settings(study.allreduce) | {
        "world_sizes": [int(part.config["world_size"]) for part in parts],
        "devices_per_node": parts[0].job.devices_per_node,
    }
    return allreduce.measure(cluster, context, **asked, progress=say)


def _profile(
    cluster: Cluster, parts: Sequence[Part], study: Study, context: RunContext, say: Say
) -> Iterator[ProbeResult]:
    probe, asked = _PROFILING[parts[0].probe](study)
    if parts[0].probe == "torch_compute" and not parts[0].profiles:
        asked |= _held_out(study)
    for scenario in _scenarios(parts):
        yield probe(cluster, scenario, context, **asked, progress=say)


def _train(
    cluster: Cluster, parts: Sequence[Part], study: Study, context: RunContext, say: Say
) -> Iterable[ProbeResult]:
    scenarios = _scenarios(parts)
    if study.iterate is not None:
        goal = Goal(**_settings(study.iterate))
        return torch_throughput.measure(cluster, scenarios, context, goal=goal, progress=say)
    probe = tf_sync if study.kind == "synchronous" else tf_throughput
    windows = Windows(**_settings(study.measure))
    return probe.measure(cluster, scenarios, context, windows, progress=say)


# Looked up when they are run: tests put other probes in their place.
_PROFILING: Mapping[Probe, Callable[[Study], tuple[Callable[..., ProbeResult], dict[str, Any]]]] = {
    "tf_trace": lambda study: (tf_trace.profile, _settings(study.profile)),
    "tf_operations": lambda study: (
        tf_operations.profile,
        _settings(study.profile, "capture"),
    ),
    "torch_operations": lambda study: (torch_operations.profile, _timed_steps(study)),
    "torch_memory": lambda study: (
        torch_memory.search,
        {"most": _settings(study.compute)["largest_up_to"]},
    ),
    "torch_compute": lambda study: (
        torch_compute.profile,
        _settings(study.compute, "held_out", "slowdown_trials", "largest_up_to"),
    ),
    "slowdown": lambda study: (
        slowdown.measure,
        {"trials": _settings(study.compute)["slowdown_trials"]},
    ),
}
_OF_ONE_NODE = _PROFILING.keys() - {"slowdown"}
"""Those of which several disturb each other only where their nodes share a machine."""
_CALLS: Mapping[Probe, Call] = {
    "links": _links,
    "contention": _contention,
    "allreduce": _allreduce,
    **dict.fromkeys(_PROFILING, _profile),
    **dict.fromkeys(MEASURING.values(), _train),
}


def _timed_steps(study: Study) -> dict[str, Any]:
    """Return how many steps PyTorch's operators are timed in, and are run beside those."""
    profile = _settings(study.profile)
    return {"timed_steps": profile["traced_steps"], "untimed_steps": profile["untraced_steps"]}


def _held_out(study: Study) -> dict[str, Any]:
    """Return what is asked of held-out batch sizes: no more time for each than profiles have."""
    assert study.compute is not None
    sizes, most_s = study.compute.held_out, study.compute.most_s
    share = len(sizes) / len(study.compute.batch_sizes)
    return {"batch_sizes": sizes, "most_s": most_s and share * most_s}


def _settings(section: Record | None, *without: str) -> dict[str, Any]:
    """Return what a section of a study says, as a probe takes it."""
    assert section is not None  # the study was refused otherwise
    return {name: value for name, value in section if name not in without}


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
