"""What a probe is: the contract between what measures and the studies that need it."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from profilers import clock
from profilers.clusters import Cluster
from profilers.result import ProbeResult, RunContext, finished_run
from warehouse.asks import Subject
from warehouse.records import Backend, NodeGroup, ProbeFailed, Purpose, Record, Run, Scenario

Say = Callable[[str], None]
"""Told what runs now."""
Settings = Mapping[str, Any]
"""What a run was asked for by name, as its probe takes it; what has landed keeps these names."""

START_S, START_PER_NODE_S = 8.0, 4.0
STEP_S = 0.5
"""First guesses of what programs and steps take; what a study really takes corrects them."""


@dataclass(frozen=True)
class Metric:
    """What a probe measures of a whole scenario: its name in the history, unit, and in words."""

    name: str
    unit: str
    in_words: str


THROUGHPUT = Metric("throughput_steps_per_s", "step/s", "steps/s of all workers")
STEP_TIME = Metric("step_time_s", "s", "seconds per step")


@dataclass(frozen=True)
class Asked:
    """The scenarios of a study of which a probe is asked for something.

    Attributes:
        own: as they are profiled, for forecasts of test scenarios.
        cluster: test scenarios, on the links that they train and are profiled on, of whose nodes
            and links something is asked.
        train: scenarios that fits may see, where a system learns from runs of this probe.
        test: all scenarios that are judged: what is measured of them stays hidden from fits.
    """

    own: tuple[Scenario, ...] = ()
    cluster: tuple[Scenario, ...] = ()
    train: tuple[Scenario, ...] = ()
    test: tuple[Scenario, ...] = ()


@dataclass(frozen=True)
class Need:
    """A run that a study needs of a probe.

    Attributes:
        subject: what it is about.
        purpose: whether predictors may see it, or it judges them.
        title: what progress and plans call it.
        nodes: that it takes.
        settings: what the probe is asked for.
        expected_s: seconds that it takes beside the start of programs.
        start: needs with the same are measured on one start of programs; None: it has its own.
        start_s: seconds of that start.
        of_train: about a train scenario: later rounds go on with it.
    """

    subject: Subject
    purpose: Purpose
    title: str = field(compare=False)
    nodes: tuple[NodeGroup, ...] = field(compare=False)
    settings: Settings = field(compare=False)
    expected_s: float = field(compare=False)
    start: Hashable = field(default=None, compare=False)
    start_s: float = field(default=0.0, compare=False)
    of_train: bool = field(default=False, compare=False)

    @property
    def probe(self) -> str:
        """The name of its probe."""
        return self.subject.probe

    @property
    def scenario(self) -> Scenario:
        """The scenario that it is about.

        Raises:
            ValueError: it is about nodes and links.
        """
        if self.subject.scenario is None:
            raise ValueError(f"{self.title} is about no scenario")
        return self.subject.scenario

    @property
    def profiles(self) -> bool:
        """Whether predictors may see it."""
        return self.purpose == "profile"

    def is_done_by(self, run: Run) -> bool:
        """Tell whether a run is this one, whatever its round and settings."""
        if (run.status, run.probe, run.purpose) != ("ok", self.probe, self.purpose):
            return False
        if self.subject.scenario is not None:
            return run.scenario_id == self.subject.scenario.scenario_id
        expected = {**self.subject.config, "link_mbps": self.subject.link_mbps}
        return all(run.config.get(name) == value for name, value in expected.items())


def _no_check(asked: Asked, needs: Sequence[Need], backend: Backend) -> None:
    """Refuse nothing."""


@dataclass(frozen=True)
class Probe:
    """A measuring program.

    Attributes:
        name: as it has landed, for ever.
        what: one line.
        kind: the program that does the work, as lineage shows it.
        tables: raw tables that its runs fill; the first is what they are about.
        settings: what a study may ask of it; everything in it has a default.
        needs: the runs that serve what a study asks for, with these settings. It refuses settings
            that cannot work (BadInput).
        run: measures needs of one start on a cluster of their nodes, and yields a result for each,
            in their order. It raises ProbeFailed where it cannot go on.
        concerns: whether it can say anything of a scenario.
        metric: what it measures of whole scenarios, by which forecasts are judged; None: nothing.
        essential: settings that say what is measured, not how precisely.
        one_node: several of its needs disturb each other only where their nodes share a machine.
        check: refuses what a whole study asks, or what this backend cannot meet (BadInput,
            MissingTool).
    """

    name: str
    what: str
    kind: str
    tables: tuple[str, ...]
    settings: type[Record]
    needs: Callable[[Asked, Any], Iterable[Need]]
    run: Callable[[Cluster, Sequence[Need], RunContext, Say], Iterable[ProbeResult]]
    concerns: Callable[[Scenario], bool] = lambda _: True
    metric: Metric | None = None
    essential: frozenset[str] = frozenset()
    one_node: bool = False
    check: Callable[[Asked, Sequence[Need], Backend], None] = _no_check


def results(
    probe: Probe, cluster: Cluster, needs: Sequence[Need], context: RunContext, say: Say
) -> Iterator[tuple[Need, ProbeResult]]:
    """Measure needs of one start, and yield each with its result as soon as it is there.

    After a failure that is a failed run, which keeps error and stderr and has no rows, for each
    need that was not measured.
    """
    remaining, started_at = list(needs), clock.now()
    try:
        for result in probe.run(cluster, needs, context, say):
            yield remaining.pop(0), result
            started_at = clock.now()
    except ProbeFailed as error:
        why = f"{lost} ({error})" if (lost := cluster.lost()) else str(error)
        for need in remaining:
            scenario = need.subject.scenario
            run = finished_run(probe.name, cluster, scenario, context, started_at, {}, error=why)
            artefacts = {}
            if error.detail:
                artefacts["stderr.txt"] = context.scratch / f"{run.run_id}.stderr.txt"
                artefacts["stderr.txt"].write_text(error.detail)
            yield need, ProbeResult(run, scenario, {}, artefacts)


def start_s(nodes: Sequence[NodeGroup]) -> float:
    """Return about how many seconds programs on these nodes take to start."""
    workers = sum(group.count for group in nodes if group.role == "worker")
    return START_S + START_PER_NODE_S * workers


def one_by_one(
    measure: Callable[[], Callable[..., ProbeResult]],
) -> Callable[[Cluster, Sequence[Need], RunContext, Say], Iterator[ProbeResult]]:
    """Return a `Probe.run` that measures needs one after the other, by a function for one.

    Args:
        measure: returns that function, which takes a cluster, the scenario where the need is about
            one, the context, the settings of the need by name, and `progress`.
    """

    def run(
        cluster: Cluster, needs: Sequence[Need], context: RunContext, say: Say
    ) -> Iterator[ProbeResult]:
        for need in needs:
            scenario = need.subject.scenario
            about = () if scenario is None else (scenario,)
            yield measure()(cluster, *about, context, **need.settings, progress=say)

    return run
