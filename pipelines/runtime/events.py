"""What the controller is told, and what it decides: all that passes between it and the world."""

from dataclasses import dataclass
from typing import Literal

from pipelines.runtime.planning import Infeasible, Kind, Plan, Way

Reason = Literal["ended", "silent", "notice", "not launched", "no checkpoint"]
"""Why a node counts as lost: its program ended, its heartbeat stopped, its provider announced it,
it did not come up, or it did not write the checkpoint it was asked for."""


@dataclass(frozen=True)
class Began:
    """The job begins."""


@dataclass(frozen=True)
class Resumed:
    """The controller was gone, and with it all nodes; `step` iterations are in a checkpoint."""

    step: int


@dataclass(frozen=True)
class Ready:
    """A node is up and its program waits for training to begin."""

    node: str


@dataclass(frozen=True)
class Beat:
    """A node's heartbeat: it has applied `step` iterations."""

    node: str
    step: int


@dataclass(frozen=True)
class Tick:
    """Time passes."""


@dataclass(frozen=True)
class Lost:
    """A node was, or is about to be, taken away."""

    node: str
    reason: Reason


@dataclass(frozen=True)
class Broken:
    """A node's training failed, as it does when another one is lost."""

    node: str
    error: str


@dataclass(frozen=True)
class Saved:
    """A checkpoint of `step` iterations is there; `asked` if because of a decision to save."""

    step: int
    asked: bool


@dataclass(frozen=True)
class Answered:
    """What the user, or a policy, chose where no plan was feasible; None: abort."""

    way: Way | None


Event = Began | Resumed | Ready | Beat | Tick | Lost | Broken | Saved | Answered


@dataclass(frozen=True)
class Proceed:
    """A plan was made and is carried out; what follows says how."""

    plan: Plan


@dataclass(frozen=True)
class Launch:
    """Rent a node and start its program."""

    node: str
    kind: Kind


@dataclass(frozen=True)
class Restart:
    """End the program of a node that stays, and start it anew."""

    node: str


@dataclass(frozen=True)
class Release:
    """Give a node back, or what is left of one that was lost, for a reason."""

    node: str
    reason: Reason | None = None


@dataclass(frozen=True)
class Save:
    """Let a node stop training and write a checkpoint; None: find the newest there is."""

    node: str | None


@dataclass(frozen=True)
class Train:
    """Begin to train with these nodes, in the order of their ranks, from a checkpoint's step."""

    nodes: tuple[str, ...]
    batches: tuple[int, ...]
    step: int
    incarnation: int


@dataclass(frozen=True)
class Ask:
    """Ask whether to abort or which limit to relax."""

    infeasible: Infeasible


@dataclass(frozen=True)
class End:
    """The job is over: finished, or aborted with an error."""

    error: str | None


Decision = Proceed | Launch | Restart | Release | Save | Train | Ask | End
