"""Instances of the stand-in EC2 that are there: sshd's of this host that run user data.

`python -m tests.profilers.renting.instances COMMAND …` runs a command that finds them as AWS.
"""

import base64
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Event, RLock, Thread
from typing import Any

import yaml

from profilers.clusters.fleet import VARIABLE
from profilers.clusters.ssh import MACHINE
from profilers.renting.boot import VARIABLE as SHUTDOWN
from tests.profilers.clusters.machines import SSHD
from tests.profilers.renting.cloud import REGION, Asked, Cloud
from tests.profilers.renting.served import serve

NODE_TYPE = "m5.large"
_LOOK_S = 0.2
_SHUTDOWN = """#!/bin/sh
# shutdown -P +MINUTES, or shutdown -P now
case "$2" in now) minutes=0 ;; +*) minutes="${2#+}" ;; *) exit 1 ;; esac
printf 'USEC=%s000000\\nMODE=poweroff\\n' $(($(date +%s) + 60 * minutes)) > "$STEPCAST_SHUTDOWN"
"""


@dataclass
class Instance:
    """An sshd with processes, a home and an address of its own."""

    folder: Path
    address: str
    sshd: "subprocess.Popen[bytes]"

    def stop(self) -> None:
        """End it, with whatever runs there."""
        self.sshd.kill()
        self.sshd.wait()

    def is_over(self, now_s: float) -> bool:
        """Tell whether its shutdown is due."""
        with suppress(OSError, ValueError):
            return now_s >= int((self.folder / "scheduled").read_text()[5:].split()[0]) / 1e6
        return False


@dataclass
class Instances:
    """The instances of a cloud.

    Attributes:
        folder: in which each has its own.
        cloud: that launches and ends them.
        port: of all sshd's.
    """

    folder: Path
    cloud: Cloud
    port: int
    alive: dict[str, Instance] = field(default_factory=dict)
    _serial: "count[int]" = field(default_factory=lambda: count(2))
    _lock: RLock = field(default_factory=RLock)

    def launched(self, ids: tuple[str, ...], asked: Asked) -> None:
        """Start the instances of a launch, and let each run its user data."""
        told = self.cloud.direct.describe_instances(InstanceIds=list(ids))["Reservations"]
        for one in (one for group in told for one in group["Instances"]):
            address = f"127.0.1.{next(self._serial)}"
            for name in ("PrivateIpAddress", "PublicIpAddress"):
                if name in one:
                    self.cloud.addresses[one[name]] = address
            self._start(one["InstanceId"], address, base64.b64decode(asked["UserData"]).decode())

    def ended(self, ids: list[str]) -> None:
        """Stop instances."""
        with self._lock:
            for id_ in ids:
                if instance := self.alive.pop(id_, None):
                    instance.stop()

    def look(self, ended: Event) -> None:
        """End what shuts itself down, until told to end."""
        while not ended.wait(_LOOK_S):
            with self._lock:
                over = [id_ for id_, one in self.alive.items() if one.is_over(time.time())]
            if over:
                self.cloud.direct.terminate_instances(InstanceIds=over)
                self.ended(over)

    def _start(self, id_: str, address: str, script: str) -> None:
        own = self.folder / id_
        (own / "bin").mkdir(parents=True)
        (own / "bin/shutdown").write_text(_SHUTDOWN)
        (own / "bin/shutdown").chmod(0o755)
        key = own / "ssh_host_ed25519_key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        environment = {
            MACHINE: str(own),
            SHUTDOWN: str(own / "scheduled"),
            "PATH": f"{own / 'bin'}:{os.environ['PATH']}",
        }
        (own / "console").touch()
        for there, here in (("/etc/ssh/", f"{own}/"), ("> /dev/console", f">> {own}/console")):
            script = script.replace(there, here)
        subprocess.run(["sh", "-c", script], env={**os.environ, **environment}, check=True)
        self.cloud.consoles[id_] = (own / "console").read_text()
        with self._lock:
            self.alive[id_] = Instance(own, address, self._sshd(own, address, environment))

    def _sshd(
        self, own: Path, address: str, environment: Mapping[str, str]
    ) -> "subprocess.Popen[bytes]":
        settings = {
            "ListenAddress": address,
            "Port": self.port,
            "HostKey": own / "ssh_host_ed25519_key",
            "AuthorizedKeysFile": self.folder / "key.pub",
            "StrictModes": "no",
            "UsePAM": "no",
            "PidFile": "none",
            "PermitRootLogin": "prohibit-password",
            "ForceCommand": f'cd {own} && exec sh -c "$SSH_ORIGINAL_COMMAND"',
            "SetEnv": " ".join(f"{name}={value}" for name, value in environment.items()),
        }
        file = own / "sshd_config"
        file.write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
        Path("/run/sshd").mkdir(exist_ok=True)
        # Processes of its own: they end with it.
        alone = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        return subprocess.Popen(
            [*alone, str(SSHD), "-D", "-e", "-f", str(file)], stderr=(own / "sshd.log").open("wb")
        )


@contextmanager
def instances(folder: Path, cloud: Cloud) -> Iterator[tuple[Instances, Path]]:
    """Let a cloud's launches bring instances; yield them, and a fleet file that rents them."""
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.1.1", 0))
        found = Instances(folder, cloud, probe.getsockname()[1])
    cloud.on_launch, cloud.on_end = found.launched, found.ended
    ended = Event()
    agent = Thread(target=found.look, args=(ended,))
    agent.start()
    try:
        yield found, _fleet(folder, cloud, found.port)
    finally:
        ended.set()
        agent.join()
        found.ended(list(found.alive))


def _fleet(folder: Path, cloud: Cloud, port: int) -> Path:
    ssh = ["-p", str(port), "-i", str(folder / "key"), "-o", "LogLevel=ERROR"]
    launch: dict[str, Any] = {
        "region": REGION,
        "image": "ami-12345678",
        "key_name": "lab",
        "subnets": dict(cloud.subnets()),
        "security_groups": [cloud.group],
        "most_hours": 1,
        "volume": {"gb": 8, "device": "/dev/sda1"},
    }
    content = {
        "python": sys.executable,
        "ssh": ssh,
        "interface": "lo",
        "node_types": {NODE_TYPE: {"threads": 1}},
        "ec2": launch,
    }
    file = folder / "fleet.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


def main(command: list[str]) -> int:
    """Run a command that finds the stand-in where it looks for AWS; return its exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory() as folder, serve() as (cloud, environment):
        os.environ.update(environment)
        with instances(Path(folder), cloud) as (_, fleet):
            ran = subprocess.run(command, env={**os.environ, VARIABLE: str(fleet)}, check=False)
        left = cloud.alive()
        if left:
            sys.stderr.write(f"{len(left)} instances live on: {', '.join(left)}\n")
        return ran.returncode or bool(left)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
