"""`stepcast doctor`: what this machine can do, what is missing, and the command that mends it."""

import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.cli.tables import print_rows
from profilers import commands
from profilers.clusters import cgroups, choose_backend, netns, open_cluster, owner
from profilers.clusters.fleet import fleet_file, has_fleet, read_fleet
from profilers.clusters.node_types import node_group, node_types
from profilers.steady import host, hostlock
from warehouse.extras import has_extra
from warehouse.records import MissingTool, StepcastError

MEMORY_GIB = 4.0
"""Five TensorFlow processes of 0.7 GiB each: a server and the demo's four workers."""
_TOOLS = {
    "ip": ("iproute2", "emulated cluster"),
    "tc": ("iproute2", "emulated cluster"),
    "nsenter": ("util-linux", "emulated cluster"),
    "sysctl": ("procps", "emulated cluster"),
    "setpriv": ("util-linux", "every cluster"),
    "iperf3": ("iperf3", "link probe, on every cluster"),
    "tcpdump": ("tcpdump", "packet traces"),
}
"""Programs, with their Debian package and what needs them."""
_ESSENTIAL_TOOLS = {"setpriv", "iperf3"}
_EXTRAS = {
    "dagster": "run, demo, fleet, ui",
    "tensorflow": "demo, networks of TensorFlow, Keras models",
    "aws": "backend ec2, prices collect",
}
_AS_ROOT = "run as root; in a container also with --privileged"


@dataclass(frozen=True)
class HostFinding:
    """One thing looked at; `essential` if nothing can run without it."""

    name: str
    ok: bool
    found: str
    needed_for: str
    mend: str = ""
    essential: bool = False


def examine() -> list[HostFinding]:
    """Look at this machine by trying; leaves nothing behind and needs no special rights."""
    namespaces = _network_namespaces()
    return [
        *map(_extra, _EXTRAS),
        _cores(),
        _memory(),
        _instruction_sets(),
        _gpus(),
        _aws_credentials(),
        *(_tool(name) for name in _TOOLS),
        namespaces,
        _shaped_links(namespaces.ok),
        _control_group("cpu", "CPU shares"),
        _control_group("memory", "memory limits"),
        _leftovers(),  # before the backend: its trial cluster removes them
        _host_lock(),
        _backend(),
        *([fleet_finding()] if has_fleet() and read_fleet().machines else []),
    ]


def exit_code(findings: Sequence[HostFinding]) -> int:
    """Return 0 if what is installed can run at all (the loopback backend counts), else 1."""
    return int(any(finding.essential and not finding.ok for finding in findings))


def print_findings(findings: Sequence[HostFinding]) -> None:
    """Print the findings, with what to do about those that are not as they should."""
    rows = [
        {
            "": "ok" if finding.ok else "no" if finding.essential else "warn",
            "what": finding.name,
            "found": finding.found,
            "needed for": finding.needed_for,
            "to mend": "" if finding.ok else finding.mend,
        }
        for finding in findings
    ]
    print_rows(rows)


def _extra(name: str) -> HostFinding:
    has, mend = has_extra(name), f"pip install 'stepcast[{name}]'"
    state = "there" if has else "not installed"
    return HostFinding(f"extra {name}", has, state, _EXTRAS[name], mend)


def _cores() -> HostFinding:
    cores = len(os.sched_getaffinity(0))
    mend = "use a machine with more cores, or fewer workers"
    return HostFinding("CPU cores", cores >= 2, str(cores), "accuracy of the demo (2)", mend)


def _memory() -> HostFinding:
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    gib = int(fields["MemAvailable"].split()[0]) / 2**20
    needed, mend = f"four workers ({MEMORY_GIB:g} GiB)", "end other programs, or use fewer workers"
    return HostFinding("free memory", gib >= MEMORY_GIB, f"{gib:.1f} GiB", needed, mend)


def _instruction_sets() -> HostFinding:
    has = host.instruction_sets()
    refused = [name for name, kind in node_types().items() if kind.isa and kind.isa not in has]
    state = ", ".join(has) or "none known to oneDNN"
    if refused:
        state += f"; so not {', '.join(refused)}"
    mend = "use other node types in studies, or a newer CPU"
    return HostFinding("instruction sets", not refused, state, "node types with an isa", mend)


def _gpus() -> HostFinding:
    """Compare the GPUs that the driver names with those that PyTorch can use."""
    import torch

    installed = host.gpu_models() or ["a GPU"] * host.gpus()
    seen = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    types = "node types with a gpu"
    if not installed and not seen:
        return HostFinding("GPUs", True, "none; processors train", types)
    if len(seen) >= len(installed):
        return HostFinding("GPUs", True, ", ".join(seen), types)
    state = f"{', '.join(installed)}; PyTorch {torch.__version__} sees {len(seen)}"
    mend = "install PyTorch's CUDA build, or mend the driver (nvidia-smi)"
    return HostFinding("GPUs", False, state, types, mend)


