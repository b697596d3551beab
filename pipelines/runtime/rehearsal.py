"""A job in virtual time: what the controller would do if these nodes were lost then."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import floor

from pipelines.runtime.controller import Controller
from pipelines.runtime.job_file import Interruption
from pipelines.runtime.job_store import EventLogEntry, log_entries, progress_entry
from pipelines.runtime.plan import Infeasible, LimitRelaxation
from pipelines.runtime.state import (
    AskUser,
    CarryOutPlan,
    CheckpointSaved,
    ClockTick,
    Decision,
    Event,
    Heartbeat,
    JobStarted,
    JobState,
    LaunchNode,
    NodeLost,
    NodeReady,
    RestartProgram,
    SaveCheckpoint,
    StartTraining,
    UserChoice,
)


@dataclass(frozen=True)
class PlannedLoss:
    """At `at_s` the lowest rank of a node type is taken away, if there is one."""

    at_s: float
    node_type: str


@dataclass(frozen=True)
class _InterruptionDue:
    """An interruption is due, if training still goes on as it did when this was known."""

    interruption: Interruption
    incarnation: int


@dataclass(frozen=True)
class _TrainingDone:
    """An incarnation has trained all iterations."""

    incarnation: int


_What = Event | PlannedLoss | _InterruptionDue | _TrainingDone


@dataclass
class Rehearsal:
    """A world of declared times.

    Attributes:
        controller: decides.
        state: of the job.
        launches_s: how long each wave of launches takes; the last one holds for all later ones.
        restart_s: how long programs take that are started anew.
        detach_s: how long a checkpoint takes.
        paces: how many times as long as expected iterations take, each time training begins; the
            last one holds for all later ones.
        interruptions: by iterations done; those at certain times are given to `run`.
        answer: what the user says where nothing is feasible.
        story: what happened.
    """

    controller: Controller
    state: JobState
    launches_s: Sequence[float]
    restart_s: float
    detach_s: float
    paces: Sequence[float] = (1.0,)
    interruptions: Sequence[Interruption] = ()
    answer: Callable[[Infeasible, JobState], LimitRelaxation | None] = lambda *_: None
    story: list[EventLogEntry] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._queue: list[tuple[float, int, _What]] = []
        self._serial = count()
        self._waves = 0
        self._began_s, self._from_step, self._step_s = 0.0, 0, 1.0

    def run(self, losses: Sequence[PlannedLoss] = ()) -> JobState:
        """Return the state in which the job ends, or waits for what never comes."""
        self._later(0.0, JobStarted())
        for loss in losses:
            self._later(loss.at_s, loss)
        while self._queue and not self.state.over:
            at_s, _, what = heapq.heappop(self._queue)
            event = self._event(what)
            if event is not None:
                self._beat(at_s)
                self._advance(at_s, event)
        return self.state

    def _event(self, what: _What) -> Event | None:
        state = self.state
        match what:
            case PlannedLoss(_, node_type):
                return self._lose(node_type)
            case _InterruptionDue(interruption, incarnation):
                return self._lose(interruption.node_type) if self._trains(incarnation) else None
            case _TrainingDone(incarnation):
                done = CheckpointSaved(state.iterations, asked=False)
                return done if self._trains(incarnation) else None
        return what

    def _lose(self, node_type: str) -> Event | None:
        names = [node.name for node in self.state.nodes if node.node_type == node_type]
        return NodeLost(names[0], "ended") if names else None

    def _trains(self, incarnation: int) -> bool:
        return self.state.phase == "training" and self.state.incarnation == incarnation

    def _beat(self, at_s: float) -> None:
        """Let all nodes say how far they are, as they do all the time."""
        if self.state.phase == "training":
            step = self._step(at_s)
            for node in self.state.nodes:
                self.state, _ = self.controller.advance(
                    self.state, at_s, Heartbeat(node.name, step)
                )
            self.story.append(progress_entry(self.state, step))

    def _step(self, at_s: float) -> int:
        done = floor((at_s - self._began_s) / self._step_s + 1e-6)
        return min(self._from_step + done, self.state.iterations)

    def _advance(self, at_s: float, event: Event) -> None:
        before = self.state
        self.state, decisions = self.controller.advance(before, at_s, event)
        self.story += log_entries(before, event, decisions, self.state)
        self._waves += any(isinstance(decision, LaunchNode) for decision in decisions)
        for decision in decisions:
            self._carry_out(at_s, decision)

    def _carry_out(self, at_s: float, decision: Decision) -> None:
        match decision:
            case CarryOutPlan(plan):
                self._step_s = plan.forecast.step_time_s
            case LaunchNode(node):
                wave = min(self._waves, len(self.launches_s)) - 1
                self._later(at_s + self.launches_s[wave], NodeReady(node))
            case RestartProgram(node):
                self._later(at_s + self.restart_s, NodeReady(node))
            case SaveCheckpoint(node):
                step = self.state.step if node is None else self._step(at_s)
                self._later(at_s, ClockTick())
                self._later(at_s + self.detach_s, CheckpointSaved(step, asked=True))
            case StartTraining(step=step, incarnation=incarnation):
                self._began_s, self._from_step = at_s, step
                self._step_s *= self.paces[min(incarnation, len(self.paces)) - 1]
                left_s = (self.state.iterations - step) * self._step_s
                self._later(at_s + left_s, _TrainingDone(incarnation))
                for interruption in self.interruptions:
                    if interruption.after_iterations > step:
                        due_s = at_s + (interruption.after_iterations - step) * self._step_s
                        self._later(due_s, _InterruptionDue(interruption, incarnation))
            case AskUser(infeasible):
                self._later(at_s, UserChoice(self.answer(infeasible, self.state)))

    def _later(self, at_s: float, what: _What) -> None:
        heapq.heappush(self._queue, (at_s, next(self._serial), what))
