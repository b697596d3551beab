"""An instance that comes up: its host keys are pinned, and its end is seen to be set."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from profilers.renting import aws
from profilers.renting.book import LaunchIntent
from profilers.renting.provider import InstanceStatus, Provider
from profilers.renting.ssm import PREFIX, Reach
from warehouse.records import ProbeFailed

VARIABLE = "STEPCAST_SHUTDOWN"
"""Variable of a machine: the file that says when it shuts down, where it has no systemd."""
SHUTDOWN = f'cat "${{{VARIABLE}:-/run/systemd/shutdown/scheduled}}" && date +%s'
"""Shell: when systemd will shut the machine down (microseconds, and how), and its time of now."""
KEYS_S = 420.0
"""How long host keys are waited for: types on Xen tell their console some minutes late."""
RUNNING_S = 300.0
"""How long instances may take until they run."""
_EVERY_S = 5.0
_SLACK_S = 120.0


def wait_until_running(
    provider: Provider, ids: Sequence[str], within_s: float = RUNNING_S
) -> list[InstanceStatus]:
    """Wait until instances run and have addresses; return them, in the order of their ids.

    Raises:
        ProbeFailed: one of them ended, or they do not come up in time.
    """
    deadline_s, why = time.monotonic() + within_s, "they are not known yet"
    while True:
        try:
            seen = provider.seen(ids)
        except ProbeFailed as error:
            seen, why = {}, str(error)
        up = [
            instance
            for instance in seen.values()
            if instance.state == "running" and instance.private
        ]
        if len(up) == len(ids):
            return [seen[id_] for id_ in ids]
        states = ", ".join(f"{id_} is {instance.state}" for id_, instance in seen.items())
        if any(instance.state in ("ending", "ended") for instance in seen.values()):
            raise ProbeFailed(f"instances ended while they came up: {states}")
        if time.monotonic() > deadline_s:
            raise ProbeFailed(f"instances do not run after {within_s:g} s: {states or why}")
        time.sleep(_EVERY_S)


class Console(Protocol):
    """Where consoles can be read (`profilers.renting.aws.Ec2`)."""

    def console(self, id_: str) -> str:
        """Return what an instance has written to its console so far."""


@dataclass(frozen=True)
class Boot:
    """An instance that was launched.

    Attributes:
        id: its name at its provider.
        intent: its launch.
        known_hosts: the file that its host keys are pinned in.
        usd_per_hour: what it is expected to cost, with its volumes.
    """

    id: str
    intent: LaunchIntent
    known_hosts: Path
    usd_per_hour: float

    @property
    def ssh_options(self) -> list[str]:
        """Words of ssh that let it talk to this instance alone, whatever its address was before."""
        options = {
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": str(self.known_hosts),
            "GlobalKnownHostsFile": "/dev/null",
            "HostKeyAlias": self.id,
        }
        return [word for key, value in options.items() for word in ("-o", f"{key}={value}")]

    def reach(self, bucket: str, python: str) -> Reach:
        """Return how its commands go by SSM; they end when it does, at the latest.

        Args:
            bucket: that their words go through.
            python: its interpreter.
        """
        return Reach(
            region=self.intent.region,
            instance=self.id,
            bucket=bucket,
            folder=f"{PREFIX}/{self.intent.owner}",
            python=python,
            life_s=3600 * self.intent.hours,
        )

    def pin(self, provider: Console, within_s: float = KEYS_S) -> None:
        """Wait until the console has its host keys, and pin them.

        Raises:
            ProbeFailed: it has none; nothing may be said to it then.
        """
        deadline_s, said = time.monotonic() + within_s, "it is empty"
        while True:
            try:
                console = provider.console(self.id)
            except ProbeFailed as error:
                console, said = "", str(error)
            if keys := aws.host_keys(console, self.intent.token):
                break
            if time.monotonic() > deadline_s:
                said = f"it ends in {console.strip()[-60:]!r}" if console else said
                raise ProbeFailed(
                    f"{self.id} has not printed its host keys to its console in {within_s:g} s "
                    f"({said}); its image must run user data (cloud-init)"
                )
            time.sleep(_EVERY_S)
        self.known_hosts.write_text("".join(f"{self.id} {key}\n" for key in keys))

    def check_shutdown(self, told: bytes) -> None:
        """Refuse an instance that would not end by itself in time.

        Args:
            told: what `SHUTDOWN` printed there.

        Raises:
            ProbeFailed: no end is set, or it is too late.
        """
        lines = dict(
            line.partition("=")[::2] for line in told.decode(errors="replace").splitlines()
        )
        at_us, now_s = lines.get("USEC", ""), next((key for key in lines if key.isdecimal()), "")
        if not (at_us.isdecimal() and now_s and lines.get("MODE") in ("poweroff", "halt")):
            raise ProbeFailed(
                f"{self.id} has no shutdown set, so nothing bounds what it costs; it is ended. Its "
                f"image must run user data (cloud-init), found {told[:60]!r}"
            )
        left_s = int(at_us) / 1e6 - int(now_s)
        if left_s > 60 * aws.minutes(self.intent) + _SLACK_S:
            raise ProbeFailed(
                f"{self.id} shuts itself down in {left_s / 60:.0f} min, and "
                f"{aws.minutes(self.intent)} min were reckoned with; it is ended"
            )
