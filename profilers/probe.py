"""What a probe is: its contract with studies, its planned runs, and what it returns."""

import uuid
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from profilers import clock
from profilers.clusters import Cluster
from profilers.clusters.node_types import declared_usd_per_hour
from profilers.steady.gauges import GAUGE
from profilers.steady.hostlock import host_lock
from warehouse.records import Backend, NodeGroup, ProbeFailed, Purpose, Record, Run, Scenario
from warehouse.requirements import Subject

Setting = str | int | float | bool | None
Say = Callable[[str], None]
"""Told what runs now."""
Settings = Mapping[str, Any]
"""What a run was asked for by name, as its probe takes it; what has landed keeps these names."""

START_S, START_PER_NODE_S = 8.0, 4.0
STEP_S = 0.5
"""First guesses of what programs and steps take; what a study really takes corrects them."""


@dataclass
class Session:
    """Where a probe measures, for which study and round, and who is told what runs now.

    Nodes of `cluster` are up. Raw artefacts are written to `scratch`; whoever made that folder
    lands and removes them. The host lock is held meanwhile. A run starts at `started_at`: when the
    one before it was finished, or when a probe says that it begins.
    """

    cluster: Cluster
    scratch: Path
    say: Say
    study: str
    repeat: int
    started_at: datetime = field(default_factory=clock.now)

    def begin(self, text: str) -> None:
        """Begin the next run now, and tell which it is."""
        self.started_at = clock.now()
        self.say(text)


@dataclass(frozen=True)
class Measured:
    """What a probe measured for a planned run.

    Attributes:
        tables: a frame for each raw table, without run_id.
        config: what the run remembers of how it was measured.
        artefacts: raw files by name.
    """

    tables: Mapping[str, pl.DataFrame]
    config: Mapping[str, Setting] = field(default_factory=dict)
    artefacts: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class ProbeResult:
    """A run, its scenario, one frame per raw table (without run_id) and raw artefacts by name."""

    run: Run
    scenario: Scenario | None
    tables: Mapping[str, pl.DataFrame]
    artefacts: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class Metric:
    """What a probe measures of a whole scenario: its name in the history, unit, and in words."""

    name: str
    unit: str
    in_words: str


THROUGHPUT = Metric("throughput_steps_per_s", "step/s", "steps/s of all workers")
STEP_TIME = Metric("step_time_s", "s", "seconds per step")


@dataclass(frozen=True)
class RequestedScenarios:
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
class PlannedRun:
    """A run that a study needs of a probe.

    Attributes:
        subject: what it is about.
        purpose: whether predictors may see it, or it judges them.
        title: what progress and plans call it.
        nodes: that it takes.
        settings: what the probe is asked for.
        expected_s: seconds that it takes beside the start of programs.
        start: needs with the same are measured on one start of programs; None: it has its own.
        starts_programs: whether a framework is loaded on its workers, which takes `start_s`.
        of_train: about a train scenario: later rounds go on with it.
    """

    subject: Subject
    purpose: Purpose
    title: str = field(compare=False)
    nodes: tuple[NodeGroup, ...] = field(compare=False)
    settings: Settings = field(compare=False)
    expected_s: float = field(compare=False)
    start: Hashable = field(default=None, compare=False)
    starts_programs: bool = field(default=True, compare=False)
    of_train: bool = field(default=False, compare=False)

    @property
    def start_s(self) -> float:
        """Seconds of the start of its programs."""
        return start_s(self.nodes) if self.starts_programs else 0.0

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


def start_s(nodes: Sequence[NodeGroup]) -> float:
    """Return about how many seconds programs on these nodes take to start."""
    workers = sum(group.count for group in nodes if group.role == "worker")
    return START_S + START_PER_NODE_S * workers


