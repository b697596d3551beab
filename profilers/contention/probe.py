"""Probe `contention`: what each of n transfers that start and stop as in training gets of a link.

Workers train a network of one large tensor and next to no computation, so that the server's link
is nearly always shared, through the same TensorFlow and gRPC as any other job. Packets captured at
the server tell who got how much of it. The tensor takes a quarter of a second on an idle link, so
that who comes back after sending the other way has paused long enough to start slowly again, as
with the networks people train. Workers rest between steps, each time for another while: steps of
training differ, and two workers whose steps do not would pass each other for ever.
"""

import socket
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from math import sqrt
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from profilers.captures import EVERYTHING, HEADER_BYTES, capture, check_tcpdump
from profilers.clusters import Cluster
from profilers.links.probe import check_flows, link_in_words
from profilers.nodes.tf_jobs import AsyncJob, StepTime
from profilers.probe import Measured, PlannedRun, Probe, RequestedScenarios, Session, one_by_one
from profilers.readers.tcp import packets
from profilers.scenarios import is_async, largest, take_turns
from profilers.steady.host import Patience
from warehouse import limits
from warehouse.fields import Nodes, Repeats, Seconds
from warehouse.records import Backend, BadInput, Record, Scenario, Strategy, TrainingWorkload
from warehouse.requirements import Subject

SLICE_US = 5_000
"""Time is cut into slices of this length."""
MIN_BYTES = 2_000
"""A worker that carries less in a slice sends requests, not tensors."""
PAUSE_SLICES = 40
"""Idle for 0.2 s, TCP's shortest retransmission timeout, a connection starts slowly again."""
MET_SLICES = 100
"""A transfer that is alone counts if it has shared the link within half a second: how much a sender
may have on the way is what its last loss left of it, and in training that is never long ago."""
MIN_SLICES = 4
"""Stretches of fewer slices say nothing of how far shares differ from one to the next."""
DIRECTIONS = ("downlink", "uplink")
_NEVER = -(2**31)
_SCHEMA = {
    "direction": pl.String,
    "flows": pl.Int16,
    "place": pl.Int16,
    "seconds": pl.Float64,
    "bytes": pl.Int64,
    "log_share_sd": pl.Float64,
    "opposite": pl.Int16,
}


_Place = tuple[str, int, int]
"""One of several transfers in a direction: the direction, how many, and which."""


def shares(files: Sequence[Path], server: str, workers: Sequence[str]) -> pl.DataFrame:
    """Return who got how much, by direction, numbers of simultaneous transfers and seniority.

    While the same workers carry data they share the link for one stretch of time. Its first and
    last slice do not count: a transfer starts or ends in them. Of single transfers only what they
    carried up to half a second after they shared the link does.

    Args:
        files: pcap files taken at the server.
        server: its IPv4 address.
        workers: those of the workers.

    Returns:
        direction, flows, place (0: at it for the longest time without a pause of 0.2 s), seconds,
        bytes, log_share_sd and opposite: how many transfers went the other way meanwhile. One row
        per place and number of those. log_share_sd is that of a place whatever goes the other way:
        the standard deviation, over stretches weighted by their length, of the logarithm of its
        share, NULL below two stretches.

    Raises:
        BadInput: a file is no packet capture.
    """
    parts_of: defaultdict[_Place, list[tuple[int, float]]] = defaultdict(list)
    totals: defaultdict[tuple[_Place, int], list[int]] = defaultdict(lambda: [0, 0])
    for file in files:
        both_ways = _carried(file, server, workers)
        for direction, carried, other in zip(
            DIRECTIONS, both_ways, reversed(both_ways), strict=True
        ):
            opposite = (other >= MIN_BYTES).sum(axis=0)
            for inner, ordered in _stretches(carried):
                flow_bytes = carried[np.array(ordered)[:, None], inner]
                for place, slice_bytes in enumerate(flow_bytes):
                    key = direction, len(ordered), place
                    share = slice_bytes.sum() / flow_bytes.sum()
                    parts_of[key].append((len(slice_bytes), share))
                    for count in np.unique(opposite[inner]):
                        then = opposite[inner] == count
                        total = totals[key, int(count)]
                        total[0] += int(then.sum())
                        total[1] += int(slice_bytes[then].sum())
    rows = [
        (*key, slices * SLICE_US / 1e6, size_bytes, _log_share_sd(parts_of[key]), count)
        for (key, count), (slices, size_bytes) in sorted(totals.items())
    ]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _log_share_sd(parts: Sequence[tuple[int, float]]) -> float | None:
    """Return how shares of stretches scatter, by the slices of each."""
    long = [part for part in parts if part[0] >= MIN_SLICES]
    if len(long) < 2:
        return None
    weights, shares_of = zip(*long, strict=True)
    logs = np.log(shares_of)
    variance = np.average((logs - np.average(logs, weights=weights)) ** 2, weights=weights)
    return float(np.sqrt(variance))


