"""Probe `contention`: what each of n transfers that start and stop as in training gets of a link.

Workers train a network of one large tensor and next to no computation, so that the server's link
is nearly always shared, through the same TensorFlow and gRPC as any other job. Packets captured at
the server tell who got how much of it. The tensor takes a quarter of a second on an idle link, so
that who comes back after sending the other way has paused long enough to start slowly again, as
with the networks people train. Workers rest between steps, each time for another while: steps of
training differ, and two workers whose steps do not would pass each other for ever.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import sqrt
from pathlib import Path
from statistics import fmean

from pydantic import Field

from profilers import clock
from profilers.captures import EVERYTHING, HEADER_BYTES, capture, check_tcpdump
from profilers.clusters import Cluster
from profilers.clusters.fleet import BACKENDS
from profilers.links.probe import check_flows, link_in_words
from profilers.nodes.tf_jobs import AsyncJob, StepTime
from profilers.probe import (
    PlannedRun,
    Probe,
    ProbeResult,
    RequestedScenarios,
    RunContext,
    Setting,
    finished_run,
    one_by_one,
    start_s,
)
from profilers.readers.shares import shares
from profilers.scenarios import is_async, largest, take_turns
from profilers.steady.host import Patience
from profilers.steady.hostlock import host_lock
from warehouse import limits
from warehouse.fields import Nodes, Repeats, Seconds
from warehouse.inputs import Subject
from warehouse.records import Backend, BadInput, Record, Scenario, Strategy, TrainingWorkload

NETWORK = "softmax_regression"
ALONE_S = 0.25
"""What the tensor takes on an idle link."""
REST_S = 0.1
"""The longest rest."""
_BYTES_PER_PIXEL = 3 * 10 * 4
_PIXELS = 160, 1024
"""Fewest and most of an image's side: tensors of 3 to 126 MB."""
WARM_UP_STEPS = 5
_OVERHEAD_S = 1.5
"""First guess of what a trial takes beside its captured seconds."""


def measure(
    cluster: Cluster,
    context: RunContext,
    *,
    flows: Sequence[int],
    seconds: float,
    trials: int,
    progress: Callable[[str], None] = lambda _: None,
) -> ProbeResult:
    """Measure what transfers get of the link of server 0 while 1..n workers use it.

    Args:
        cluster: one server and at least `max(flows)` workers.
        context: study and round.
        flows: numbers of workers that train together, e.g. (2, 4); a single one is left out.
        seconds: captured length of each trial.
        trials: repeats of each number.
        progress: told what runs now.

    Returns:
        A run with table `contention`, one row per direction, number of simultaneous transfers,
        place among them and number of transfers the other way, over all trials.

    Raises:
        BadInput: the cluster has too few workers, or there is no number above 1.
        MissingTool: there is no tcpdump.
        ProbeFailed: the job failed.
    """
    workers = cluster.of_role("worker")
    counts = [count for count in flows if count > 1]
    if not counts:
        raise BadInput(f"contention needs two flows or more, found {list(flows)}; add 2")
    if max(counts) > len(workers):
        raise BadInput(f"{max(counts)} flows need as many workers; the cluster has {len(workers)}")
    started_at = clock.now()
    scenario = _scenario(cluster)
    patience = Patience(cluster.cpu_times)
    stolen: list[float] = []
    files: list[Path] = []
    with host_lock(progress), AsyncJob(cluster, scenario, progress) as job:
        for trial in range(trials):
            for count in counts:
                progress(f"contention: {count} workers, trial {trial + 1}")
                file = context.scratch / f"contention_{trial}_{count}.pcap"
                trained = partial(_train, cluster, job, count, seconds, file)
                stolen.append(patience.quietly(trained).stolen)
                files.append(file)
    settings: dict[str, Setting] = {
        "worker": cluster.of_role("worker")[0].group.node_type,
        "flows": ",".join(map(str, counts)),
        "seconds": seconds,
        "trials": trials,
        "network": f"{NETWORK} {scenario.workload.image_size}px",
        "stolen_cpu_fraction": round(fmean(stolen), 4),
    }
    run = finished_run("contention", cluster, None, context, started_at, settings)
    addresses = [worker.address for worker in workers]
    table = shares(files, cluster.of_role("server")[0].address, addresses)
    for file in files:
        file.unlink()
    return ProbeResult(run, None, {"contention": table})


