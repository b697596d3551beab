"""What every program on a node needs: what it says of its node, its answers, and its loop.

Commands are JSON lines on stdin, answers JSON lines on stdout; end of input (the controller died)
ends the program.
"""

import fcntl
import json
import os
import socket
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

GPUS = "STEPCAST_GPUS"
"""How many GPUs the node's type declares: PyTorch has to see them."""
_SIOCGIFMTU = 0x8921


class Say(Protocol):
    """Answers the controller with one event."""

    def __call__(self, event: str, **facts: object) -> None:
        """Write the event and its facts as one line."""


def serve(make: Callable[[dict[str, Any], Say], Mapping[str, Callable[..., None]]]) -> None:
    """Be a program that obeys, `python -m MODULE CONFIG_JSON`, until its controller closes stdin.

    Args:
        make: what obeys each command, made of the program's config and of what answers.
    """
    config, say = json.loads(sys.argv[1]), answers()
    commands = make(config, say)
    say("ready", **node_facts(config["interface"]))
    obey(commands)


def obey(commands: Mapping[str, Callable[..., None]]) -> None:
    """Carry out the commands that stdin holds until it ends, then leave at once.

    Groups and sessions that wait for a dead peer would never close.
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


def node_facts(interface: str) -> dict[str, object]:
    """Return names of GPUs, cores, memory and the largest packet of the link of this node.

    Raises:
        SystemExit: PyTorch sees fewer GPUs than the node's type declares.
    """
    return {
        "devices": _devices(),
        "cores": os.cpu_count() or 1,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "mtu_bytes": mtu_bytes(interface),
    }


def _devices() -> Sequence[str]:
    """Return the names of the GPUs that this program's framework sees."""
    if "tensorflow" in sys.modules:
        import tensorflow as tf

        return [device.name for device in tf.config.list_physical_devices("GPU")]
    import torch

    seen, wanted = torch.cuda.device_count(), int(os.environ.get(GPUS, "0"))
    if seen < wanted:
        sys.exit(
            f"the node's type has {wanted} GPU(s), but PyTorch {torch.__version__} sees {seen}; "
            "install PyTorch's CUDA build, or mend the driver"
        )
    return [torch.cuda.get_device_name(index) for index in range(seen)]


def mtu_bytes(interface: str) -> int:
    """Return the largest packet of a network device of this program's network namespace.

    Asked of the kernel: /sys may be that of another namespace.
    """
    request = struct.pack("16sI12x", interface.encode(), 0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        reply = fcntl.ioctl(any_socket, _SIOCGIFMTU, request)
    return int(struct.unpack("16sI12x", reply)[1])