def _no_check(requested: RequestedScenarios, needs: Sequence[PlannedRun], backend: Backend) -> None:
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
        run: measures needs of one start on a cluster of their nodes, and yields what it measured
            for each, in their order. It raises ProbeFailed where it cannot go on.
        concerns: whether it can say anything of a scenario.
        metric: what it measures of whole scenarios, by which forecasts are judged; None: nothing.
        essential: settings that say what is measured, not how precisely.
        check: refuses what a whole study asks, or what this backend cannot meet (BadInput,
            MissingTool).
    """

    name: str
    what: str
    kind: str
    tables: tuple[str, ...]
    settings: type[Record]
    needs: Callable[[RequestedScenarios, Any], Iterable[PlannedRun]]
    run: Callable[[Session, Sequence[PlannedRun]], Iterable[Measured]]
    concerns: Callable[[Scenario], bool] = lambda _: True
    metric: Metric | None = None
    essential: frozenset[str] = frozenset()
    check: Callable[[RequestedScenarios, Sequence[PlannedRun], Backend], None] = _no_check


def one_by_one(
    measure: Callable[[Session, PlannedRun], Measured],
) -> Callable[[Session, Sequence[PlannedRun]], Iterator[Measured]]:
    """Return a `Probe.run` that measures needs one after the other, by a function for one."""
    return lambda session, needs: (measure(session, need) for need in needs)


def measure_planned_runs(
    probe: Probe, session: Session, needs: Sequence[PlannedRun]
) -> Iterator[tuple[PlannedRun, ProbeResult]]:
    """Measure needs of one start, and yield each with its result as soon as it is there.

    The host lock is held all the time. After a failure that is a failed run, which keeps error and
    stderr and has no rows, for each need that was not measured.
    """
    remaining = list(needs)
    with host_lock(session.say):
        session.started_at = clock.now()
        try:
            for measured in probe.run(session, needs):
                run = _finished_run(session, remaining[0], measured.config)
                scenario = remaining[0].subject.scenario
                result = ProbeResult(run, scenario, measured.tables, measured.artefacts)
                yield remaining.pop(0), result
                session.started_at = clock.now()
        except ProbeFailed as error:
            why = f"{lost} ({error})" if (lost := session.cluster.lost()) else str(error)
            for need in remaining:
                run = _finished_run(session, need, {}, error=why)
                artefacts = {}
                if error.detail:
                    artefacts["stderr.txt"] = session.scratch / f"{run.run_id}.stderr.txt"
                    artefacts["stderr.txt"].write_text(error.detail)
                yield need, ProbeResult(run, need.subject.scenario, {}, artefacts)


def _finished_run(
    session: Session, need: PlannedRun, config: Mapping[str, Setting], error: str | None = None
) -> Run:
    """Describe a run that ends now; with an `error` it is a failed one.

    Its config has how it was measured, facts of the cluster, how fast the host was (`gauge_us`, and
    `host_gflops` where nodes have steady cores), and what its nodes cost an hour (`usd_per_hour`):
    as they are rented, else where their types declare it. The cost of a run on rented nodes is that
    of its own seconds; what they cost before and after is in query bill.

    Raises:
        ProbeFailed: the cores of a run that did not fail were not steady.
    """
    cluster, started_at, scenario = session.cluster, session.started_at, need.subject.scenario
    gauge_us = GAUGE.mean_us(started_at) if cluster.here else None
    conditions = {"gauge_us": None if gauge_us is None else round(gauge_us, 1)}
    host_gflops = cluster.host_gflops(started_at) if error is None else None
    groups = cluster.groups if scenario is None else scenario.nodes
    rented_usd, ended_at = cluster.usd_per_hour(), clock.now()
    conditions["usd_per_hour"] = declared_usd_per_hour(groups) if rented_usd is None else rented_usd
    hours = (ended_at - started_at).total_seconds() / 3600
    if host_gflops is not None:
        conditions["host_gflops"] = round(host_gflops, 2)
    return Run(
        run_id=f"{started_at:%Y%m%dT%H%M%S}-{need.probe}-{uuid.uuid4().hex[:8]}",
        probe=need.probe,
        purpose=need.purpose,
        study=session.study,
        repeat=session.repeat,
        scenario_id=scenario.scenario_id if scenario else None,
        backend=cluster.backend,
        status="failed" if error else "ok",
        error=error,
        started_at=started_at,
        ended_at=ended_at,
        host_id=cluster.host_id(),
        host=dict(cluster.host()),
        software=dict(cluster.software()),
        config={**config, **cluster.facts(), "link_mbps": cluster.link_mbps, **conditions},
        cost_usd=None if rented_usd is None else rented_usd * hours,
    )


def plan_scenario(
    probe: str,
    scenario: Scenario,
    settings: Settings,
    expected_s: float,
    purpose: Purpose = "profile",
    *,
    verb: str = "profile",
    **more: Any,
) -> PlannedRun:
    """Return a run about a scenario, on its own nodes unless `more` fields say otherwise."""
    subject, title = Subject(probe, scenario, scenario.link_mbps), f"{verb} {scenario.label}"
    fields = {"nodes": scenario.nodes, **more}
    return PlannedRun(subject, purpose, title, settings=settings, expected_s=expected_s, **fields)


def scenario_runs(
    probe: str,
    expected_s: Callable[[Any, Scenario], float],
    start: Callable[[Scenario], Hashable],
    nodes: Callable[[Scenario], tuple[NodeGroup, ...]] = lambda scenario: scenario.nodes,
) -> Callable[[RequestedScenarios, Any], Iterator[PlannedRun]]:
    """Return the `needs` of a probe that measures whole scenarios: all nodes train.

    They are scenarios for fits to see, own and train ones, then test ones to judge forecasts by.

    Args:
        probe: its name.
        expected_s: with these settings, of a run of a scenario, beside the start of programs.
        start: what scenarios share that one start of programs can measure.
        nodes: those that measure a scenario.
    """

    def needs(requested: RequestedScenarios, settings: Record) -> Iterator[PlannedRun]:
        purposes: list[tuple[Purpose, Iterable[Scenario]]] = [
            ("profile", dict.fromkeys((*requested.train, *requested.own))),
            ("measurement", dict.fromkeys(requested.test)),
        ]
        for purpose, scenario in ((purpose, each) for purpose, some in purposes for each in some):
            yield plan_scenario(
                probe,
                scenario,
                settings.model_dump(),
                expected_s(settings, scenario),
                purpose,
                verb="measure",
                nodes=nodes(scenario),
                start=start(scenario),
                of_train=purpose == "profile" and scenario in requested.train,
            )

    return needs
