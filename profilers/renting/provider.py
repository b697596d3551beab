"""What a provider of machines is asked and may answer, and its notice that a node is taken away."""

import json
import subprocess
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from profilers.renting.book import LaunchIntent
from warehouse.records import ProbeFailed

InstanceState = Literal["pending", "running", "ending", "ended"]


class NoCapacity(ProbeFailed):
    """The provider has no such machine there now; it may have one elsewhere."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class OutcomeUnknown(ProbeFailed):
    """The provider did not answer; nobody knows whether it did what was asked."""


@dataclass(frozen=True)
class InstanceStatus:
    """An instance as its provider tells it.

    Attributes:
        id: its name there.
        state: what it does; ending and ended ones cost nothing any more.
        seconds: that are paid, by the provider's clock, which may round them up, not down;
            infinite where it does not say.
        private: address by which others reach it; none before it runs.
        public: the same from outside.
    """

    id: str
    state: InstanceState
    seconds: float = 0.0
    private: str | None = None
    public: str | None = None


class Provider(Protocol):
    """Machines for money."""

    def launch(self, intent: LaunchIntent, owner_token: str) -> Sequence[str]:
        """Launch what an intent says; return the ids. The same token launches once.

        Raises:
            NoCapacity: there is none.
            ProbeFailed: it is refused for another reason.
            Unsure: there was no answer.
        """

    def find(self, token: str) -> Sequence[str]:
        """Return the ids that a client token launched, whatever their state.

        For a while after a launch there may be too few.

        Raises:
            ProbeFailed: there was no answer.
        """

    def seen(self, ids: Collection[str]) -> Mapping[str, InstanceStatus]:
        """Return the instances of these ids that the provider knows.

        Raises:
            ProbeFailed: there was no answer.
        """

    def terminate(self, ids: Collection[str]) -> None:
        """Ask the provider to end instances; one that has ended is fine.

        Raises:
            ProbeFailed: there was no answer, or it refuses.
        """


# Looking out for the notice that a rented node will be taken away.


_NOTICE_CHARACTERS = 1000


def watch_for_notice(process: "subprocess.Popen[str]", told: Callable[[str], None]) -> None:
    """Tell of the notice that a program prints (`profilers.nodes.notices`), once it does.

    Args:
        process: the program on the node; nothing is told if it ends without a word.
        told: is given the action and its time, in words.
    """

    def wait() -> None:
        assert process.stdout is not None
        try:
            notice = json.loads(process.stdout.readline(_NOTICE_CHARACTERS))
            words = f"{notice['action']!s:.20} at {notice['time']!s:.40}"
        except (ValueError, KeyError, TypeError, OSError):
            return
        told(words)

    threading.Thread(target=wait, daemon=True).start()
