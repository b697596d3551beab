"""Notices of providers that a node will be taken away; asked for on the node itself.

Started as `python -m profilers.nodes.notices` it asks every few seconds until there is one, prints
it as JSON, and ends.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

EC2_METADATA = "http://169.254.169.254"
VARIABLE = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
"""Where the metadata service is instead, as tools of AWS understand it."""
EVERY_S = 5.0
"""As often as EC2's user guide recommends to ask."""
_TIMEOUT_S = 2.0
_TOKEN_LIFE_S = 300


@dataclass(frozen=True)
class InterruptionNotice:
    """What will happen to this node (terminate, stop, hibernate), and when (UTC, ISO 8601)."""

    action: str
    time: str


class NoticeSource(Protocol):
    """Where notices come from."""

    def poll(self) -> InterruptionNotice | None:
        """Return the notice to this node, None if there is none."""


@dataclass(frozen=True)
class InstanceMetadata:
    """EC2's spot interruption notices, two minutes ahead, as its metadata service tells them.

    Source: EC2 user guide, "Spot Instance interruption notices": `spot/instance-action` is not
    found until there is one. Version 2 of the service, which wants a token, answers everywhere.
    """

    url: str = EC2_METADATA

    def poll(self) -> InterruptionNotice | None:
        """Return the notice to this instance; None, too, if the service does not answer now."""
        life = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_LIFE_S)}
        token = self._ask("PUT", "/latest/api/token", life)
        if token is None:
            return None
        headers = {"X-aws-ec2-metadata-token": token}
        answer = self._ask("GET", "/latest/meta-data/spot/instance-action", headers)
        return None if answer is None else _notice(answer)

    def _ask(self, method: str, path: str, headers: dict[str, str]) -> str | None:
        request = urllib.request.Request(self.url + path, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as reply:
                return str(reply.read().decode())
        except (urllib.error.URLError, OSError):
            return None


@dataclass(frozen=True)
class EmulatedNotices:
    """Notices of an emulated provider: a file with what EC2 would answer, once there is one."""

    file: Path

    def poll(self) -> InterruptionNotice | None:
        """Return what the file holds."""
        try:
            return _notice(self.file.read_text())
        except FileNotFoundError:
            return None


def notice_source(address: str) -> NoticeSource:
    """Return the notices at an address: of an http:// service, or a file."""
    is_service = address.startswith("http://")
    return InstanceMetadata(address) if is_service else EmulatedNotices(Path(address))


def _notice(text: str) -> InterruptionNotice | None:
    """Return a notice from EC2's JSON; None if this is none, for example half of a file."""
    try:
        fields = json.loads(text)
        return InterruptionNotice(str(fields["action"]), str(fields["time"]))
    except (ValueError, KeyError, TypeError):
        return None


def main() -> None:
    """Wait for a notice to this node, and print it."""
    notices = notice_source(os.environ.get(VARIABLE) or EC2_METADATA)
    while (notice := notices.poll()) is None:
        time.sleep(EVERY_S)
    sys.stdout.write(json.dumps({"action": notice.action, "time": notice.time}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
