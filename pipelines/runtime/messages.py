"""What the controller is told, and what it decides: all that passes between it and the world."""

from dataclasses import dataclass
from typing import Literal

from pipelines.runtime.plan import Infeasible, LimitRelaxation, MarketNodeType, Plan

Reason = Literal["ended", "silent", "notice", "not launched", "no checkpoint"]
"""Why a node counts as lost: its program ended, its heartbeat stopped, its provider announced it,
it did not come up, or it did not write the checkpoint it was asked for."""


@dataclass(frozen=True)
class JobStarted:
    """The job begins."""


@dataclass(frozen=True)
class JobResumed:
    """The controller was gone, and with it all nodes; `step` iterations are in a checkpoint."""

    step: int


@dataclass(frozen=True)
class NodeReady:
    """A node is up and its program waits for training to begin."""

    node: str


@dataclass(frozen=True)
class Heartbeat:
    """A node's heartbeat: it has applied `step` iterations."""

    node: str
    step: int


@dataclass(frozen=True)
class ClockTick:
    """Time passes."""


@dataclass(frozen=True)
class NodeLost:
    """A node was, or is about to be, taken away."""

    node: str
    reason: Reason


@dataclass(frozen=True)
class TrainingFailed:
    """A node's training failed, as it does when another one is lost."""

    node: str
    error: str


@dataclass(frozen=True)
class CheckpointSaved:
    """A checkpoint of `step` iterations is there; `asked` if because of a decision to save."""

    step: int
    asked: bool


@dataclass(frozen=True)
class UserChoice:
    """What the user, or a policy, chose where no plan was feasible; None: abort."""

    way: LimitRelaxation | None


Event = (
    JobStarted
    | JobResumed
    | NodeReady
    | Heartbeat
    | ClockTick
    | NodeLost
    | TrainingFailed
    | CheckpointSaved
    | UserChoice
)


@dataclass(frozen=True)
class CarryOutPlan:
    """A plan was made and is carried out; what follows says how."""

    plan: Plan


@dataclass(frozen=True)
class LaunchNode:
    """Rent a node and start its program."""

    node: str
    kind: MarketNodeType


@dataclass(frozen=True)
class RestartProgram:
    """End the program of a node that stays, and start it anew."""

    node: str


@dataclass(frozen=True)
class ReleaseNode:
    """Give a node back, or what is left of one that was lost, for a reason."""

    node: str
    reason: Reason | None = None


@dataclass(frozen=True)
class SaveCheckpoint:
    """Let a node stop training and write a checkpoint; None: find the newest there is."""

    node: str | None


@dataclass(frozen=True)
class StartTraining:
    """Begin to train with these nodes, in the order of their ranks, from a checkpoint's step."""

    nodes: tuple[str, ...]
    batches: tuple[int, ...]
    step: int
    incarnation: int


@dataclass(frozen=True)
class AskUser:
    """Ask whether to abort or which limit to relax."""

    infeasible: Infeasible


@dataclass(frozen=True)
class EndJob:
    """The job is over: finished, or aborted with an error."""

    error: str | None


Decision = (
    CarryOutPlan
    | LaunchNode
    | RestartProgram
    | ReleaseNode
    | SaveCheckpoint
    | StartTraining
    | AskUser
    | EndJob
)
