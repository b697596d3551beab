"""Probe `tf_throughput`: steps per second of W workers that really train together.

All workers start from a barrier, step until throughput is stationary, and are measured over
windows in which all of them are stepping. The whole series of steps is kept.
"""

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from profilers import clock
from profilers.clusters import Cluster, Node
from profilers.clusters.node_types import node_group
from profilers.links.probe import listen
from profilers.nodes.tf_jobs import AsyncJob, StepTime
from profilers.probe import (
    THROUGHPUT,
    PlannedRun,
    Probe,
    ProbeResult,
    RequestedScenarios,
    RunContext,
    Say,
    Setting,
    finished_run,
    plan_scenario_runs,
)
from profilers.scenarios import STEP_SCHEMA, check_family, is_async, same_start
from profilers.steady.host import MOST_STOLEN, CpuTimes, MeasuredValue
from profilers.steady.hostlock import host_lock
from profilers.windows import Settings, Window, Windows, is_stationary, steps_per_s
from warehouse.records import BadInput, NodeGroup, ProbeFailed, Role, Scenario

MIN_DISCARDED_STEPS = 8
"""Steps of each worker after the barrier that are never counted."""
PATIENCE_S = 30.0
"""How long windows are measured again if they were disturbed."""
TOLERANCE = 0.10
"""Two halves of a window hold few dozen steps each: closer agreement would be luck."""
MAX_SETTLING_WINDOWS = 2.0
"""Measure after this many window lengths even if throughput still changes; the run says so."""


def measure(
    cluster: Cluster,
    scenarios: Sequence[Scenario],
    context: RunContext,
    windows: Windows,
    *,
    progress: Callable[[str], None] = lambda _: None,
) -> Iterator[ProbeResult]:
    """Measure scenarios that differ only in the number of workers, on one start of the job.

    Args:
        cluster: the servers and workers of the largest scenario.
        scenarios: the same job with different W, each at most the cluster's workers.
        context: study and round.
        windows: of each scenario; they give a within-run spread.
        progress: told what runs now.

    Yields:
        One run per scenario as soon as it is measured, with tables `step` (workers are numbered
        group by group of the scenario) and `sample`
        (`throughput_steps_per_s`, `idle_cpu_fraction`, `stolen_cpu_fraction` per window; of the
        run `worker_cpu_s_per_step` and `server_cpu_s_per_step`, and `cross_traffic_fraction` where
        there was any).

    Raises:
        BadInput: the scenarios differ in more than W, or need more workers than there are.
        ProbeFailed: the job failed.
    """
    largest = check_family(scenarios, len(cluster.of_role("worker")))
    with host_lock(progress), AsyncJob(cluster, largest, progress) as job:
        for scenario in scenarios:
            started_at = clock.now()
            progress(f"measure {scenario.label}")
            recorder = Recorder(cluster.cpu_times, scenario.strategy.workers, windows)
            with cross_traffic(cluster, scenario.cross_traffic):
                used = _train(job, scenario, recorder)
            yield _result(cluster, scenario, context, started_at, recorder, used)


@dataclass(frozen=True)
class _ResourceUse:
    """What a run used: processor time by role; and the bytes per second that others received."""

    cpu_s: Mapping[Role, float]
    others_Bps: float


def _train(job: AsyncJob, scenario: Scenario, recorder: "Recorder") -> _ResourceUse:
    had_s, had_bytes, from_s = job.cpu_s(), received_bytes(job.cluster), time.monotonic()
    job.train(workers_of(scenario, job.workers), recorder.until)
    others_bytes, seconds = received_bytes(job.cluster) - had_bytes, time.monotonic() - from_s
    cpu_s = {role: had - had_s[role] for role, had in job.cpu_s().items()}
    return _ResourceUse(cpu_s, others_bytes / seconds)