def _aws_credentials() -> HostFinding:
    """Say where credentials of AWS come from; asks no service of the network."""
    name, use = "AWS credentials", "backend ec2, prices collect"
    if not has_extra("aws"):
        return HostFinding(name, True, "not looked for without the extra aws", use)
    from botocore.credentials import create_credential_resolver
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    mend = "`aws configure`, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    try:
        resolver = create_credential_resolver(Session())
        # Instances ask their metadata service, which elsewhere makes everybody wait.
        for remote in ("iam-role", "container-role"):
            resolver.remove(remote)
        credentials = resolver.load_credentials()
    except BotoCoreError as error:
        return HostFinding(name, False, f"{error}"[:160], use, mend)
    if credentials is not None:
        return HostFinding(name, True, f"from {credentials.method}", use)
    wanted = has_fleet() and read_fleet().ec2 is not None
    return HostFinding(name, not wanted, "none (an instance's role is not asked)", use, mend)


def _tool(name: str) -> HostFinding:
    package, use = _TOOLS[name]
    # Debian keeps some where only root looks.
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    mend = f"apt-get install {package} (as root), or put it on the PATH"
    is_on_path = shutil.which(name) is not None
    state = path or "not on the PATH"
    return HostFinding(name, is_on_path, state, use, mend, name in _ESSENTIAL_TOOLS)


def _tried(name: str, attempt: Callable[[], str], needed_for: str, mend: str) -> HostFinding:
    try:
        return HostFinding(name, True, attempt(), needed_for, mend)
    except StepcastError as error:
        message = re.sub(r"; (see )?`stepcast doctor`.*", "", str(error))
        return HostFinding(name, False, message, needed_for, mend)


def _network_namespaces() -> HostFinding:
    def attempt() -> str:
        name = f"{owner.new_prefix()}-doctor"
        try:
            commands.run(["ip", "netns", "add", name])
            return "permitted"
        finally:
            netns.delete(name)

    return _tried("network namespaces", attempt, "emulated cluster", _AS_ROOT)


def _shaped_links(namespaces: bool) -> HostFinding:
    def attempt() -> str:
        if not namespaces:
            raise MissingTool("not tried without network namespaces")
        network = netns.NamespaceNetwork(owner.new_prefix(), link_mbps=100)
        try:
            network.up(["doctor"])
            return "veth, bridge, htb and bfifo work"
        finally:
            network.down()

    mend = "modprobe -a veth bridge sch_htb (as root), or another kernel"
    return _tried("shaped links", attempt, "emulated cluster", mend)


def _control_group(controller: str, use: str) -> HostFinding:
    def attempt() -> str:
        name = f"{owner.new_prefix()}-doctor"
        try:
            is_cpu = controller == "cpu"
            cgroups.create(name, 0.1 if is_cpu else None, None if is_cpu else 2**26)
            version, folder = cgroups.controllers()[controller]
            return f"version {version} at {folder}"
        finally:
            cgroups.delete(name)

    return _tried(f"{controller} control group", attempt, f"{use} of emulated nodes", _AS_ROOT)


def _leftovers() -> HostFinding:
    names = {*netns.namespaces(), *cgroups.names(owner.PREFIX)}
    orphans = sorted(
        name for name in names if name.startswith(f"{owner.PREFIX}-") and owner.is_orphan(name)
    )
    state = f"of killed runs: {', '.join(orphans)}" if orphans else "none of this home"
    return HostFinding("leftovers", not orphans, state, "a quiet host", "stepcast reap")


def _host_lock() -> HostFinding:
    holder = hostlock.holder()
    state = f"held by {holder}" if holder else "free"
    return HostFinding("measuring", not holder, state, "one at a time", f"wait for {holder}")


def fleet_finding() -> HostFinding:
    """Connect to every machine of the fleet file."""

    def attempt() -> str:
        groups = [node_group("worker", machine.node_type, 1) for machine in read_fleet().machines]
        with open_cluster("ssh", groups, None) as cluster:
            return f"{len(cluster.nodes)} machines of {fleet_file()} answer"

    return _tried("fleet", attempt, "backend ssh", f"mend the machine, or {fleet_file()}")


def _backend() -> HostFinding:
    backend, why = choose_backend("auto")
    state = f"{backend}: {why}"
    mend = "mend what is lacking above; until then accuracy has no goal here"
    return HostFinding("backend", backend == "emulated", state, "what `auto` runs on", mend)
