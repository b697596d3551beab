"""Where a job stands: all that decides what comes next."""

from typing import Literal

from pydantic import Field

from pipelines.runtime.plan import MarketNodeType, Plan
from warehouse.records import Market, Record

Phase = Literal["new", "launching", "training", "saving", "asking", "finished", "aborted"]


class LearnedDurations(Record):
    """Seconds that are assumed until they were seen, and from then on the mean of what was seen."""

    assumed_s: float = Field(ge=0)
    seen_s: tuple[float, ...] = ()

    @property
    def expected_s(self) -> float:
        """What to count on."""
        return sum(self.seen_s) / len(self.seen_s) if self.seen_s else self.assumed_s

    def seeing(self, seconds: float) -> "LearnedDurations":
        """Return this after one more was seen."""
        return self.model_copy(update={"seen_s": (*self.seen_s, seconds)})


class RentedNode(Record):
    """A node, from the decision to launch it until it is lost or released.

    It costs from `up_s`, when it was first ready. `beat_s` is when it was last heard of, `step`
    how many iterations it had applied by then. `trained`: its program has begun to train, and can
    do so only once. Times are seconds since the job began.
    """

    name: str
    node_type: str
    market: Market
    usd_per_hour: float
    batch_size: int
    since_s: float
    up_s: float | None = None
    ready: bool = False
    trained: bool = False
    beat_s: float = 0.0
    step: int = 0

    @property
    def kind(self) -> MarketNodeType:
        """What was rented."""
        return MarketNodeType(self.node_type, self.market)

    def cost_usd(self, at_s: float) -> float:
        """Return what it has cost by then."""
        return 0.0 if self.up_s is None else (at_s - self.up_s) * self.usd_per_hour / 3600

    def but(self, **changes: object) -> "RentedNode":
        """Return this with other values."""
        return self.model_copy(update=changes)


class JobState(Record):
    """Everything that decides what comes next.

    Attributes:
        phase: what goes on.
        iterations: of the whole job.
        deadline_s: since the job began; None: none. May have been relaxed, like the budget.
        budget_usd: for the whole job; None: none.
        launch: how long new nodes take until they train.
        restart: how long nodes that stay take until they train again.
        detach: how long the checkpoint takes that follows an interruption.
        at_s: when this was so, since the job began.
        step: iterations that the newest checkpoint holds.
        nodes: those rented now, in the order of their ranks.
        depleted: kinds of which a node was taken away.
        gone_usd: what nodes have cost that are gone.
        launched: nodes launched so far.
        incarnation: how many times training has begun.
        since_s: when this phase began.
        plan: what comes after saving; None: to be made then.
        considered: whether that was tried while saving.
        broken: the error of a node whose training failed, while nobody is known to be lost.
        broken_s: when that was.
        error: why the job was aborted.
    """

    phase: Phase = "new"
    iterations: int = Field(ge=1)
    deadline_s: float | None = None
    budget_usd: float | None = None
    launch: LearnedDurations = LearnedDurations(assumed_s=150.0)
    restart: LearnedDurations = LearnedDurations(assumed_s=10.0)
    detach: LearnedDurations = LearnedDurations(assumed_s=5.0)
    at_s: float = 0.0
    step: int = 0
    nodes: tuple[RentedNode, ...] = ()
    depleted: tuple[MarketNodeType, ...] = ()
    gone_usd: float = 0.0
    launched: int = 0
    incarnation: int = 0
    since_s: float = 0.0
    plan: Plan | None = None
    considered: bool = False
    broken: str | None = None
    broken_s: float = 0.0
    error: str | None = None

    @property
    def over(self) -> bool:
        """Whether nothing more can happen."""
        return self.phase in ("finished", "aborted")

    @property
    def spent_usd(self) -> float:
        """What all nodes have cost so far."""
        return self.gone_usd + sum(node.cost_usd(self.at_s) for node in self.nodes)

    @property
    def reached(self) -> int:
        """Iterations that are certainly done: those of the newest checkpoint, or of all nodes."""
        return max(self.step, min((node.step for node in self.nodes), default=0))

    @property
    def left(self) -> int:
        """Iterations that are still to be trained."""
        return self.iterations - self.reached

    def node(self, name: str) -> RentedNode | None:
        """Return a node that is rented now."""
        return next((node for node in self.nodes if node.name == name), None)

    def put(self, node: RentedNode) -> "JobState":
        """Return this with a node in the place of the one of its name."""
        nodes = tuple(node if other.name == node.name else other for other in self.nodes)
        return self.but(nodes=nodes)

    def without(self, name: str) -> "JobState":
        """Return this without a node, whose cost stays."""
        gone = self.node(name)
        return self.but(
            nodes=tuple(node for node in self.nodes if node is not gone),
            gone_usd=self.gone_usd + (gone.cost_usd(self.at_s) if gone else 0.0),
        )

    def but(self, **changes: object) -> "JobState":
        """Return this with other values."""
        return self.model_copy(update=changes)