def workers_of(scenario: Scenario, nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes that train a scenario: of each group of its workers the first ones."""
    left, workers = list(nodes), list[Node]()
    for group in scenario.worker_groups:
        alike = [node for node in left if node.group.one == group.one]
        workers += alike[: group.count]
        left = [node for node in left if node not in workers]
    return workers


class Recorder:
    """Keeps the series of steps and decides when settling ends and when windows are full."""

    def __init__(self, cpu_times: Callable[[], CpuTimes], workers: int, asked: Windows) -> None:
        self.series: dict[int, list[StepTime]] = {worker: [] for worker in range(workers)}
        self.measured: list[MeasuredValue[Window]] = []
        self.stationary = False
        self._asked, self._judged, self._full = asked, 0, False
        self._started_us: int | None = None
        self._opened_us: int | None = None
        self._cpu_times = cpu_times
        self._cpu = cpu_times()

    @property
    def counted(self) -> list[MeasuredValue[Window]]:
        """The windows that count, in order of time: where too many are disturbed, the least so."""
        undisturbed = sum(not window.disturbed for window in self.measured)
        count = max(self._asked.windows, undisturbed)
        least = sorted(self.measured, key=lambda window: max(window.stolen, MOST_STOLEN))[:count]
        return sorted(least, key=lambda window: window.value.start_us)

    def until(self, worker: int, step: StepTime) -> bool:
        """Take in a step; true when all windows are measured.

        Steps that come after that open and close no other one: workers are halting.
        """
        self.series[worker].append(step)
        if self._full:
            return True
        if self._started_us is None:
            self._started_us = step.start_us
        now_us = step.end_us
        if self._opened_us is None:
            if self._settled(now_us - self._started_us, now_us):
                self._open(now_us)
        elif now_us - self._opened_us >= self._asked.window_s * 1e6:
            idle, stolen = self._cpu_times().fractions_since(self._cpu)
            self.measured.append(MeasuredValue(Window(self._opened_us, now_us), idle, stolen))
            self._open(now_us)
        known = self._known()
        if self._judged < len(known):
            self._judged = len(known)
            if self._are_enough(known):
                self.measured, self._full = known, True
        return self._full

    def _known(self) -> list[MeasuredValue[Window]]:
        """Return the windows of which the steps that their ends have cut have ended."""
        if self._judged == len(self.measured):
            return self.measured
        until_us = min(steps[-1].end_us for steps in self.series.values())
        return [window for window in self.measured if window.value.end_us <= until_us]

    def _are_enough(self, known: Sequence[MeasuredValue[Window]]) -> bool:
        quiet = [window for window in known if not window.disturbed]
        if self._asked.are_enough([steps_per_s(self.series, window.value) for window in quiet]):
            return True
        disturbed_s = (len(known) - len(quiet)) * self._asked.window_s
        return len(known) >= self._asked.windows and disturbed_s >= PATIENCE_S

    def _open(self, now_us: int) -> None:
        self._opened_us, self._cpu = now_us, self._cpu_times()

    def _settled(self, lasting_us: int, now_us: int) -> bool:
        if min(len(steps) for steps in self.series.values()) < MIN_DISCARDED_STEPS:
            return False
        self.stationary = is_stationary(self.series, now_us, self._asked.window_s / 2, TOLERANCE)
        limit_us = self._asked.window_s * MAX_SETTLING_WINDOWS * 1e6
        return self.stationary or lasting_us > limit_us


def _result(
    cluster: Cluster,
    scenario: Scenario,
    context: RunContext,
    started_at: datetime,
    recorder: Recorder,
    used: "_ResourceUse",
) -> ProbeResult:
    settings: dict[str, Setting] = {
        "windows": len(recorder.counted),
        "discarded_windows": len(recorder.measured) - len(recorder.counted),
        "min_discarded_steps": MIN_DISCARDED_STEPS,
        "stationary": recorder.stationary,
    }
    run = finished_run("tf_throughput", cluster, scenario, context, started_at, settings)
    samples: list[tuple[str, str, int | None, float]] = [
        row
        for number, window in enumerate(recorder.counted)
        for row in (
            (
                "throughput_steps_per_s",
                "step/s",
                number,
                steps_per_s(recorder.series, window.value),
            ),
            ("idle_cpu_fraction", "1", number, window.idle),
            ("stolen_cpu_fraction", "1", number, window.stolen),
        )
    ]
    steps = sum(map(len, recorder.series.values()))
    samples += [
        (f"{role}_cpu_s_per_step", "s", None, cpu_s / steps) for role, cpu_s in used.cpu_s.items()
    ]
    if scenario.cross_traffic is not None and scenario.link_mbps is not None:
        fraction = used.others_Bps * 8e-6 / scenario.link_mbps
        samples.append(("cross_traffic_fraction", "1", None, fraction))
    columns = ["metric", "unit", "window", "value"]
    tables = {
        "sample": pl.DataFrame(samples, schema=columns, orient="row"),
        "step": _step_frame(recorder),
    }
    return ProbeResult(run, scenario, tables)


def _step_frame(recorder: Recorder) -> pl.DataFrame:
    windows = [window.value for window in recorder.counted]
    rows = [
        (worker, number, _window_of(step, windows), False, step.start_us, step.end_us)
        for worker, steps in recorder.series.items()
        for number, step in enumerate(steps)
    ]
    return pl.DataFrame(rows, schema=STEP_SCHEMA, orient="row")


def _window_of(step: StepTime, windows: Sequence[Window]) -> int | None:
    """Return the window in which a step ended, None outside all of them."""
    for number, window in enumerate(windows):
        if window.start_us < step.end_us <= window.end_us:
            return number
    return None


def _nodes(scenario: Scenario) -> tuple[NodeGroup, ...]:
    """Return the nodes of a scenario, with the neighbour that sends its cross traffic."""
    if scenario.cross_traffic is None:
        return scenario.nodes
    server = next(group for group in scenario.nodes if group.role == "server")
    return (*scenario.nodes, node_group("neighbour", server.node_type, 1))


def _needs(requested: RequestedScenarios, settings: Settings) -> Iterator[PlannedRun]:
    run_settings, expected_s = settings.model_dump(), settings.expected_s
    return plan_scenario_runs(
        "tf_throughput", requested, run_settings, lambda _: expected_s, same_start, _nodes
    )


def _run(
    cluster: Cluster, needs: Sequence[PlannedRun], context: RunContext, say: Say
) -> Iterator[ProbeResult]:
    windows = Windows(**needs[0].settings)
    return measure(cluster, [need.scenario for need in needs], context, windows, progress=say)


PROBE = Probe(
    name="tf_throughput",
    what="Steps per second of workers that train together with parameter servers.",
    kind="tensorflow",
    tables=("sample", "step"),
    settings=Settings,
    needs=_needs,
    run=_run,
    concerns=is_async,
    metric=THROUGHPUT,
)


# Traffic of others: a neighbour that exchanges datagrams with the servers at a constant rate.
#
# Datagrams, because they do not slow down for those who train: what is left of the link is known.


_LONGEST_S = 86_400
"""iperf3 must be given an end; it is killed when training ends."""
_START_TIMEOUT_S = 15.0
_FLOWING_BYTES = 100_000
"""More than iperf3's first messages: datagrams flow."""
_RECEIVED, _SENT = 0, 8
"""Columns of bytes in /proc/net/dev."""


@contextmanager
def cross_traffic(cluster: Cluster, fraction: float | None) -> Iterator[None]:
    """Send this fraction of the links' speed between the neighbour and each server, both ways.

    Does nothing without a fraction.

    Begins once the servers send: with --bidir that direction starts last.

    Raises:
        BadInput: the cluster has no neighbour, or links without a speed.
        ProbeFailed: no traffic after 15 s, or iperf3 ended before the training.
    """
    if fraction is None:
        yield
        return
    neighbours = cluster.of_role("neighbour")
    if not neighbours or cluster.link_mbps is None:
        raise BadInput(
            f"cross traffic: expected shaped links and a neighbour, found {cluster.link_mbps} Mb/s "
            f"and {len(neighbours)} neighbour(s)"
        )
    rate_bps = fraction * cluster.link_mbps * 1e6
    processes = []
    try:
        for server in cluster.of_role("server"):
            had_bytes = _counters(cluster, server)[_SENT]
            processes += _exchange(cluster, neighbours[0], server, rate_bps)
            _wait_until_it_sends(cluster, server, had_bytes)
        yield
        ended = [process for process in processes if process.poll() is not None]
        if ended:
            raise ProbeFailed(f"cross traffic: iperf3 ended early, exit {ended[0].returncode}")
    finally:
        for process in processes:
            process.kill()


def received_bytes(cluster: Cluster) -> int:
    """Return the bytes that the neighbours have received so far, with their headers."""
    return sum(_counters(cluster, node)[_RECEIVED] for node in cluster.of_role("neighbour"))


def _wait_until_it_sends(cluster: Cluster, server: Node, had_bytes: int) -> None:
    give_up_at_s = time.monotonic() + _START_TIMEOUT_S
    while _counters(cluster, server)[_SENT] < had_bytes + _FLOWING_BYTES:
        if time.monotonic() > give_up_at_s:
            raise ProbeFailed(f"cross traffic: none from {server.name} in {_START_TIMEOUT_S:.0f} s")
        time.sleep(0.05)


def _counters(cluster: Cluster, node: Node) -> list[int]:
    """Return what the node's interface has counted, as /proc/net/dev orders it."""
    for line in cluster.run(node, ["cat", "/proc/net/dev"]).splitlines():
        name, _, counters = line.partition(":")
        if name.strip() == cluster.interface:
            return [int(count) for count in counters.split()]
    raise ProbeFailed(f"{node.name} has no interface {cluster.interface}")


def _exchange(
    cluster: Cluster, neighbour: Node, server: Node, rate_bps: float
) -> "list[subprocess.Popen[str]]":
    # Nobody reads the pipes, so nothing but a last report may be written to them.
    listener, port = listen(cluster, server, "--interval", "0")
    rate = ["--udp", "--bidir", "--bitrate", f"{rate_bps:.0f}", "--time", str(_LONGEST_S)]
    quiet = ["--interval", "0", "--json"]
    client = cluster.popen(
        neighbour, ["iperf3", "--client", server.address, "--port", port, *rate, *quiet]
    )
    return [listener, client]
