"""One attempt at a job: its folder and cluster, the loop between controller and world, its run."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import cast

from models.srift.iteration import Performance
from pipelines.runtime import checkpoints, messages
from pipelines.runtime.controller import Controller
from pipelines.runtime.janitor import run_janitor
from pipelines.runtime.job_file import TrainingJob
from pipelines.runtime.job_nodes import RANK, JobNodes
from pipelines.runtime.job_store import (
    PROBE,
    EventLogEntry,
    JobStore,
    frame,
    log_entries,
    progress_entry,
)
from pipelines.runtime.plan import Infeasible, LimitRelaxation
from pipelines.runtime.state import JobState
from profilers.clusters import host_id, open_cluster
from profilers.nodes.notices import EC2_METADATA
from profilers.nodes.programs import Message, Programs
from profilers.steady.hostlock import host_lock
from studies.run_settings import with_origin
from warehouse.landing import land
from warehouse.records import Backend, ProbeFailed, Run, StepcastError

_TICK_S = 0.5
_PROGRESS_S = 2.0
_LEAVE_S = 10.0
"""For how long the last checkpoint of an interrupted job is waited for."""

Tell = Callable[[EventLogEntry], None]
AnswerPolicy = Callable[[Infeasible, JobState], LimitRelaxation | None]


class Runner:
    """Runs one job to its end.

    Args:
        job: what is trained.
        controller: decides.
        nodes: carry out.
        keeper: remembers.
        tell: is given the story as it happens.
        answer: asks the user, or a policy, where nothing is feasible.
    """

    def __init__(
        self,
        job: TrainingJob,
        controller: Controller,
        nodes: JobNodes,
        keeper: JobStore,
        tell: Tell,
        answer: AnswerPolicy,
    ) -> None:
        self._job, self._controller, self._nodes = job, controller, nodes
        self._keeper, self._tell, self._answer = keeper, tell, answer
        self._queue: deque[messages.Event] = deque()
        self._ticked_s = time.monotonic()
        self._told_step, self._told_s = -1, 0.0
        step, _ = checkpoints.newest(keeper.folder)
        self._interruptions = [
            interruption
            for interruption in job.interruptions
            if interruption.after_iterations > step
        ]

    @property
    def state(self) -> JobState:
        """Where the job stands."""
        return self._keeper.state

    def run(self) -> JobState:
        """Begin, or go on where another controller ended; return how the job ended."""
        step, _ = checkpoints.newest(self._keeper.folder)
        is_new = self.state.phase == "new"
        self._queue.append(messages.JobStarted() if is_new else messages.JobResumed(step))
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
            self._nodes.save(saver)
            while (left_s := until_s - time.monotonic()) > 0:
                name, message = self._nodes.hear(left_s) or ("", {"event": None})
                if name == saver and (message is None or message["event"] == "saved"):
                    break
        self._nodes.leave()
        state = self.state.but(at_s=self._keeper.now_s())
        spent = EventLogEntry(
            at_s=state.at_s, event="stopped", detail={"cost_usd": state.spent_usd}
        )
        self._keeper.keep(state, [spent])

    def _next(self) -> messages.Event | None:
        if time.monotonic() - self._ticked_s > _TICK_S:
            self._ticked_s = time.monotonic()
            self._note_progress()
            return messages.ClockTick()
        heard = self._nodes.hear(_TICK_S)
        return None if heard is None else self._event(*heard)

    def _event(self, name: str, message: Message | None) -> messages.Event | None:
        if message is None:
            return messages.NodeLost(name, "ended")
        match message["event"]:
            case "ready":
                self._nodes.confine(name)
                return messages.NodeReady(name)
            case "beat":
                return messages.Heartbeat(name, cast(int, message["step"]))
            case "saved":
                self._heard_now()
                step, asked = cast(int, message["step"]), bool(message["asked"])
                return messages.CheckpointSaved(step, asked)
            case "broken":
                return messages.TrainingFailed(name, str(message["error"]))
            case "notice":
                return messages.NodeLost(name, "notice")
        return None

    def _advance(self, event: messages.Event) -> None:
        before = self.state
        after, decisions = self._controller.advance(before, self._keeper.now_s(), event)
        story = [
            self._with_error(log_entry)
            for log_entry in log_entries(before, event, decisions, after)
        ]
        self._keeper.keep(after, story)
        for entry in story:
            self._tell(entry)
        for decision in decisions:
            self._carry_out(decision)
        self._launch(
            [decision for decision in decisions if isinstance(decision, messages.LaunchNode)]
        )
        if isinstance(event, messages.Heartbeat):
            self._interrupt()

    def _launch(self, launches: Sequence[messages.LaunchNode]) -> None:
        """Bring up the nodes of each kind together; of a kind, all come up or none."""
        for kind in dict.fromkeys(launch.kind for launch in launches):
            names = [launch.node for launch in launches if launch.kind == kind]
            try:
                self._nodes.launch(names, kind)
            except StepcastError as error:
                self._nodes.errors |= dict.fromkeys(names, str(error))
                self._queue += [messages.NodeLost(name, "not launched") for name in names]
            self._heard_now()

    def _with_error(self, entry: EventLogEntry) -> EventLogEntry:
        """Add to a loss what the node's program, or its launch, last said."""
        error = self._nodes.errors.get(entry.node or "") if entry.event == "lost" else None
        return (
            entry.model_copy(update={"detail": {**entry.detail, "said": error}}) if error else entry
        )

    def _carry_out(self, decision: messages.Decision) -> None:
        match decision:
            case messages.RestartProgram(name):
                self._nodes.restart(name)
            case messages.ReleaseNode(name):
                self._nodes.release(name)
            case messages.SaveCheckpoint(None):
                step, _ = checkpoints.newest(self._keeper.folder)
                self._queue.append(messages.CheckpointSaved(step, asked=True))
            case messages.SaveCheckpoint(str(name)):
                self._nodes.save(name)
            case messages.StartTraining():
                checkpoint = checkpoints.of_step(self._keeper.folder, decision.step)
                if decision.step and checkpoint is None:
                    raise StepcastError(
                        f"the checkpoint of iteration {decision.step} is gone from "
                        f"{self._keeper.folder}; put it back, or remove that folder to begin anew"
                    )
                self._train(decision, checkpoint)
            case messages.AskUser(infeasible):
                way = self._answer(infeasible, self.state)
                self._queue.append(messages.UserChoice(way))
                self._heard_now()

    def _train(self, decision: messages.StartTraining, checkpoint: Path | None) -> None:
        try:
            self._nodes.train(decision, self.state.iterations, checkpoint)
        except ProbeFailed as error:
            self._nodes.errors[decision.nodes[0]] = str(error)
            self._queue.append(messages.NodeLost(decision.nodes[0], "ended"))
        self._heard_now()

    def _heard_now(self) -> None:
        """Let what was said while nobody listened come before any judgement of who is silent."""
        self._ticked_s = time.monotonic()

    def _note_progress(self) -> None:
        step, now_s = self.state.reached, time.monotonic()
        news = self.state.phase == "training" and step != self._told_step
        if news and now_s - self._told_s > _PROGRESS_S:
            self._told_step, self._told_s = step, now_s
            entry = progress_entry(self.state, step)
            self._keeper.keep(self.state, [entry])
            self._tell(entry)

    def _interrupt(self) -> None:
        """Do what the job file says is to be done to emulated nodes."""
        state = self.state
        for interruption in list(self._interruptions):
            names = [node.name for node in state.nodes if node.node_type == interruption.node_type]
            if (
                state.phase == "training"
                and state.reached >= interruption.after_iterations
                and names
            ):
                self._interruptions.remove(interruption)
                self._nodes.interrupt(names[0], interruption.how)