def _scenario(cluster: Cluster) -> Scenario:
    groups = tuple(cluster.groups)
    workers, servers = (len(cluster.of_role(role)) for role in ("worker", "server"))
    return Scenario(
        workload=TrainingWorkload(
            dnn=NETWORK, image_size=_image_size(cluster.link_mbps), batch_size=1
        ),
        strategy=Strategy(workers=workers, servers=servers),
        nodes=groups,
        link_mbps=cluster.link_mbps,
    )


def _image_size(link_mbps: float | None) -> int:
    """Return the side of the image whose tensor takes `ALONE_S`; the least on unshaped links."""
    fewest, most = _PIXELS
    alone_bytes = (link_mbps or 0.0) * 1e6 / 8 * ALONE_S
    return min(max(fewest, round(sqrt(alone_bytes / _BYTES_PER_PIXEL))), most)


def _train(cluster: Cluster, job: AsyncJob, count: int, seconds: float, file: Path) -> None:
    """Let some workers train for a while from the moment all have warmed up; capture packets."""
    (server, *_) = cluster.of_role("server")
    ended: dict[int, int] = dict.fromkeys(range(count), 0)
    begun_us: list[int] = []

    def until(worker: int, step: StepTime) -> bool:
        ended[worker] += 1
        if not begun_us and min(ended.values()) >= WARM_UP_STEPS:
            begun_us.append(step.end_us)
        return bool(begun_us) and step.end_us - begun_us[0] > seconds * 1e6

    with capture(cluster, server, file, EVERYTHING, HEADER_BYTES):
        job.train(job.workers[:count], until, rest_s=REST_S)


class Settings(Record):
    """Numbers of workers that train together (none: 2 up to all), captured seconds, repeats."""

    flows: tuple[Nodes, ...] = Field(default=(), max_length=limits.LISTED)
    seconds: Seconds = 4
    trials: Repeats = 3


def _needs(asked: RequestedScenarios, settings: Settings) -> Iterator[PlannedRun]:
    """Yield each speed and type of workers once, on the nodes of the largest scenario with both."""
    for speed, worker in dict.fromkeys(
        (scenario.link_mbps, group.node_type)
        for scenario in asked.cluster
        for group in scenario.worker_groups
    ):
        scenario = largest(
            candidate
            for candidate in asked.cluster
            if candidate.link_mbps == speed
            and worker in {group.node_type for group in candidate.worker_groups}
        )
        if not settings.flows and scenario.strategy.workers < 2:
            continue  # nobody to share a link with
        flows = settings.flows or tuple(range(1, scenario.strategy.workers + 1))
        if max(flows) < 2:
            raise BadInput(f"flows: contention needs 2 or more, found {list(flows)}; add 2")
        groups = [
            node for node in scenario.nodes if node.role != "worker" or node.node_type == worker
        ]
        nodes = take_turns(groups, max(flows))
        trials = sum(count > 1 for count in flows) * settings.trials
        yield PlannedRun(
            Subject("contention", None, speed, {"worker": worker}),
            "profile",
            f"probe contention, {link_in_words(speed)}, {worker}",
            nodes,
            settings.model_dump() | {"flows": flows},
            expected_s=trials * (settings.seconds + _OVERHEAD_S),
            start_s=start_s(nodes),
        )


def _check(asked: RequestedScenarios, needs: Sequence[PlannedRun], backend: Backend) -> None:
    check_flows(asked, needs)
    if needs and backend not in BACKENDS:  # machines tell what they lack once they are up
        check_tcpdump()


PROBE = Probe(
    name="contention",
    what="What transfers of training get of a link that n workers use.",
    kind="tensorflow",
    tables=("contention",),
    settings=Settings,
    needs=_needs,
    run=one_by_one(lambda: measure),
    concerns=is_async,
    essential=frozenset({"flows"}),
    check=_check,
)
