"""Hosts that are instances of the stand-in EC2: emulated nodes of this machine, each with an sshd.

Each has a network and a share of a core of its own.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from profilers.clusters import Node, open_cluster
from profilers.clusters.ec2 import VARIABLE as SHUTDOWN
from profilers.clusters.emulated import HEADROOM
from profilers.clusters.received import MACHINE
from warehouse.records import NodeGroup

CPU_SHARE, LINK_MBPS = 0.5, 200.0
"""Of an instance."""
_SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin")
_LISTENS_S = 30.0
_REACH = Path(__file__).with_name("reach.py")
_SHUTDOWN = """#!/bin/sh
# shutdown -P +MINUTES, or shutdown -P now
case "$2" in now) minutes=0 ;; +*) minutes="${2#+}" ;; *) exit 1 ;; esac
printf 'USEC=%s000000\\nMODE=poweroff\\n' $(($(date +%s) + 60 * minutes)) > "$STEPCAST_SHUTDOWN"
"""
T = TypeVar("T")


@dataclass(frozen=True)
class Host:
    """A node with an sshd and a folder, in which its user lives.

    Attributes:
        folder: that is its own.
        address: others and ssh reach it by.
        sshd: its server.
    """

    folder: Path
    address: str
    sshd: "subprocess.Popen[str]"
    node: Node

    def is_over(self, now_s: float) -> bool:
        """Tell whether its shutdown is due."""
        with suppress(OSError, ValueError):
            return now_s >= int((self.folder / "scheduled").read_text()[5:].split()[0]) / 1e6
        return False


class Hosts:
    """Makes hosts and ends them.

    Attributes:
        folder: in which each has its own.
        ssh: words of ssh by which hosts are reached.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._cluster = open_cluster("emulated", (), LINK_MBPS)
        # Programs end with the thread that started them, so one thread does all of it.
        self._thread = ThreadPoolExecutor(1)
        proxy = f"nsenter --net={folder}/%h {sys.executable} -S -E {_REACH} %h %p"
        options = "LogLevel=ERROR", "ProxyUseFdpass=yes", f"ProxyCommand={proxy}"
        self.ssh = [word for option in options for word in ("-o", option)]

    def up(self) -> None:
        """Make ready for hosts."""
        self._done(self._cluster.up)

    def down(self) -> None:
        """End everything."""
        self._done(self._cluster.down)
        self._thread.shutdown()

    def room(self) -> int:
        """Return how many more hosts this machine has cores for."""
        cores = (os.cpu_count() or 1) - HEADROOM
        return int(cores / CPU_SHARE + 1e-9) - len(self._cluster.nodes)

    def started(self, id_: str, user_data: str, public_key: str) -> Host:
        """Start a host that has run its user data, and answers whoever has the private key."""
        return self._done(lambda: self._start(self.folder / id_, user_data, public_key))

    def end(self, host: Host) -> None:
        """End a host, with whatever runs there."""
        self._done(lambda: self._end(host))

    def _done(self, what: Callable[[], T]) -> T:
        return self._thread.submit(what).result()

    def _start(self, own: Path, user_data: str, public_key: str) -> Host:
        group = NodeGroup(role="worker", node_type="host", count=1, cpu_share=CPU_SHARE, threads=1)
        (node,) = self._cluster.add(group)
        environment = self._furnished(own)
        (own / "authorized_keys").write_text(public_key + "\n")
        for there, here in (("/etc/ssh/", f"{own}/"), ("> /dev/console", f">> {own}/console")):
            user_data = user_data.replace(there, here)
        variables = [f"{name}={value}" for name, value in environment.items()]
        self._cluster.run(node, ["env", *variables, "sh", "-c", user_data])
        sshd = self._sshd(node, own, environment)
        (self.folder / node.address).symlink_to(f"/proc/{sshd.pid}/ns/net")
        return Host(own, node.address, sshd, node)

    def _furnished(self, own: Path) -> Mapping[str, str]:
        """Make a host's files; return the variables of its programs."""
        (own / "bin").mkdir(parents=True)
        (own / "bin/shutdown").write_text(_SHUTDOWN)
        (own / "bin/shutdown").chmod(0o755)
        (own / "console").touch()
        key = own / "ssh_host_ed25519_key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        return {
            MACHINE: str(own),
            SHUTDOWN: str(own / "scheduled"),
            "PATH": f"{own / 'bin'}:{os.environ['PATH']}",
        }

    def _sshd(
        self, node: Node, own: Path, environment: Mapping[str, str]
    ) -> "subprocess.Popen[str]":
        settings = {
            "ListenAddress": node.address,
            "HostKey": own / "ssh_host_ed25519_key",
            "AuthorizedKeysFile": own / "authorized_keys",
            "StrictModes": "no",
            "UsePAM": "no",
            "PidFile": "none",
            "PermitRootLogin": "prohibit-password",
            "MaxStartups": "100",
            "ForceCommand": f'cd {own} && exec sh -c "$SSH_ORIGINAL_COMMAND"',
            "SetEnv": " ".join(f"{name}={value}" for name, value in environment.items()),
        }
        file, log = own / "sshd_config", own / "sshd.log"
        file.write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
        Path("/run/sshd").mkdir(exist_ok=True)
        # It starts once it is held to its share, and with it whatever it starts.
        held = ["sh", "-c", 'read -r _; exec "$@"', "sh"]
        sshd = self._cluster.popen(
            node, [*held, str(_SSHD), "-D", "-e", "-f", str(file)], env=environment, stderr=log
        )
        self._cluster.confine(node, sshd)
        assert sshd.stdin is not None
        sshd.stdin.write("\n")
        deadline_s = time.monotonic() + _LISTENS_S
        while "listening" not in log.read_text():
            assert sshd.poll() is None and time.monotonic() < deadline_s, log.read_text()
            time.sleep(0.02)
        return sshd

    def _end(self, host: Host) -> None:
        (self.folder / host.address).unlink(missing_ok=True)
        self._cluster.remove(host.node)
