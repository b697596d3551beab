"""A cluster of machines that are there: programs run over ssh, one machine a node.

Every program has a connection of its own. When that ends, the kernel kills the program, whose
parent is sshd's process for the connection; so nothing there outlives this process.
"""

import hashlib
import io
import random
import shlex
import signal
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import ClassVar

from pydantic import ValidationError

from profilers.clusters import owner, received
from profilers.clusters.base import SOURCE, Cluster, Node, with_env
from profilers.clusters.fleet import Fleet, Machine, fleet_file, read_fleet
from profilers.clusters.node_types import mismatch
from profilers.commands import missing_tools, run_with_input
from profilers.steady.host import CpuTimes
from warehouse.records import Backend, BadInput, MissingTool, NodeGroup, ProbeFailed, Record, Role

PACKAGES = ("models", "networks", "pipelines", "profilers", "warehouse")
"""What programs on nodes import of this project."""
OPTIONS = ("BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=6")
CACHE = ".cache/stepcast"
PORTS = range(20_000, 30_000)
"""Below those that kernels give to connections."""
_SEND_TIMEOUT_S = 120.0
_ABOUT_TIMEOUT_S = 120.0
_ABOUT_BYTES = 1 << 20


class _MachineInfo(Record):
    """What a machine says of itself (`profilers.steady.host`)."""

    host: dict[str, str]
    software: dict[str, str]


