"""The controller as a state machine: events in; a new state and decisions, nodes to rent, out.

Source: Srift, section 4.5. Time is only what events bring; nothing here waits, measures or starts.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pipelines.runtime import messages
from pipelines.runtime.plan import Infeasible, LimitRelaxation, MarketNodeType, Plan, Planner
from pipelines.runtime.state import JobState, Phase, RentedNode

Outcome = tuple[JobState, tuple[messages.Decision, ...]]
_LAUNCH_PATIENCE = 10.0
"""A launch that takes so many times as long as expected has failed."""


@dataclass(frozen=True)
class Controller:
    """Decides for one job.

    Attributes:
        planner: finds plans.
        silence_s: without a heartbeat for so long, a node is lost.
        save_s: so long a checkpoint may take before its node counts as lost.
    """

    planner: Planner
    silence_s: float = 10.0
    save_s: float = 60.0

    def advance(self, state: JobState, at_s: float, event: messages.Event) -> Outcome:
        """Return what follows from an event at a time (seconds since the job began).

        Events of nodes that are gone, and whatever comes after the end, change nothing.
        """
        if state.over:
            return state, ()
        if isinstance(event, messages.JobResumed):
            return self._resume(state, at_s, event.step)
        state = state.but(at_s=max(at_s, state.at_s))
        match event:
            case messages.JobStarted():
                return self._replan(state)
            case messages.ClockTick():
                return self._tick(state)
            case messages.CheckpointSaved(step, asked):
                return self._saved(state, step, asked)
            case messages.UserChoice(way):
                aborted = "aborted, because nothing that is left meets the limits"
                return self._answered(state, way) if way else self._end(state, aborted)
            case (
                messages.NodeReady(name)
                | messages.Heartbeat(name)
                | messages.NodeLost(name)
                | messages.TrainingFailed(name)
            ):
                node = state.node(name)
                return self._of_node(state, node, event) if node else (state, ())

    def _of_node(self, state: JobState, node: RentedNode, event: messages.Event) -> Outcome:
        match event:
            case messages.NodeReady():
                return self._ready(state, node)
            case messages.Heartbeat(_, step):
                counts = state.phase in ("training", "saving")
                applied = step if counts else node.step
                return state.put(node.but(beat_s=state.at_s, step=applied)), ()
            case messages.NodeLost(_, reason):
                return self._lost(state, node, reason)
            case messages.TrainingFailed(_, error) if (
                state.phase == "training" and state.broken is None
            ):
                return state.but(broken=error, broken_s=state.at_s), ()
        return state, ()

    def _resume(self, state: JobState, at_s: float, step: int) -> Outcome:
        # What nodes cost after the last that is known of them ended soon after with them.
        for node in state.nodes:
            state = state.without(node.name)
        state = state.but(at_s=max(at_s, state.at_s), step=step)
        return self._replan(state) if step < state.iterations else self._end(state, None)

    def _ready(self, state: JobState, node: RentedNode) -> Outcome:
        now_s = state.at_s
        up_s = now_s if node.up_s is None else node.up_s
        state = state.put(node.but(up_s=up_s, ready=True, beat_s=now_s))
        if state.phase != "launching" or not all(node.ready for node in state.nodes):
            return state, ()
        return self._train(state)

    def _train(self, state: JobState) -> Outcome:
        waited_s = state.at_s - state.since_s
        if any(node.since_s == state.since_s for node in state.nodes):
            state = state.but(launch=state.launch.seeing(waited_s))
        elif waited_s > 0:
            state = state.but(restart=state.restart.seeing(waited_s))
        state = _enter(_all_at(state, state.step, trained=True), "training")
        state = state.but(incarnation=state.incarnation + 1)
        names = tuple(node.name for node in state.nodes)
        batches = tuple(node.batch_size for node in state.nodes)
        return state, (messages.StartTraining(names, batches, state.step, state.incarnation),)

    def _lost(self, state: JobState, node: RentedNode, reason: messages.Reason) -> Outcome:
        """Go on without a node, and take it as a sign that its kind is depleted."""
        saver = state.nodes[0].name
        depleted = dict.fromkeys((*state.depleted, node.kind))
        state = state.without(node.name).but(depleted=tuple(depleted))
        match state.phase:
            case "training":
                state, decisions = self._save(state)
            case "saving" if node.name == saver:
                state = state.but(plan=None, considered=False, since_s=state.at_s)
                decisions = (_saver(state),)
            case "launching":
                state, decisions = self._replan(state)
            case _:
                state, decisions = state.but(plan=None, considered=False), ()
        # What is left of a node goes first: another one may need its place.
        return state, (messages.ReleaseNode(node.name, reason), *decisions)

    def _save(self, state: JobState) -> Outcome:
        """Let the smallest live rank write a checkpoint."""
        state = _enter(state, "saving")
        return state, (_saver(state),)

    def _consider(self, state: JobState) -> JobState:
        """Find the nodes to go on with while the checkpoint is being written."""
        plan = self.planner.plan(state, state.detach.expected_s)
        return state.but(plan=plan if isinstance(plan, Plan) else None, considered=True)

    def _saved(self, state: JobState, step: int, asked: bool) -> Outcome:
        if state.phase not in ("training", "saving") or (asked and state.phase != "saving"):
            return state, ()
        planned = state.plan
        state = state.but(step=step if asked else max(step, state.step))
        if state.step >= state.iterations:
            return self._end(state, None)
        if not asked:
            return state, ()
        state = _all_at(state, step)
        state = state.but(detach=state.detach.seeing(state.at_s - state.since_s))
        # A plan for fewer iterations than are left counts on progress that was lost.
        if planned is None or planned.iterations < state.iterations - step:
            return self._replan(state)
        return self._carry_out(state, planned)

    def _replan(self, state: JobState) -> Outcome:
        plan = self.planner.plan(state)
        if isinstance(plan, Infeasible):
            return _enter(state, "asking"), (messages.AskUser(plan),)
        return self._carry_out(state, plan)

    def _carry_out(self, state: JobState, plan: Plan) -> Outcome:
        state, decisions = carry_out(_enter(state, "launching"), plan, self.planner.price)
        if not all(node.ready for node in state.nodes):
            return state, decisions
        state, more = self._train(state)
        return state, (*decisions, *more)

    def _answered(self, state: JobState, way: LimitRelaxation) -> Outcome:
        if state.phase != "asking":
            return state, ()
        # The limits were told for when the question was asked; thinking took time and money.
        thought_s = state.at_s - state.since_s
        hourly_usd = sum(node.usd_per_hour for node in state.nodes if node.up_s is not None)
        deadline_s, budget_usd = way.deadline_s, way.budget_usd
        if deadline_s is not None and deadline_s != state.deadline_s:
            deadline_s += thought_s
        if budget_usd is not None and budget_usd != state.budget_usd:
            budget_usd += hourly_usd * thought_s / 3600
        state = state.but(deadline_s=deadline_s, budget_usd=budget_usd)
        return self._replan(state.but(depleted=()) if way.retry else state)

    def _tick(self, state: JobState) -> Outcome:
        decisions: list[messages.Decision] = []
        for node in state.nodes:
            reason = self._overdue(state, node)
            if reason is not None and state.node(node.name) is not None:
                state, more = self._lost(state, node, reason)
                decisions += more
        if state.broken is not None and state.at_s - state.broken_s > 2 * self.silence_s:
            return self._stalled(state)
        idle = state.phase == "saving" and not state.considered and not decisions
        if idle and state.reached < state.iterations:
            state = self._consider(state)
        return state, tuple(decisions)

    def _overdue(self, state: JobState, node: RentedNode) -> messages.Reason | None:
        now_s = state.at_s
        if node.ready and now_s - node.beat_s > self.silence_s:
            return "silent"
        if state.phase == "launching" and not node.ready:
            expected_s = max(state.launch.expected_s, state.restart.expected_s, self.silence_s)
            if now_s - state.since_s > _LAUNCH_PATIENCE * expected_s:
                return "not launched"
        if state.phase == "saving" and node.name == state.nodes[0].name:
            return "no checkpoint" if now_s - state.since_s > self.save_s else None
        return None

    def _stalled(self, state: JobState) -> Outcome:
        """Training failed though nobody is lost: begin again, unless it failed from the start."""
        if all(node.step == state.step for node in state.nodes):
            return self._end(state, f"training failed with all nodes alive: {state.broken}")
        return self._save(state)

    def _end(self, state: JobState, error: str | None) -> Outcome:
        releases = tuple(messages.ReleaseNode(node.name) for node in state.nodes)
        for node in state.nodes:
            state = state.without(node.name)
        state = _enter(state, "finished" if error is None else "aborted").but(error=error)
        return state, (*releases, messages.EndJob(error))


def _enter(state: JobState, phase: Phase) -> JobState:
    return state.but(phase=phase, since_s=state.at_s, plan=None, considered=False, broken=None)


def _all_at(state: JobState, step: int, **changes: object) -> JobState:
    return state.but(nodes=tuple(node.but(step=step, **changes) for node in state.nodes))


def _saver(state: JobState) -> messages.SaveCheckpoint:
    return messages.SaveCheckpoint(state.nodes[0].name if state.nodes else None)


# From a plan to nodes: which stay, which are given back, which are launched.


def carry_out(
    state: JobState, plan: Plan, price: Callable[[MarketNodeType], float]
) -> tuple[JobState, tuple[messages.Decision, ...]]:
    """Return the nodes of a plan, those that stay first and in their order, and what that takes.

    A node that stays needs its program started anew, unless it waits for training to begin or is
    still on its way. So rank 0 has been there before, where there is one that has.
    """
    wanted = [
        (MarketNodeType(group.node_type, group.market), group.batch_size)
        for group in plan.forecast.configuration.groups
        for _ in range(group.count)
    ]
    kept: list[RentedNode] = []
    decisions: list[messages.Decision] = [messages.CarryOutPlan(plan)]
    for node in state.nodes:
        share = next((share for share in wanted if share[0] == node.kind), None)
        if share is None:
            state = state.without(node.name)
            decisions.append(messages.ReleaseNode(node.name))
            continue
        wanted.remove(share)
        node = node.but(batch_size=share[1])
        if node.trained:
            decisions.append(messages.RestartProgram(node.name))
            node = node.but(ready=False, trained=False)
        kept.append(node)
    new = [
        RentedNode(
            name=f"node{number}",
            node_type=kind.node_type,
            market=kind.market,
            usd_per_hour=price(kind),
            batch_size=batch_size,
            since_s=state.at_s,
        )
        for number, (kind, batch_size) in enumerate(wanted, state.launched)
    ]
    decisions += [messages.LaunchNode(node.name, node.kind) for node in new]
    state = state.but(nodes=(*kept, *new), launched=state.launched + len(new))
    return state, tuple(decisions)
