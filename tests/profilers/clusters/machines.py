"""Machines for tests of `ssh`: sshd's of this host, each with an address and a home of its own."""

import atexit
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import cycle
from pathlib import Path

import yaml

from profilers.clusters.ec2 import VARIABLE as SHUTDOWN
from profilers.clusters.received import MACHINE
from profilers.clusters.ssh import CACHE

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin")
NODE_TYPE = "lab.small"


@contextmanager
def machines(folder: Path, number: int, *node_types: str) -> Iterator[Path]:
    """Start this many sshd's; return a fleet file that lists them. Machine i lives in `m<i>`.

    They take the node types in turn, NODE_TYPE if none is named.
    """
    _keygen(folder / "key")
    kinds = cycle(node_types or (NODE_TYPE,))
    with ExitStack() as stack:
        listed = [
            stack.enter_context(machine(folder, f"127.0.0.{index + 2}", f"m{index}", next(kinds)))
            for index in range(number)
        ]
        yield write_fleet(folder, listed)


def write_fleet(folder: Path, listed: Sequence[dict[str, object]]) -> Path:
    """Write the fleet file of these machines."""
    options = "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"
    words = [word for option in options for word in ("-o", option)]
    file = folder / "fleet.yaml"
    fleet = {
        "python": sys.executable,
        "ssh": ["-i", str(folder / "key"), *words],
        "interface": "lo",
        "node_types": {str(entry["node_type"]): {"threads": 1} for entry in listed},
        "machines": listed,
    }
    file.write_text(yaml.safe_dump(fleet))
    return file


@contextmanager
def machine(
    folder: Path, address: str, home: str, node_type: str, stands_for: str = ""
) -> Iterator[dict[str, object]]:
    """Start an sshd whose user lives in `home`, of the machine `stands_for` (one of its own)."""
    with _sshd(folder, address, folder / home, folder / (stands_for or home)) as port:
        yield {"node_type": node_type, "address": address, "port": port}


@cache
def _sent() -> Path:
    """Return where all machines keep what is sent to them: what the first was sent, others have."""
    folder = Path(tempfile.mkdtemp(prefix="sent-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def _sshd(folder: Path, address: str, home: Path, of: Path) -> Iterator[int]:
    for path in (home, of, home / ".cache"):
        path.mkdir(exist_ok=True)
    if not (cache := home / CACHE).exists():
        cache.symlink_to(_sent())
    settings_of = folder / f"sshd-{address}"
    settings_of.mkdir()
    _keygen(settings_of / "hostkey")
    with socket.socket() as probe:
        probe.bind((address, 0))
        port = probe.getsockname()[1]
    settings = {
        "ListenAddress": address,
        "Port": port,
        "HostKey": settings_of / "hostkey",
        "AuthorizedKeysFile": folder / "key.pub",
        "StrictModes": "no",
        "UsePAM": "no",
        "PidFile": "none",
        "PermitRootLogin": "prohibit-password",
        # All machines have one user, whose folder they must not share.
        "ForceCommand": f'cd {home} && exec sh -c "$SSH_ORIGINAL_COMMAND"',
        "SetEnv": f"{MACHINE}={of} {SHUTDOWN}={home / 'scheduled'}",
    }
    file = settings_of / "sshd_config"
    file.write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    assert SSHD is not None
    Path("/run/sshd").mkdir(exist_ok=True)
    with subprocess.Popen([SSHD, "-D", "-e", "-f", str(file)], stderr=subprocess.PIPE) as sshd:
        try:
            _await(sshd, address, port)
            yield port
        finally:
            sshd.terminate()


def _await(sshd: "subprocess.Popen[bytes]", address: str, port: int) -> None:
    for _ in range(200):
        assert sshd.poll() is None, sshd.communicate()[1].decode()
        with socket.socket() as probe:
            if probe.connect_ex((address, port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("sshd does not listen")


def _keygen(file: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)], check=True)


def has_ended(pid: int, within_s: float = 10) -> bool:
    """Wait until a process has ended; return whether it has."""
    deadline = time.monotonic() + within_s
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not is_running(pid)


def is_running(pid: int) -> bool:
    """Tell whether there is such a process, and it has not ended unasked."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
