"""How much memory of a GPU a training step needs at most, from the trace of its operators.

Parameters, gradients and the optimizer's state are there all the time, in the parameters' type.
Activations live from the operator that makes them until nothing refers to them, which for what
backward keeps is in backward; `networks.gpu_trace` counts them. PyTorch's allocator hands out
blocks of 512 bytes; what it reserves beyond them (fragments, and blocks that it caches), the CUDA
context and loaded kernels come on top: `nvidia-smi` shows all of it.

8-bit AdamW has both moments in a byte each, and a scale of each block (Dettmers et al., 8-bit
Optimizers via Block-wise Quantization, ICLR 2022; bitsandbytes' defaults).

Sources: PyTorch's CUDACachingAllocator (block size 512 bytes); what comes on top is fitted to what
nvidia-smi showed of milabench's steps on an H100 (mila-iqia/milabench, config/scaling/H100.yaml).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

from models.gpu_step.device import Device
from models.gpu_step.operators import HALF
from networks.gpu_steps import GpuStep, Tensor
from warehouse.records import Optimizer, Precision

_BLOCK_BYTES = 512
_CONTEXT_BYTES = 1450 * 2**20
"""Context, kernels and workspaces of libraries: of steps of one sample nvidia-smi shows about so
much more than is allocated (milabench, n = 28; Qwen's on an A100, left out, agree)."""
_RESERVED = 0.06
"""Of what is allocated: blocks come and go, and those that fit no other stay reserved."""
_SPARE = 0.05
_UNIT_COPIES = 4
"""Of the largest unit of a sharded network: its parameters and gradients, the parameters of the
next one, which are gathered beside it, and the gradients of the last one, which are scattered."""
_ROOT_COPIES = 2
"""Of what is in no unit, and stays gathered all the time: parameters and gradients."""
_STATE_COPIES: Mapping[Optimizer, int] = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2}
"""Copies of the parameters that an optimizer keeps."""
_TEMPORARY_COPIES: Mapping[Optimizer, int] = {"adam": 1, "adamw": 1}
"""Copies of the parameters that its grouped step makes: the square root of the second moment."""
_QUANTIZED_FROM = 4096
"""Elements of a parameter from which on both of its moments have 8 bits each."""
_QUANTIZED_BLOCK = 256
"""Elements that share a scale of 4 bytes."""


@dataclass(frozen=True)
class Memory:
    """Bytes at most that PyTorch allocates, and what they need of a device.

    Attributes:
        standing_bytes: in forward and backward, whatever the batch.
        activation_bytes: beside them, which grow with the batch.
        optimizer_bytes: in the optimizer's step, when activations are gone.
    """

    standing_bytes: int
    activation_bytes: int
    optimizer_bytes: int

    @property
    def allocated_bytes(self) -> int:
        """The most of the whole step."""
        return max(self.standing_bytes + self.activation_bytes, self.optimizer_bytes)

    @property
    def needed_bytes(self) -> int:
        """What nvidia-smi would show: allocated, reserved beyond that, and the CUDA context."""
        return int(self.allocated_bytes * (1 + _RESERVED)) + _CONTEXT_BYTES

    @property
    def on_top_bytes(self) -> int:
        """What nvidia-smi would show beside what PyTorch allocates."""
        return self.needed_bytes - self.allocated_bytes

    def fits(self, device: Device) -> bool:
        """Whether a twentieth of the device's memory would be spare."""
        return self.needed_bytes <= device.memory_bytes * (1 - _SPARE)

    def largest_batch_size(self, device: Device, batch_size: int) -> int:
        """Return about the largest batch that fits a device; this memory is of `batch_size`."""
        most = (device.memory_bytes * (1 - _SPARE) - _CONTEXT_BYTES) / (1 + _RESERVED)
        room = most - self.standing_bytes
        if room < 0 or self.optimizer_bytes > most:
            return 0
        return int(batch_size * room / max(self.activation_bytes, 1))


def peak_memory(
    step: GpuStep,
    optimizer: Optimizer,
    precision: Precision = "float32",
    *,
    accumulate: int = 1,
    distributed: bool = False,
    shards: int = 1,
    zero: int = 3,
    activation_bytes: int | None = None,
) -> Memory:
    """Return the most memory of a step.

    Args:
        step: traced; its bytes are those of one pass.
        optimizer: which keeps state, and makes temporary copies in its step.
        precision: in which shards are gathered; gradients and state stay as they were made.
        accumulate: passes; from the second on all gradients are there from the start.
        distributed: DistributedDataParallel has buckets beside the gradients, as large as they are.
        shards: of FullyShardedDataParallel, one on each GPU; units of layers are whole besides.
        zero: what is divided: ZeRO's stage. Below 3, half precision is of copies of parameters and
            their gradients (Rajbhandari et al., SC 2020, section 3.1: 16 bytes each with Adam).
        activation_bytes: in place of those of the step.
    """
    parameters, frozen = (
        sum(many * rounded(tensor.bytes) for tensor, many in held.items())
        for held in (step.trained_counts, step.frozen_counts)
    )
    state = sum(
        many * _state_bytes(optimizer, tensor) for tensor, many in step.trained_counts.items()
    )
    state += parameters * distributed
    of_optimizer = frozen + parameters * (2 + _TEMPORARY_COPIES.get(optimizer, 0)) + state
    activations = step.activation_bytes if activation_bytes is None else activation_bytes
    if zero < 3:
        gradients, others = (
            sum(many * rounded(_as_computed(tensor, precision).bytes) for tensor, many in held)
            for held in (step.trained_counts.items(), step.frozen_counts.items())
        )
        weights = gradients + others
        of_step = state + (parameters if gradients < parameters else 0)
        standing = weights + gradients // (shards if zero > 1 else 1) + of_step // shards
        temporary = _TEMPORARY_COPIES.get(optimizer, 0) * parameters // shards
        return Memory(standing, activations, standing + temporary)
    if shards > 1:
        root, *units = step.units
        whole = _ROOT_COPIES * root + _UNIT_COPIES * max(units, default=0)
        # Gradients come as activations go.
        gradients = max(parameters // shards - activations, 0)
        standing = (frozen + parameters + state) // shards + gradients
        standing += whole * (2 if precision in HALF else 4)
        return Memory(standing, activations, of_optimizer // shards)
    passes = step.peak_bytes
    if accumulate > 1:
        passes = step.without_gradients_bytes + parameters
    return Memory(passes - activations + state, activations, of_optimizer)


def _as_computed(tensor: Tensor, precision: Precision) -> Tensor:
    return replace(tensor, dtype=precision) if precision in HALF else tensor


def _state_bytes(optimizer: Optimizer, parameter: Tensor) -> int:
    """Return the bytes of what an optimizer keeps of a parameter from step to step."""
    if optimizer != "adamw_8bit":
        return _STATE_COPIES[optimizer] * rounded(parameter.bytes)
    if parameter.numbers < _QUANTIZED_FROM:
        return 2 * rounded(4 * parameter.numbers)
    scales = rounded(4 * ceil(parameter.numbers / _QUANTIZED_BLOCK))
    return 2 * (rounded(parameter.numbers) + scales)


def rounded(size_bytes: int) -> int:
    """Return the bytes of the blocks that hold so many."""
    return -(-size_bytes // _BLOCK_BYTES) * _BLOCK_BYTES
