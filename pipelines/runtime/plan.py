"""Which nodes to go on with: the optimiser, asked about what is left of a job (section 4.5)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from models.choice.limits import Job, Minimize, objective_key
from models.choice.offers import Offer
from models.srift.iteration import Performance
from models.srift.optimizer import ConfigurationForecast, OptimizerResult, optimize
from pipelines.runtime import IfInfeasible
from warehouse.records import Market, Record

if TYPE_CHECKING:
    from pipelines.runtime.state import JobState

_NOTHING = 1e-9
"""Stands for a limit of which nothing is left: the optimiser then says what would be needed."""


class MarketNodeType(NamedTuple):
    """What is rented: a node type in a market."""

    node_type: str
    market: Market


class Plan(Record):
    """The nodes to go on with.

    `forecast` is of the `iterations` left, `wait_s` the time before they can begin; `finish_s`
    (since the job began) and `cost_usd` are of the whole job.
    """

    iterations: int
    forecast: ConfigurationForecast
    wait_s: float
    finish_s: float
    cost_usd: float


class LimitRelaxation(Record):
    """A way out where no plan meets the limits: the limits it needs, for the whole job.

    `retry`: to ask again for kinds that were taken away before.
    """

    text: str
    deadline_s: float | None
    budget_usd: float | None
    retry: bool = False


@dataclass(frozen=True)
class Infeasible:
    """No plan meets the limits; `reason` says why, `ways` are those out of it."""

    reason: str
    ways: tuple[LimitRelaxation, ...]
    deadline_s: float | None = None
    budget_usd: float | None = None

    def way(self, policy: IfInfeasible) -> LimitRelaxation | None:
        """Return the way that raises nothing but what a policy allows; None: abort, or ask."""
        for way in self.ways:
            later, dearer = way.deadline_s != self.deadline_s, way.budget_usd != self.budget_usd
            if (later, dearer) == (policy == "deadline", policy == "budget") and later != dearer:
                return way
        return None


@dataclass(frozen=True)
class Planner:
    """Finds plans for one job.

    Attributes:
        performance: profiles of its network.
        offers: what can be rented, at which price.
        global_batch: samples of an iteration.
        minimize: time or cost.
    """

    performance: Performance
    offers: tuple[Offer, ...]
    global_batch: int
    minimize: Minimize

    def price(self, kind: MarketNodeType) -> float:
        """Return US dollars per hour of one node."""
        return next(offer.usd_per_hour for offer in self.offers if _kind(offer) == kind)

    def plan(self, now: "JobState", detach_s: float = 0.0) -> Plan | Infeasible:
        """Return the best plan for what is left: N − n, T_lim − t and $_lim − c of section 4.5.

        Nodes that are up can go on without waiting for others to be launched, so they are also
        looked at alone. Depleted kinds are not launched again; those of them that are up stay.

        Args:
            now: where the job stands; its nodes are up, or on their way.
            detach_s: until the last checkpoint is there to go on from.

        Raises:
            BadInput: as the optimiser.
        """
        counts = Counter(node.kind for node in now.nodes)
        up = [_of(offer, counts[_kind(offer)]) for offer in self.offers]
        every = [
            _of(offer, counts[_kind(offer)]) if _kind(offer) in now.depleted else offer
            for offer in self.offers
        ]
        alone, waited = detach_s + now.restart.expected_s, detach_s + now.launch.expected_s
        answers = [
            *((self._ask(now, up, alone), alone) for _ in range(bool(now.nodes))),
            (self._ask(now, every, waited), waited),
        ]
        plans = [
            self._plan(now, answer.choice, wait_s) for answer, wait_s in answers if answer.choice
        ]
        if plans:
            return min(
                plans, key=lambda plan: objective_key(self.minimize, plan.finish_s, plan.cost_usd)
            )
        return self._infeasible(now, answers[-1][0], waited)

    def _ask(self, now: "JobState", offers: Sequence[Offer], wait_s: float) -> OptimizerResult:
        """Ask the optimiser, with what is left of time and money once the wait is over."""
        offers = [offer for offer in offers if offer.capacity]
        if not offers:
            return OptimizerResult(None)
        budget_usd = now.budget_usd
        if budget_usd is not None:
            budget_usd = max(budget_usd - now.spent_usd - self._waiting_usd(now, wait_s), _NOTHING)
        deadline_s = now.deadline_s
        if deadline_s is not None:
            deadline_s = max(deadline_s - now.at_s - wait_s, _NOTHING)
        job = Job(
            global_batch=self.global_batch,
            iterations=now.left,
            minimize=self.minimize,
            deadline_s=deadline_s,
            budget_usd=budget_usd,
        )
        return optimize(self.performance, offers, job)

    def _waiting_usd(self, now: "JobState", wait_s: float) -> float:
        """Return what nodes that are up cost while they wait."""
        hourly_usd = sum(self.price(node.kind) for node in now.nodes)
        return hourly_usd * wait_s / 3600

    def _plan(self, now: "JobState", choice: ConfigurationForecast, wait_s: float) -> Plan:
        return Plan(
            iterations=now.left,
            forecast=choice,
            wait_s=wait_s,
            finish_s=now.at_s + wait_s + choice.time_s,
            cost_usd=now.spent_usd + self._waiting_usd(now, wait_s) + choice.cost_usd,
        )

    def _infeasible(self, now: "JobState", answer: OptimizerResult, wait_s: float) -> Infeasible:
        ways = [_way(now, self._plan(now, each, wait_s)) for _, each in answer.relaxations]
        reason = "no nodes that are left meet the deadline and the budget"
        if not ways:
            reason = f"the nodes that are left cannot hold the batch of {self.global_batch} samples"
        if now.depleted:
            names = ", ".join(sorted({" ".join(kind) for kind in now.depleted}))
            again = LimitRelaxation(
                text=f"ask for {names} again",
                deadline_s=now.deadline_s,
                budget_usd=now.budget_usd,
                retry=True,
            )
            ways.append(again)
        return Infeasible(reason, tuple(ways), now.deadline_s, now.budget_usd)


def _way(now: "JobState", plan: Plan) -> LimitRelaxation:
    """Return the limits that admit a plan, and what changes."""
    deadline_s, budget_usd, changes = now.deadline_s, now.budget_usd, []
    if deadline_s is not None and plan.finish_s > deadline_s:
        changes.append(f"raise the deadline from {deadline_s:.0f} s to {plan.finish_s:.0f} s")
        deadline_s = plan.finish_s
    if budget_usd is not None and plan.cost_usd > budget_usd:
        changes.append(f"raise the budget from ${budget_usd:.2f} to ${plan.cost_usd:.2f}")
        budget_usd = plan.cost_usd
    text = f"{' and '.join(changes)}, for {plan.forecast.configuration.label}"
    return LimitRelaxation(text=text, deadline_s=deadline_s, budget_usd=budget_usd)


def _kind(offer: Offer) -> MarketNodeType:
    return MarketNodeType(offer.node_type, offer.market)


def _of(offer: Offer, capacity: int) -> Offer:
    return offer.model_copy(update={"capacity": capacity})
