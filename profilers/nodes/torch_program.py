"""What every PyTorch program on a node needs: its variables, what it says of itself, its loop."""

import fcntl
import json
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Protocol, cast

import polars as pl

from profilers.clusters import Cluster, Node
from profilers.clusters.node_types import gpus
from profilers.nodes.programs import Message

START_TIMEOUT_S = 300.0
_GPUS = "STEPCAST_GPUS"
"""How many GPUs the node's type declares: PyTorch has to see them."""
_SIOCGIFMTU = 0x8921
_CAPABILITIES = {"SSE41": "default", "AVX2": "avx2"}
"""PyTorch's own kernels by oneDNN instruction set; the others have AVX-512."""
_MKL = {"SSE41": "SSE4_2", "AVX2": "AVX2"}


class Say(Protocol):
    """Answers the controller with one event."""

    def __call__(self, event: str, **facts: object) -> None:
        """Write the event and its facts as one line."""


def environment(cluster: Cluster, node: Node) -> dict[str, str]:
    """Return the variables of a PyTorch program: threads, network device, instruction set."""
    threads = str(node.group.threads)
    variables = {
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "GLOO_SOCKET_IFNAME": cluster.interface,
        "NCCL_SOCKET_IFNAME": cluster.interface,
    }
    if wanted := gpus(node.group.node_type):
        variables[_GPUS] = str(wanted)
    isa = node.group.isa
    if isa is not None:
        variables["ONEDNN_MAX_CPU_ISA"] = isa
        variables["ATEN_CPU_CAPABILITY"] = _CAPABILITIES.get(isa, "avx512")
        variables["MKL_ENABLE_INSTRUCTIONS"] = _MKL.get(isa, "AVX512")
    return variables


def obey(commands: Mapping[str, Callable[..., None]]) -> None:
    """Carry out the commands that stdin holds until it ends, then leave at once.

    Groups that wait for a dead peer would never close.
    """
    for line in sys.stdin:
        command = json.loads(line)
        commands[command.pop("do")](**command)
    os._exit(0)


def answers() -> Say:
    """Return what answers the controller; other prints of this program go to stderr from now on."""
    file = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def say(event: str, **facts: object) -> None:
        file.write(json.dumps({"event": event, **facts}) + "\n")

    return say


def own_facts(interface: str) -> dict[str, object]:
    """Return what `Facts` holds of the node that this program runs on.

    Raises:
        SystemExit: PyTorch sees fewer GPUs than the node's type declares.
    """
    import torch

    seen, wanted = torch.cuda.device_count(), int(os.environ.get(_GPUS, "0"))
    if seen < wanted:
        sys.exit(
            f"the node's type has {wanted} GPU(s), but PyTorch {torch.__version__} sees {seen}; "
            "install PyTorch's CUDA build, or mend the driver"
        )
    return {
        "devices": [torch.cuda.get_device_name(index) for index in range(seen)],
        "cores": os.cpu_count() or 1,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "mtu_bytes": mtu_bytes(interface),
    }


@dataclass(frozen=True)
class Facts:
    """What a node says of itself: names of its GPUs, cores, memory, largest packet of its link."""

    devices: tuple[str, ...]
    cores: int
    memory_bytes: int
    mtu_bytes: int

    @classmethod
    def of(cls, ready: Message) -> "Facts":
        """Read a program's first answer."""
        return cls(
            tuple(cast(list[str], ready["devices"])),
            cast(int, ready["cores"]),
            cast(int, ready["memory_bytes"]),
            cast(int, ready["mtu_bytes"]),
        )


def mtu_bytes(interface: str) -> int:
    """Return the largest packet of a network device of this program's network namespace.

    Asked of the kernel: /sys may be that of another namespace.
    """
    request = struct.pack("16sI12x", interface.encode(), 0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        reply = fcntl.ioctl(any_socket, _SIOCGIFMTU, request)
    return int(struct.unpack("16sI12x", reply)[1])


def interleave_node_types(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return nodes with their types in turn, so that the first few are a mix of all types."""
    kinds: dict[str, list[Node]] = {}
    for node in nodes:
        kinds.setdefault(node.group.node_type, []).append(node)
    mixed: Iterable[Node | None] = chain.from_iterable(zip_longest(*kinds.values()))
    return tuple(node for node in mixed if node is not None)


def cluster_nodes(facts: Mapping[Node, Facts]) -> pl.DataFrame:
    """Return table cluster_node of these nodes."""
    rows = [
        {
            "node": node.name,
            "role": node.role,
            "node_type": node.group.node_type,
            "address": node.address,
            "cores": node.group.cpu_share or float(known.cores),
            "memory_bytes": node.group.memory_bytes or known.memory_bytes,
            "device_count": len(known.devices),
            "device_name": next(iter(known.devices), None),
        }
        for node, known in facts.items()
    ]
    return pl.DataFrame(rows, schema_overrides={"device_name": pl.String})
