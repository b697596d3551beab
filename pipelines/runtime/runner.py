"""The thin layer between the controller and the world: hears, tells, writes down."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from pipelines.runtime import checkpoints, events
from pipelines.runtime.controller import Controller
from pipelines.runtime.fleet import Fleet
from pipelines.runtime.job_file import TrainingJob
from pipelines.runtime.keeping import Keeper
from pipelines.runtime.planning import Infeasible, Way
from pipelines.runtime.state import State
from pipelines.runtime.story import Entry, entries, progress, stopped
from profilers.nodes.programs import Message
from warehouse.records import ProbeFailed, StepcastError

_TICK_S = 0.5
_PROGRESS_S = 2.0
_LEAVE_S = 10.0
"""For how long the last checkpoint of an interrupted job is waited for."""

Tell = Callable[[Entry], None]
Answer = Callable[[Infeasible, State], Way | None]


class Runner:
    """Runs one job to its end.

    Args:
        job: what is trained.
        controller: decides.
        fleet: carries out.
        keeper: remembers.
        tell: is given the story as it happens.
        answer: asks the user, or a policy, where nothing is feasible.
    """

    def __init__(
        self,
        job: TrainingJob,
        controller: Controller,
        fleet: Fleet,
        keeper: Keeper,
        tell: Tell,
        answer: Answer,
    ) -> None:
        self._job, self._controller, self._fleet = job, controller, fleet
        self._keeper, self._tell, self._answer = keeper, tell, answer
        self._queue: deque[events.Event] = deque()
        self._ticked_s = time.monotonic()
        self._told_step, self._told_s = -1, 0.0
        step, _ = checkpoints.newest(keeper.folder)
        self._interruptions = [one for one in job.interruptions if one.after_iterations > step]

    @property
    def state(self) -> State:
        """Where the job stands."""
        return self._keeper.state

    def run(self) -> State:
        """Begin, or go on where another controller ended; return how the job ended."""
        step, _ = checkpoints.newest(self._keeper.folder)
        fresh = self.state.phase == "new"
        self._queue.append(events.Began() if fresh else events.Resumed(step))
        try:
            while not self.state.over:
                event = self._queue.popleft() if self._queue else self._next()
                if event is not None:
                    self._advance(event)
        except KeyboardInterrupt:
            self._save_and_leave()
            raise
        return self.state

    def _save_and_leave(self) -> None:
        """Have what is trained saved, if that is soon done, and write down what was spent."""
        if self.state.phase in ("training", "saving") and self.state.nodes:
            saver, until_s = self.state.nodes[0].name, time.monotonic() + _LEAVE_S
            self._fleet.save(saver)
            while (left_s := until_s - time.monotonic()) > 0:
                name, message = self._fleet.hear(left_s) or ("", {"event": None})
                if name == saver and (message is None or message["event"] == "saved"):
                    break
        self._fleet.leave()
        state = self.state.but(at_s=self._keeper.now_s())
        self._keeper.keep(state, [stopped(state)])

    def _next(self) -> events.Event | None:
        if time.monotonic() - self._ticked_s > _TICK_S:
            self._ticked_s = time.monotonic()
            self._note_progress()
            return events.Tick()
        heard = self._fleet.hear(_TICK_S)
        return None if heard is None else self._event(*heard)

    def _event(self, name: str, message: Message | None) -> events.Event | None:
        if message is None:
            return events.Lost(name, "ended")
        match message["event"]:
            case "ready":
                self._fleet.confine(name)
                return events.Ready(name)
            case "beat":
                return events.Beat(name, cast(int, message["step"]))
            case "saved":
                self._heard_now()
                step, asked = cast(int, message["step"]), bool(message["asked"])
                return events.Saved(step, asked)
            case "broken":
                return events.Broken(name, str(message["error"]))
            case "notice":
                return events.Lost(name, "notice")
        return None

    def _advance(self, event: events.Event) -> None:
        before = self.state
        after, decisions = self._controller.advance(before, self._keeper.now_s(), event)
        story = [self._with_error(one) for one in entries(before, event, decisions, after)]
        self._keeper.keep(after, story)
        for entry in story:
            self._tell(entry)
        for decision in decisions:
            self._carry_out(decision)
        self._launch([one for one in decisions if isinstance(one, events.Launch)])
        if isinstance(event, events.Beat):
            self._interrupt()

    def _launch(self, launches: Sequence[events.Launch]) -> None:
        """Bring up the nodes of each kind together; of a kind, all come up or none."""
        for kind in dict.fromkeys(one.kind for one in launches):
            names = [one.node for one in launches if one.kind == kind]
            try:
                self._fleet.launch(names, kind)
            except StepcastError as error:
                self._fleet.errors |= dict.fromkeys(names, str(error))
                self._queue += [events.Lost(name, "not launched") for name in names]
            self._heard_now()

    def _with_error(self, entry: Entry) -> Entry:
        """Add to a loss what the node's program, or its launch, last said."""
        said = self._fleet.errors.get(entry.node or "") if entry.event == "lost" else None
        return (
            entry.model_copy(update={"detail": {**entry.detail, "said": said}}) if said else entry
        )

    def _carry_out(self, decision: events.Decision) -> None:
        match decision:
            case events.Restart(name):
                self._fleet.restart(name)
            case events.Release(name):
                self._fleet.release(name)
            case events.Save(None):
                step, _ = checkpoints.newest(self._keeper.folder)
                self._queue.append(events.Saved(step, asked=True))
            case events.Save(str(name)):
                self._fleet.save(name)
            case events.Train():
                checkpoint = checkpoints.of_step(self._keeper.folder, decision.step)
                if decision.step and checkpoint is None:
                    raise StepcastError(
                        f"the checkpoint of iteration {decision.step} is gone from "
                        f"{self._keeper.folder}; put it back, or remove that folder to begin anew"
                    )
                self._train(decision, checkpoint)
            case events.Ask(infeasible):
                way = self._answer(infeasible, self.state)
                self._queue.append(events.Answered(way))
                self._heard_now()

    def _train(self, decision: events.Train, checkpoint: Path | None) -> None:
        try:
            self._fleet.train(decision, self.state.iterations, checkpoint)
        except ProbeFailed as error:
            self._fleet.errors[decision.nodes[0]] = str(error)
            self._queue.append(events.Lost(decision.nodes[0], "ended"))
        self._heard_now()

    def _heard_now(self) -> None:
        """Let what was said while nobody listened come before any judgement of who is silent."""
        self._ticked_s = time.monotonic()

    def _note_progress(self) -> None:
        step, now_s = self.state.reached, time.monotonic()
        news = self.state.phase == "training" and step != self._told_step
        if news and now_s - self._told_s > _PROGRESS_S:
            self._told_step, self._told_s = step, now_s
            entry = progress(self.state, step)
            self._keeper.keep(self.state, [entry])
            self._tell(entry)

    def _interrupt(self) -> None:
        """Do what the job file says is to be done to emulated nodes."""
        state = self.state
        for one in list(self._interruptions):
            names = [node.name for node in state.nodes if node.node_type == one.node_type]
            if state.phase == "training" and state.reached >= one.after_iterations and names:
                self._interruptions.remove(one)
                self._fleet.interrupt(names[0], one.how)