def train(
    job: TrainingJob,
    performance: Performance,
    backend: Backend,
    home: Path,
    tell: Tell,
    answer: AnswerPolicy,
    *,
    waiting: Callable[[str], None] = lambda _: None,
    program: str = RANK,
    notices: Callable[[str], str] | None = None,
) -> tuple[JobStore, JobState]:
    """Train a job, or go on with it, until it has finished or is aborted; lands what happened.

    Whatever ends this, nodes and programs end with it, and the same call goes on from the last
    checkpoint; where only landing is left to do, it lands.

    Args:
        job: what is trained.
        performance: of its network (see `profiles.read_performance`).
        backend: where its nodes are.
        home: where attempts are kept, and runs land.
        tell: is given the story as it happens.
        answer: asks the user, or a policy, where nothing is feasible.
        waiting: is told what the job waits for before it begins.
        program: as in `JobNodes`.
        notices: as in `JobNodes`.

    Raises:
        BadInput: its last attempt trains something else.
        KeyboardInterrupt: the user stopped it; a checkpoint was written before.
        StepcastError: what happened could not be written, for example to a full disk.
    """
    controller = job.controller(performance)
    if notices is None and backend == "ec2":  # each instance asks a service of its own
        notices = lambda _: EC2_METADATA  # noqa: E731
    with ExitStack() as stack:
        stack.enter_context(host_lock(waiting))
        keeper = stack.enter_context(JobStore.open(home, job))
        stack.enter_context(run_janitor())
        opening = open_cluster(backend, (), job.link_mbps)
        # Ranks watch out themselves, and write a checkpoint where there is still time.
        opening.most_s, opening.ends_on_notice = job.deadline_s, False
        cluster = stack.enter_context(opening)
        programs = stack.enter_context(Programs(cluster, f"job {job.name}"))
        devices = {
            offer.node_type: performance.node(offer.node_type).devices for offer in job.offers
        }
        nodes = JobNodes(cluster, programs, job, keeper.folder, devices, program, notices)
        state = Runner(job, controller, nodes, keeper, tell, answer).run()
    if keeper.attempt.run is None:
        keeper.end(_run(job, backend, keeper, state, nodes))
    run, landing = keeper.attempt.run, home / "landing"
    if run is not None and not (landing / run.run_id).exists():
        land(landing, run, None, {"runtime_event": frame(keeper.story)})
    keeper.landed()
    return keeper, state


def _run(
    job: TrainingJob, backend: Backend, keeper: JobStore, state: JobState, nodes: JobNodes
) -> Run:
    error = state.error
    run = Run(
        run_id=keeper.attempt.run_id,
        probe=PROBE,
        purpose="measurement",
        study=job.name,
        repeat=len(list(keeper.folder.parent.iterdir())),
        scenario_id=None,
        backend=backend,
        status="failed" if error else "ok",
        error=error,
        started_at=keeper.attempt.began_at,
        ended_at=keeper.attempt.began_at + timedelta(seconds=keeper.now_s()),
        host_id=host_id(backend),
        host=nodes.host,
        software=nodes.software,
        config={
            "dnn": job.dnn,
            "image_size": job.image_size,
            "samples": job.samples,
            "seed": job.seed,
            "global_batch": job.global_batch,
            "iterations": job.iterations,
            "minimize": job.minimize,
            "deadline_s": state.deadline_s,
            "budget_usd": state.budget_usd,
            "link_mbps": job.link_mbps,
            **nodes.facts,
        },
        cost_usd=state.spent_usd,
    )
    return with_origin(run)
