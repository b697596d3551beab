"""How much memory of a GPU a training step needs at most, from the trace of its operators.

Parameters, gradients and the optimizer's state are there all the time (float32 under autocast).
Activations live from the operator that makes them until nothing refers to them, which for what
backward keeps is in backward; `networks.gpu_trace` counts them. PyTorch's allocator hands out
blocks of 512 bytes; what is reserved beyond what is allocated is fragmentation. The CUDA context
and loaded kernels come on top.

Sources: PyTorch's CUDACachingAllocator (block size 512 bytes); context: ours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from models.gpu_step.device import Device
from warehouse.records import Optimizer

_BLOCK_BYTES = 512
_CONTEXT_BYTES = 500 * 2**20
_FRAGMENTATION = 0.04
_SPARE = 0.05
UNITS = 32
"""Of a sharded network at most: about the blocks of a transformer."""
STATE_COPIES: Mapping[Optimizer, int] = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2}
"""Copies of the parameters that an optimizer keeps."""
TEMPORARY_COPIES: Mapping[Optimizer, int] = {"sgd": 0, "momentum": 0, "adam": 1, "adamw": 1}
"""Copies of the parameters that its grouped step makes: the square root of the second moment."""


@dataclass(frozen=True)
class Memory:
    """Bytes at most that PyTorch allocates, and what they need of a device."""

    allocated_bytes: int

    @property
    def needed_bytes(self) -> int:
        """Allocated, fragmentation and the CUDA context."""
        return int(self.allocated_bytes * (1 + _FRAGMENTATION)) + _CONTEXT_BYTES

    def fits(self, device: Device) -> bool:
        """Whether a twentieth of the device's memory would be spare."""
        return self.needed_bytes <= device.memory_bytes * (1 - _SPARE)

    def room(self, device: Device) -> float:
        """Return the bytes that PyTorch could allocate beside, so that it still fits."""
        most = (device.memory_bytes * (1 - _SPARE) - _CONTEXT_BYTES) / (1 + _FRAGMENTATION)
        return most - self.allocated_bytes


def peak_memory(
    parameters_bytes: Sequence[int],
    traced_bytes: int,
    optimizer: Optimizer,
    *,
    distributed: bool = False,
    shards: int = 1,
) -> Memory:
    """Return the most memory of a step.

    Args:
        parameters_bytes: of each parameter.
        traced_bytes: most bytes alive in forward and backward: parameters, buffers, inputs,
            gradients and activations (`networks.gpu_steps.GpuStep.peak_bytes`).
        optimizer: which keeps state, and makes temporary copies in its step.
        distributed: DistributedDataParallel has buckets beside the gradients, as large as they are.
        shards: of FullyShardedDataParallel, one on each GPU; two units of layers are whole besides.
            What is alive beyond the parameters counts as activations, so it is at most that much.
    """
    parameters = sum(map(rounded, parameters_bytes))
    # In the optimizer's step activations are gone, gradients and temporary copies are there.
    step = parameters * (2 + TEMPORARY_COPIES[optimizer])
    if shards > 1:
        copies = 2 + TEMPORARY_COPIES[optimizer] + STATE_COPIES[optimizer]
        whole = 2 * parameters // min(UNITS, len(parameters_bytes))
        return Memory(copies * parameters // shards + whole + max(traced_bytes - parameters, 0))
    state = (STATE_COPIES[optimizer] + distributed) * parameters
    return Memory(max(traced_bytes, step) + state)


def rounded(size_bytes: int) -> int:
    """Return the bytes of the blocks that hold so many."""
    return -(-size_bytes // _BLOCK_BYTES) * _BLOCK_BYTES
