"""Probe `tf_throughput`: steps per second of W workers that really train together.

All workers start from a barrier, step until throughput is stationary, and are measured over
windows in which all of them are stepping. The whole series of steps is kept.
"""

import time
from collections.abc import Callable, Iterator, Sequence

from profilers.clusters import Node
from profilers.clusters.node_types import node_group
from profilers.cross_traffic import cross_traffic, received_bytes
from profilers.nodes.tf_jobs import AsyncJob, StepTime
from profilers.probe import THROUGHPUT, Measured, PlannedRun, Probe, Session, scenario_runs
from profilers.scenarios import is_async, largest, same_start
from profilers.steady.host import MOST_STOLEN, CpuTimes, MeasuredValue
from profilers.tables import SampleRow, sample_table, step_table, window_rows
from profilers.windows import Window, Windows, is_stationary, steps_per_s
from warehouse.records import NodeGroup, Scenario

MIN_DISCARDED_STEPS = 8
"""Steps of each worker after the barrier that are never counted."""
PATIENCE_S = 30.0
"""How long windows are measured again if they were disturbed."""
TOLERANCE = 0.10
"""Two halves of a window hold few dozen steps each: closer agreement would be luck."""
MAX_SETTLING_WINDOWS = 2.0
"""Measure after this many window lengths even if throughput still changes; the run says so."""


def _run(session: Session, needs: Sequence[PlannedRun]) -> Iterator[Measured]:
    """Measure scenarios that differ only in the number of workers.

    In table `step`, workers are numbered group by group of the scenario.
    """
    windows, cluster = Windows(**needs[0].settings), session.cluster
    with AsyncJob(cluster, largest(need.scenario for need in needs), session.say) as job:
        for scenario in (need.scenario for need in needs):
            session.begin(f"measure {scenario.label}")
            recorder = Recorder(cluster.cpu_times, scenario.strategy.workers, windows)
            with cross_traffic(cluster, scenario.cross_traffic):
                had_s, had_bytes = job.cpu_s_by_role(), received_bytes(cluster)
                from_s = time.monotonic()
                job.train(workers_of(scenario, job.workers), recorder.until)
                others_bytes = received_bytes(cluster) - had_bytes
                seconds = time.monotonic() - from_s
                cpu_s = job.cpu_s_by_role()
            steps = sum(map(len, recorder.series.values()))
            samples: list[SampleRow] = [
                (f"{role}_cpu_s_per_step", "s", None, (cpu_s[role] - had_s[role]) / steps)
                for role in cpu_s
            ]
            if scenario.cross_traffic is not None and scenario.link_mbps is not None:
                fraction = others_bytes / seconds * 8e-6 / scenario.link_mbps
                samples.append(("cross_traffic_fraction", "1", None, fraction))
            yield _measured(recorder, samples)


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


def _measured(recorder: Recorder, samples: Sequence[SampleRow]) -> Measured:
    windows = [window.value for window in recorder.counted]
    rates = [steps_per_s(recorder.series, window) for window in windows]
    counted = list(zip(rates, recorder.counted, strict=True))
    return Measured(
        {
            "sample": sample_table([*window_rows(THROUGHPUT, counted), *samples]),
            "step": step_table(
                (worker, number, _window_of(step, windows), False, *step)
                for worker, steps in recorder.series.items()
                for number, step in enumerate(steps)
            ),
        },
        {
            "windows": len(windows),
            "discarded_windows": len(recorder.measured) - len(windows),
            "min_discarded_steps": MIN_DISCARDED_STEPS,
            "stationary": recorder.stationary,
        },
    )


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


PROBE = Probe(
    name="tf_throughput",
    what="Steps per second of workers that train together with parameter servers.",
    kind="tensorflow",
    tables=("sample", "step"),
    settings=Windows,
    needs=scenario_runs("tf_throughput", lambda windows, _: windows.expected_s, same_start, _nodes),
    run=_run,
    concerns=is_async,
    metric=THROUGHPUT,
)
