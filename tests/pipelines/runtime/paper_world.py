"""A world of declared times, in which a controller decides and nodes are lost at certain times."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import floor

from pipelines.runtime import messages
from pipelines.runtime.controller import Controller
from pipelines.runtime.job_store import EventLogEntry, log_entries, progress_entry
from pipelines.runtime.plan import Infeasible, LimitRelaxation
from pipelines.runtime.state import JobState


@dataclass(frozen=True)
class PlannedLoss:
    """At `at_s` the lowest rank of a node type is taken away, if there is one."""

    at_s: float
    node_type: str


@dataclass(frozen=True)
class _TrainingDone:
    """An incarnation has trained all iterations."""

    incarnation: int


@dataclass
class PaperWorld:
    """Carries out what a controller decides, in virtual time.

    Attributes:
        controller: decides.
        state: of the job.
        launches_s: how long each wave of launches takes; the last one holds for all later ones.
        restart_s: how long programs take that are started anew.
        detach_s: how long a checkpoint takes.
        paces: how many times as long as expected iterations take, each time training begins; the
            last one holds for all later ones.
        answer: what the user says where nothing is feasible.
        story: what happened.
    """

    controller: Controller
    state: JobState
    launches_s: Sequence[float]
    restart_s: float
    detach_s: float
    paces: Sequence[float] = (1.0,)
    answer: Callable[[Infeasible], LimitRelaxation | None] = lambda _: None
    story: list[EventLogEntry] = field(default_factory=list)

    def run(self, losses: Sequence[PlannedLoss] = ()) -> JobState:
        """Return the state in which the job ends, or waits for what never comes."""
        self._queue: list[tuple[float, int, messages.Event | PlannedLoss | _TrainingDone]] = []
        self._serial, self._waves = count(), 0
        self._began_s, self._from_step, self._step_s = 0.0, 0, 1.0
        self._later(0.0, messages.JobStarted())
        for loss in losses:
            self._later(loss.at_s, loss)
        while self._queue and not self.state.over:
            at_s, _, what = heapq.heappop(self._queue)
            if (event := self._event(what)) is not None:
                self._beat(at_s)
                self._advance(at_s, event)
        return self.state

    def _event(self, what: messages.Event | PlannedLoss | _TrainingDone) -> messages.Event | None:
        state = self.state
        if isinstance(what, PlannedLoss):
            names = [node.name for node in state.nodes if node.node_type == what.node_type]
            return messages.NodeLost(names[0], "ended") if names else None
        if isinstance(what, _TrainingDone):
            goes_on = (state.phase, state.incarnation) == ("training", what.incarnation)
            return messages.CheckpointSaved(state.iterations, asked=False) if goes_on else None
        return what

    def _beat(self, at_s: float) -> None:
        """Let all nodes say how far they are, as they do all the time."""
        if self.state.phase == "training":
            step = self._step(at_s)
            for node in self.state.nodes:
                beat = messages.Heartbeat(node.name, step)
                self.state, _ = self.controller.advance(self.state, at_s, beat)
            self.story.append(progress_entry(self.state, step))

    def _step(self, at_s: float) -> int:
        done = floor((at_s - self._began_s) / self._step_s + 1e-6)
        return min(self._from_step + done, self.state.iterations)

    def _advance(self, at_s: float, event: messages.Event) -> None:
        before = self.state
        self.state, decisions = self.controller.advance(before, at_s, event)
        self.story += log_entries(before, event, decisions, self.state)
        self._waves += any(isinstance(decision, messages.LaunchNode) for decision in decisions)
        for decision in decisions:
            self._carry_out(at_s, decision)

    def _carry_out(self, at_s: float, decision: messages.Decision) -> None:
        match decision:
            case messages.CarryOutPlan(plan):
                self._step_s = plan.forecast.step_time_s
            case messages.LaunchNode(node):
                wave = min(self._waves, len(self.launches_s)) - 1
                self._later(at_s + self.launches_s[wave], messages.NodeReady(node))
            case messages.RestartProgram(node):
                self._later(at_s + self.restart_s, messages.NodeReady(node))
            case messages.SaveCheckpoint(node):
                step = self.state.step if node is None else self._step(at_s)
                self._later(at_s, messages.ClockTick())
                self._later(at_s + self.detach_s, messages.CheckpointSaved(step, asked=True))
            case messages.StartTraining(step=step, incarnation=incarnation):
                self._began_s, self._from_step = at_s, step
                self._step_s *= self.paces[min(incarnation, len(self.paces)) - 1]
                left_s = (self.state.iterations - step) * self._step_s
                self._later(at_s + left_s, _TrainingDone(incarnation))
            case messages.AskUser(infeasible):
                self._later(at_s, messages.UserChoice(self.answer(infeasible)))

    def _later(self, at_s: float, what: messages.Event | PlannedLoss | _TrainingDone) -> None:
        heapq.heappush(self._queue, (at_s, next(self._serial), what))
