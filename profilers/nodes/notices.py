"""Notices of providers that a node will be taken away; asked for on the node itself.

Started as `python -m profilers.nodes.notices` it asks every few seconds until there is one, prints
it as JSON, and ends.
"""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

EC2_METADATA = "http://169.254.169.254"
VARIABLE = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
"""Where the metadata service is instead, as tools of AWS understand it."""
EVERY_S = 5.0
"""As often as EC2's user guide recommends to ask."""
_TIMEOUT_S = 2.0
_TOKEN_LIFE_S = 300
_NOTICE_CHARACTERS = 1000


def poll(address: str) -> dict[str, str] | None:
    """Return the notice to this node, None if there is none or nobody answers now.

    It has the action (terminate, stop, hibernate), and the time of it (UTC, ISO 8601).
    Of EC2, two minutes ahead, as its metadata service tells it (EC2 user guide, "Spot Instance
    interruption notices": `spot/instance-action` is not found until there is one). Version 2 of the
    service, which wants a token, answers everywhere. Half of an answer is none.

    Args:
        address: http:// of that service, or a file in which an emulated provider writes what EC2
            would answer.
    """
    try:
        if not address.startswith("http://"):
            text = Path(address).read_text()
        else:
            life = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_LIFE_S)}
            token = _ask("PUT", f"{address}/latest/api/token", life)
            headers = {"X-aws-ec2-metadata-token": token}
            text = _ask("GET", f"{address}/latest/meta-data/spot/instance-action", headers)
        fields = json.loads(text)
        return {name: str(fields[name]) for name in ("action", "time")}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _ask(method: str, url: str, headers: dict[str, str]) -> str:
    request = urllib.request.Request(url, method=method, headers=headers)
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as reply:
        return str(reply.read().decode())


def main() -> None:
    """Wait for a notice to this node, and print it."""
    address = os.environ.get(VARIABLE) or EC2_METADATA
    while (notice := poll(address)) is None:
        time.sleep(EVERY_S)
    sys.stdout.write(json.dumps(notice) + "\n")
    sys.stdout.flush()


def watch_for_notice(process: "subprocess.Popen[str]", told: Callable[[str], None]) -> None:
    """Tell of the notice that a program prints once it does.

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


if __name__ == "__main__":
    main()