class SshCluster(Cluster):
    """Machines of the fleet file, each at most one node; nothing is shaped.

    Raises:
        BadInput: no fleet file, it has too few machines of a type, or one that is not what its
            type declares.
        MissingTool: there is no ssh.
        ProbeFailed: a machine does not answer, is being measured on already, lacks a package or
            has other versions than the rest.
    """

    backend: ClassVar[Backend] = "ssh"
    here: ClassVar[bool] = False

    def __init__(self, groups: Sequence[NodeGroup], link_mbps: float | None) -> None:
        super().__init__(groups, link_mbps)
        self._fleet = read_fleet()
        self.interface = self._fleet.interface
        self._prefix = owner.new_prefix()
        self._machines: dict[str, Machine] = {}
        self._watches: dict[str, received.MachineWatch] = {}
        self._about: dict[str, _MachineInfo] = {}
        self._ports = count(random.choice(PORTS))
        self._started = count()
        self._ids: dict[int, tuple[Node, str]] = {}

    def up(self) -> None:
        """Take machines of the wanted types, send this project's code, lock and describe them."""
        if missing_tools("ssh"):
            raise MissingTool("ssh is not installed; `apt-get install openssh-client` mends that")
        plan = self.planned()
        if plan:
            self._bring_up(plan, self._taken([group for _, _, group in plan]))

    def add(self, group: NodeGroup, *, spot: bool | None = None) -> tuple[Node, ...]:
        """Take as many more machines."""
        plan = [(group.role, index, group.one) for index in self.next_indices(group)]
        return self._bring_up(plan, self._taken([group.one] * group.count, spot))

    def remove(self, node: Node) -> None:
        """Kill what runs on the machine, and let it go."""
        super().remove(node)
        if (watch := self._watches.pop(node.name, None)) is not None:
            watch.close()
        self._about.pop(node.name, None)
        del self._machines[node.name]

    def free_port(self, node: Node) -> int:
        """Count upwards from a random one: what a machine that is measured on has free."""
        return PORTS[next(self._ports) % len(PORTS)]

    def python(self, node: Node) -> list[str]:
        """Return the fleet file's interpreter, with the code that was sent."""
        code, _ = source()
        return ["env", f"PYTHONPATH={CACHE}/{code}", self._fleet.python]

    def signal(self, process: "subprocess.Popen[str]", number: signal.Signals) -> None:
        """Send a signal to the program there."""
        node, file = self._ids[process.pid]
        self.run(node, ["sh", "-c", f'kill -{int(number)} "$(cat {shlex.quote(file)})"'])

    def folder(self, node: Node, folder: Path) -> Path:
        """Return a folder of the machine, by the name of the one here."""
        remote_folder = f"{self._own(node)}/{folder.name}"
        self.run(node, ["mkdir", "-p", remote_folder])
        return Path(self.run(node, ["realpath", remote_folder]).strip())

    def read(self, node: Node, path: Path) -> bytes:
        """Return the content of a file of the machine."""
        return self._over(node, shlex.join(["cat", str(path)]))

    def write(self, node: Node, path: Path, content: bytes) -> None:
        """Write a file of the machine."""
        self._over(node, shlex.join(["sh", "-c", 'cat > "$0"', str(path)]), content)

    @contextmanager
    def shared(self, node: Node, folder: Path) -> Iterator[Path]:
        """Make a folder there; copy what is in it here at the end, whatever happens."""
        remote_folder = self.folder(node, Path(f"shared{next(self._started)}"))
        try:
            yield remote_folder
        finally:
            self._fetch(node, str(remote_folder), folder)

    def host_id(self) -> str:
        """Hash of the machines that the fleet file has."""
        return self._fleet.host_id(self.backend)

    def host(self) -> Mapping[str, str]:
        """Return what machines of each node type are; where they differ, all that they are."""
        host_facts: dict[str, set[str]] = {}
        for node in self.nodes:
            for key, value in self._about[node.name].host.items():
                host_facts.setdefault(f"{node.group.node_type} {key}", set()).add(value)
        return {key: " | ".join(sorted(values)) for key, values in host_facts.items()}

    def software(self) -> Mapping[str, str]:
        """Return the versions on the nodes, which are the same on all."""
        return self._about[self.nodes[0].name].software if self.nodes else {}

    def cpu_times(self) -> CpuTimes:
        """Return what the machines' kernels have counted so far, added up."""
        times = [self._watches[node.name].cpu_times() for node in self.nodes]
        return CpuTimes(*(sum(column) for column in zip(*times, strict=True)))

    def down(self) -> None:
        """Kill what runs on the machines, and let them go."""
        super().down()
        for watch in self._watches.values():
            watch.close()
        self._watches, self.nodes = {}, ()

    def _taken(self, groups: Sequence[NodeGroup], spot: bool | None = None) -> list[Machine]:
        """Return a machine that is not in use for each group's one node."""
        return select_machines(self._fleet, groups, used=list(self._machines.values()))

    def _bring_up(
        self, plan: Sequence[tuple[Role, int, NodeGroup]], taken: Sequence[Machine]
    ) -> tuple[Node, ...]:
        """Make nodes of the machines that were taken, together; let all go if one fails."""
        nodes = tuple(
            Node(f"{role}{index}", role, index, machine.address, group)
            for (role, index, group), machine in zip(plan, taken, strict=True)
        )
        self._machines |= {node.name: machine for node, machine in zip(nodes, taken, strict=True)}
        try:
            with ThreadPoolExecutor(len(nodes)) as together:
                list(together.map(self._prepare, nodes))
            self.nodes += nodes
            self._check_versions()
        except BaseException:
            for node in nodes:
                self.remove(node)
            raise
        return nodes

    def _prepare(self, node: Node) -> None:
        code, packed = source()
        code_folder = f"{CACHE}/{code}"
        # Written whole or not at all: others, also machines with the same home, may send the same.
        own = f"own=$(mktemp -d {CACHE}/sent.XXXXXX)"
        unpack = f'mkdir -p {CACHE} && {own} && tar -C "$own" -xz && mv -T "$own" {code_folder}'
        late = f'rm -rf "$own" && test -d {code_folder}'
        self._over(node, f"test -d {code_folder} || {{ {unpack}; }} || {{ {late}; }}", packed)
        self._watches[node.name] = received.MachineWatch(
            self._connection(node), self._own(node), self._named(node)
        )
        answer = self._over(
            node,
            shlex.join([*self.python(node), "-m", "profilers.steady.host"]),
            timeout_s=_ABOUT_TIMEOUT_S,
        )
        try:
            about = self._about[node.name] = _MachineInfo.model_validate_json(answer[:_ABOUT_BYTES])
        except ValidationError:
            raise ProbeFailed(f"{self._named(node)} told {answer[:60]!r} of itself") from None
        if (differs := mismatch(node.group, about.host)) is not None:
            raise BadInput(
                f"{self._named(node)} is not what its type declares: it {differs}; "
                f"{self._remedy(node)}"
            )

    def _remedy(self, node: Node) -> str:
        """Return what to do about a machine that is not what its type declares."""
        return f"mend the type in {fleet_file()}, or give the machine another"

    def _check_versions(self) -> None:
        for node in self.nodes[1:]:
            wanted, versions = self.software(), self._about[node.name].software
            if wanted != versions:
                differing = ", ".join(
                    f"{name} {versions.get(name)} instead of {version}"
                    for name, version in wanted.items()
                    if versions.get(name) != version
                )
                raise ProbeFailed(
                    f"{self._named(node)} has {differing}, as {self._named(self.nodes[0])} has; "
                    "install the same versions on all machines"
                )

    def _argv(self, node: Node, argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
        # `exec`: the parent must be sshd's process, not a shell that outlives it.
        bound = ["exec", "setpriv", "--pdeathsig", "KILL", *with_env(env), *argv]
        return [*self._connection(node), shlex.join(bound)]

    def popen(
        self,
        node: Node,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stderr: Path | None = None,
    ) -> "subprocess.Popen[str]":
        """Start a process on a machine; the file of its id tells `signal` whom to send to."""
        file = f"{self._own(node)}/pid{next(self._started)}"
        noted = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', file, *with_env(env or {}), *argv]
        process = super().popen(node, noted, stderr=stderr)
        self._ids[process.pid] = node, file
        return process

    def _own(self, node: Node) -> str:
        """Return the folder of a machine that goes when it is let go; homes may be common."""
        return f"{CACHE}/{self._prefix}-{node.name}"

    def _connection(self, node: Node) -> list[str]:
        machine = self._machines[node.name]
        options = [word for option in OPTIONS for word in ("-o", option)]
        target = ["-p", str(machine.port), machine.host or machine.address]
        return ["ssh", *options, *self._fleet.ssh, *target]

    def _over(
        self, node: Node, command: str, data: bytes = b"", timeout_s: float = _SEND_TIMEOUT_S
    ) -> bytes:
        """Run a command of the machine's shell that reads `data`; return what it writes."""
        try:
            code, output, errors = run_with_input(
                [*self._connection(node), command], data, timeout_s=timeout_s
            )
        except ProbeFailed as error:
            raise ProbeFailed(f"{self._named(node)}: {error}") from None
        except subprocess.TimeoutExpired:
            raise ProbeFailed(f"{self._named(node)} did not answer in {timeout_s:g} s") from None
        if code:
            lines = errors.decode(errors="replace").strip().splitlines() or ["nothing"]
            raise ProbeFailed(f"{self._named(node)}: exit {code}: {lines[-1]}")
        return output

    def _fetch(self, node: Node, remote_folder: str, folder: Path) -> None:
        """Copy what is in a folder there to one here, within limits; remove it there."""
        quoted = shlex.quote(remote_folder)
        # Headers without anything that only others than `received` would understand.
        plain = "--format=ustar --owner=0 --group=0"
        command = f"tar -C {quoted} {plain} -cz . && rm -r {quoted}"
        with subprocess.Popen(
            [*self._connection(node), command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        ) as sending:
            assert sending.stdout is not None
            try:
                received.unpack(sending.stdout.fileno(), folder)
            except ProbeFailed as error:
                sending.kill()
                raise ProbeFailed(f"{self._named(node)} sent no files: {error}") from None
            except BaseException:
                sending.kill()
                raise
        if sending.returncode:
            raise ProbeFailed(f"{self._named(node)} did not send all files of {remote_folder}")

    def _named(self, node: Node) -> str:
        machine = self._machines[node.name]
        return f"machine {machine.host or machine.address} ({machine.node_type})"


def check_machines(groups: Sequence[NodeGroup]) -> None:
    """Refuse more nodes than the fleet file has machines for.

    Raises:
        BadInput: there are not enough of a type.
    """
    select_machines(read_fleet(), [group for group in groups for _ in range(group.count)])


def select_machines(
    fleet: Fleet, groups: Sequence[NodeGroup], used: Sequence[Machine] = ()
) -> list[Machine]:
    """Return machines for so many nodes, in the order of the fleet file.

    Raises:
        BadInput: there are not enough of a type.
    """
    free = [machine for machine in fleet.machines if machine not in used]
    machines = []
    for group in groups:
        alike = [machine for machine in free if machine.node_type == group.node_type]
        if not alike:
            have = sum(machine.node_type == group.node_type for machine in fleet.machines)
            wanted = sum(other.node_type == group.node_type for other in groups)
            raise BadInput(
                f"{wanted} machines of type {group.node_type!r} are needed beside those in use, "
                f"but the fleet file has {have} in all; list more, or use fewer workers"
            )
        free.remove(alike[0])
        machines.append(alike[0])
    return machines


@cache
def source() -> tuple[str, bytes]:
    """Return this project's packages as a compressed archive, behind a name made of their hash."""
    buffer, content = io.BytesIO(), hashlib.sha256()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for package in PACKAGES:
            for path in sorted((SOURCE / package).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    name = str(path.relative_to(SOURCE))
                    content.update(f"{name}\0".encode() + path.read_bytes())
                    archive.add(path, name)
    return content.hexdigest()[:16], buffer.getvalue()
