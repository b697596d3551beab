"""Looking out for the notice that a rented node will be taken away."""

import json
import subprocess
import threading
from collections.abc import Callable

_NOTICE_CHARACTERS = 1000


def look_out(process: "subprocess.Popen[str]", told: Callable[[str], None]) -> None:
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
