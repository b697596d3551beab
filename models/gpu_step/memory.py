"""How much memory of a GPU a training step needs at most, from the trace of its operators.

Parameters, gradients and the optimizer's state are there all the time (float32 under autocast);
activations live from the operator that makes them to the last one that reads them, which for what
backward keeps is in backward. PyTorch's allocator hands out blocks of 512 bytes; what is reserved
beyond what is allocated is fragmentation. The CUDA context and loaded kernels come on top.

Sources: PyTorch's CUDACachingAllocator (block size 512 bytes); context: ours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from models.gpu_step.device import Device

_BLOCK_BYTES = 512
_CONTEXT_BYTES = 500 * 2**20
_FRAGMENTATION = 0.04
_SPARE = 0.05
STATE_COPIES: Mapping[str, int] = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2}
"""Copies of the parameters that an optimizer keeps."""
TEMPORARY_COPIES: Mapping[str, int] = {"sgd": 0, "momentum": 0, "adam": 1, "adamw": 1}
"""Copies of the parameters that its grouped step makes: the square root of the second moment."""


@dataclass(frozen=True)
class Storage:
    """Bytes that exist from operator `made` to operator `used`, both counted from 0."""

    bytes: int
    made: int
    used: int


@dataclass(frozen=True)
class Memory:
    """Bytes at most: allocated by PyTorch, and of these what is there between steps."""

    allocated_bytes: int
    standing_bytes: int
    gradient_bytes: int

    @property
    def needed_bytes(self) -> int:
        """Allocated, fragmentation and the CUDA context."""
        return int(self.allocated_bytes * (1 + _FRAGMENTATION)) + _CONTEXT_BYTES

    def fits(self, device: Device) -> bool:
        """Whether a twentieth of the device's memory would be spare."""
        return self.needed_bytes <= device.memory_bytes * (1 - _SPARE)


def peak_memory(
    parameters_bytes: Sequence[int],
    buffers_bytes: int,
    storages: Sequence[Storage],
    optimizer: Literal["sgd", "momentum", "adam", "adamw"],
) -> Memory:
    """Return the most memory of a step.

    Args:
        parameters_bytes: of each parameter.
        buffers_bytes: of all buffers and inputs.
        storages: what operators of forward and backward make; gradients of parameters, which stay
            until the optimizer has read them, end after the last operator.
        optimizer: which keeps state, and makes temporary copies in its step.
    """
    parameters = sum(map(rounded, parameters_bytes))
    state = STATE_COPIES[optimizer] * parameters
    standing = parameters + state + buffers_bytes
    changes: dict[int, int] = {}
    for storage in storages:
        size = rounded(storage.bytes)
        changes[storage.made] = changes.get(storage.made, 0) + size
        changes[storage.used + 1] = changes.get(storage.used + 1, 0) - size
    live = most = 0
    for at in sorted(changes):
        live += changes[at]
        most = max(most, live)
    # In the optimizer's step all gradients are there, and its temporary copies.
    step = parameters * (1 + TEMPORARY_COPIES[optimizer])
    return Memory(standing + max(most, step), standing, parameters)


def rounded(size_bytes: int) -> int:
    """Return the bytes of the blocks that hold so many."""
    return -(-size_bytes // _BLOCK_BYTES) * _BLOCK_BYTES