def _carried(file: Path, server: str, workers: Sequence[str]) -> list[NDArray[np.int64]]:
    """Return, for downlink and uplink, bytes by worker and slice."""
    index = {socket.inet_aton(address): i for i, address in enumerate(workers)}
    server_address = socket.inet_aton(server)
    data_packets: list[tuple[int, int, int, int]] = []
    for packet in packets(file):
        (sender, _), (receiver, _) = packet.flow
        if packet.length and sender == server_address and receiver in index:
            data_packets.append((0, index[receiver], packet.time_us, packet.length))
        elif packet.length and receiver == server_address and sender in index:
            data_packets.append((1, index[sender], packet.time_us, packet.length))
    if not data_packets:
        return [np.zeros((len(workers), 0), np.int64) for _ in DIRECTIONS]
    direction, worker, time_us, length = np.array(data_packets).T
    slices = (time_us - time_us.min()) // SLICE_US
    carried = np.zeros((len(DIRECTIONS), len(workers), slices.max() + 1), np.int64)
    np.add.at(carried, (direction, worker, slices), length)
    return list(carried)


def _stretches(carried: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.intp], list[int]]]:
    """Yield the slices of each stretch that count, and who carries data, the longest first."""
    active = carried >= MIN_BYTES
    since, met = _since(active), _last(active & (active.sum(axis=0) > 1))
    changes = np.flatnonzero(np.any(active[:, 1:] != active[:, :-1], axis=0)) + 1
    for start, end in pairwise([0, *changes, active.shape[1]]):
        inner = np.arange(start + 1, end - 1)
        if not inner.size:
            continue
        workers = np.flatnonzero(active[:, start]).tolist()
        if len(workers) == 1:
            inner = inner[inner - met[workers[0], inner] <= MET_SLICES]
        if workers and inner.size:
            yield inner, sorted(workers, key=lambda worker: since[worker, start])


def _since(active: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return, for each worker and slice, since when it has been at it without a pause."""
    slices = np.arange(active.shape[1])
    before = np.roll(_last(active), 1, axis=1)
    before[:, :1] = _NEVER
    begins = active & (slices - before > PAUSE_SLICES)
    return np.maximum.accumulate(np.where(begins, slices, 0), axis=1)


def _last(flags: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return, for each worker and slice, the latest slice with a flag so far."""
    return np.maximum.accumulate(np.where(flags, np.arange(flags.shape[1]), _NEVER), axis=1)


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


def _measure(session: Session, need: PlannedRun) -> Measured:
    """Capture what transfers get of the link of server 0 while some of the workers use it."""
    settings, cluster = Settings(**need.settings), session.cluster
    counts = [count for count in settings.flows if count > 1]
    scenario = _scenario(cluster)
    patience = Patience(cluster.cpu_times)
    files: list[Path] = []
    with AsyncJob(cluster, scenario, session.say) as job:
        for trial in range(settings.trials):
            for count in counts:
                session.say(f"contention: {count} workers, trial {trial + 1}")
                file = session.scratch / f"contention_{trial}_{count}.pcap"
                trained = partial(_train, cluster, job, count, settings.seconds, file)
                patience.measure_undisturbed(trained)
                files.append(file)
    addresses = [worker.address for worker in job.workers]
    table = shares(files, cluster.of_role("server")[0].address, addresses)
    for file in files:
        file.unlink()
    config = {
        **need.subject.config,
        "flows": ",".join(map(str, counts)),
        "seconds": settings.seconds,
        "trials": settings.trials,
        "network": f"{NETWORK} {scenario.workload.image_size}px",
        "stolen_cpu_fraction": round(patience.stolen, 4),
    }
    return Measured({"contention": table}, config)


def _scenario(cluster: Cluster) -> Scenario:
    """Return what is trained: its tensor takes `ALONE_S`, the least of all on unshaped links."""
    fewest, most = _PIXELS
    alone_bytes = (cluster.link_mbps or 0.0) * 1e6 / 8 * ALONE_S
    side_px = min(max(fewest, round(sqrt(alone_bytes / _BYTES_PER_PIXEL))), most)
    workers, servers = (len(cluster.of_role(role)) for role in ("worker", "server"))
    return Scenario(
        workload=TrainingWorkload(dnn=NETWORK, image_size=side_px, batch_size=1),
        strategy=Strategy(workers=workers, servers=servers),
        nodes=tuple(cluster.groups),
        link_mbps=cluster.link_mbps,
    )


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


def _needs(requested: RequestedScenarios, settings: Settings) -> Iterator[PlannedRun]:
    """Yield each speed and type of workers once, on the nodes of the largest scenario with both."""
    for speed, worker in dict.fromkeys(
        (scenario.link_mbps, group.node_type)
        for scenario in requested.cluster
        for group in scenario.worker_groups
    ):
        scenario = largest(
            candidate
            for candidate in requested.cluster
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
        )


def _check(requested: RequestedScenarios, needs: Sequence[PlannedRun], backend: Backend) -> None:
    check_flows(requested, needs)
    if needs:
        check_tcpdump(backend)


PROBE = Probe(
    name="contention",
    what="What transfers of training get of a link that n workers use.",
    kind="tensorflow",
    tables=("contention",),
    settings=Settings,
    needs=_needs,
    run=one_by_one(_measure),
    concerns=is_async,
    essential=frozenset({"flows"}),
    check=_check,
)
