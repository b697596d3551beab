"""Calls of one kind as columns: what they have to do, and what devices could do for them.

What is computed are whole tiles in whole waves of multiprocessors, and what these are fed with are
the operands of tiles.

Source: waves of tiles as the unit of a GPU's work: NeuSight (Lee et al., ASPLOS 2025, section 4);
ours otherwise.
"""

from collections.abc import Iterable, Sequence
from math import ceil
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator

from models.gpu_step.device import Device
from models.gpu_step.operators import CONVOLUTIONS, HALF, NORMS, PRODUCTS, Work
from networks.gpu_steps import DTYPE_BYTES

Vector = NDArray[np.float64]
_OF_LIST = PlainValidator(lambda values: np.array(values))
_AS_LIST = PlainSerializer(lambda kept: kept.tolist())
KeptVector = Annotated[Vector, _OF_LIST, _AS_LIST]
KeptNames = Annotated[NDArray[np.str_], _OF_LIST, _AS_LIST]
"""Arrays of a fit, which JSON has as lists."""
COVERED = 0.9
"""Part of what is measured that an interval should hold."""

FLOOR_US = 1.0
"""A kernel that does nothing takes this long (gpu_h100: `fill_` of one number, 1.0 us)."""
_TILE = 128
"""Rows and columns of a tile of a matrix product (NeuSight, table 2: most of cuBLAS's)."""
_STREAMED_BPS = 25e9
"""Bytes/s of a multiprocessor that reads and writes each once (H100: 3.3e12 of 132)."""
_FED_BYTES = 64.0
"""Bytes a clock of a multiprocessor that loads operands of tiles from L2."""
_CHANNEL_THREADS = 512
_LOAD_CYCLES = 478.0
"""PyTorch's own batch norm has a block of so many threads for each channel, which wait for one load
after another (ATen/native/cuda/Normalization.cuh), so long from device memory (Luo et al.,
Benchmarking and Dissecting the Nvidia Hopper GPU Architecture, 2024)."""
_MOST_WASTE = 8.0
_WINOGRAD = 2.25


def covering(sizes: Iterable[float]) -> float:
    """Return the size below which `COVERED` of sizes are, of which the next is one more."""
    ordered = sorted(sizes)
    return ordered[min(ceil(COVERED * (len(ordered) + 1)), len(ordered)) - 1]


class Calls:
    """Calls of one kind as columns, and what devices could do for them: [devices, calls]."""

    def __init__(self, works: Sequence[Work], devices: Sequence[Device]) -> None:
        def column(name: str) -> Vector:
            return np.array([getattr(work, name) for work in works], float)

        self.is_product = works[0].kind in PRODUCTS
        self.is_convolution = works[0].kind in CONVOLUTIONS
        self.is_matmul = works[0].kind == "matmul"
        # Backward sums up a channel, then reads it again.
        self.channel_passes = 1.0 + NORMS.index(works[0].kind) if works[0].kind in NORMS else 0.0
        self.flops, self.bytes = column("flops"), column("bytes")
        self.batch, self.rows = column("batch"), column("rows")
        self.columns, self.inner, self.taps = column("columns"), column("inner"), column("taps")
        self.half = np.array([float(_is_half(work)) for work in works])
        aligned = [(work.columns | work.inner | work.rows) for work in works]
        self.aligned = np.array([float(bits & -bits) for bits in aligned])
        self.element_bytes = np.array([float(DTYPE_BYTES.get(work.dtype, 4)) for work in works])
        self.misaligned = np.maximum(0.0, np.log2(16 / (self.aligned * self.element_bytes)))
        units = {(work.kind, work.dtype, work.turned): work for work in works}
        numbers = {unit: number for number, unit in enumerate(units)}
        of_unit = [numbers[work.kind, work.dtype, work.turned] for work in works]
        peaks = [[device.peak_of(work) for work in units.values()] for device in devices]
        self.peak = np.array([[peak for peak, _ in row] for row in peaks])[:, of_unit]
        done_by = np.array([[name for _, name in row] for row in peaks])[:, of_unit]
        self.tf32, self.full = (done_by == "tf32") * 1.0, (done_by == "float32") * 1.0
        self.bandwidth = np.array([[device.bandwidth] for device in devices])
        self.l2_bytes = np.array([[device.l2_bytes] for device in devices])
        self.multiprocessors = np.array([[float(device.multiprocessors)] for device in devices])
        self.clock_hz = np.array([[device.clock_hz] for device in devices])
        self.strain = np.array([[device.strain] for device in devices])
        self.compute_s, self.move_s = self.flops / self.peak, self.bytes / self.bandwidth
        self.roofline_us = 1e6 * np.maximum(self.compute_s, self.move_s) + FLOOR_US
        wide = 2.0 ** np.ceil(np.log2(np.maximum(self.columns, 1)))
        # Groups of a convolution are whole tiles, however narrow.
        narrowest = np.where(self.is_convolution & (self.batch > 1), _TILE, 16)
        self.tile_columns = np.minimum(_TILE, np.maximum(narrowest, wide))
        self.tiles = (
            self.batch * np.ceil(self.rows / _TILE) * np.ceil(self.columns / self.tile_columns)
        )
        self.waves = self.tiles / self.multiprocessors
        needed = np.maximum(self.batch * self.rows * self.columns, 1)
        self.whole = self.tiles * _TILE * self.tile_columns / needed

    def least_us(self) -> Vector:
        """Return [devices, calls]: less no device takes, whatever regressions say.

        Peaks are of boost clocks; Winograd's convolutions of 3 x 3 multiply 2.25 times less often.
        """
        is_winograd = self.is_convolution & (self.taps == 9) & (self.batch == 1)
        spared = np.where(is_winograd & (self.full > 0), _WINOGRAD, 1.0)
        moved_s = np.maximum(self.bytes - self.l2_bytes, 0) / self.bandwidth
        loads = self.half * self.channel_passes * self.columns / _CHANNEL_THREADS
        loaded_s = loads * _LOAD_CYCLES / self.clock_hz
        least_s: Vector = np.maximum(np.maximum(self.compute_s / spared, moved_s), loaded_s)
        return 1e6 * least_s

    def shares_us(self) -> Vector:
        """Return [devices, calls, 6]: launching, moving, computing (full, TF32, half), feeding."""
        compute_us, fed_s = 1e6 * self.compute_s, self.bytes / _STREAMED_BPS
        if self.is_product:
            # Small boards of large chips cannot hold their clocks.
            waste = self.whole * np.ceil(self.waves) / self.waves
            compute_us = compute_us * self.strain * np.minimum(waste, _MOST_WASTE)
            operands = self.tiles * (_TILE + self.tile_columns) * self.inner
            fed_s = operands * self.element_bytes / (_FED_BYTES * self.clock_hz)
            if self.is_matmul:
                # Units of half precision are fed with 16 bytes at once, else with smaller pieces.
                fed_us = 1e6 * fed_s / self.multiprocessors
                pieces = 2.0 ** (self.misaligned * self.half * (1.0 - self.full))
                compute_us = compute_us * (compute_us + fed_us * pieces) / (compute_us + fed_us)
        half = 1.0 - self.full - self.tf32
        parts = (
            np.full_like(self.peak, FLOOR_US),
            1e6 * self.move_s,
            compute_us * self.full,
            compute_us * self.tf32,
            compute_us * half,
            1e6 * fed_s / self.multiprocessors,
        )
        return np.stack(np.broadcast_arrays(*parts), axis=-1)

    def properties(self) -> Vector:
        """Return [devices, calls, properties], what the regression of a kind rests on."""
        cached = np.log(1 + self.l2_bytes / (self.bytes + 1))
        if not self.is_product:
            longest_s = np.maximum(self.compute_s, self.move_s)
            floor_share = FLOOR_US * 1e-6 / (longest_s + FLOOR_US * 1e-6)
            wide = np.where(self.columns > 1, np.log(np.maximum(self.columns, 1)), 0.0)
            few = self.multiprocessors * 8 / np.maximum(self.rows, 1)
            few = np.where(wide > 0, np.log(np.maximum(1.0, few)), 0.0)
            return self._stacked(
                (1.0, floor_share, cached, self.half, wide / 10, few, self.half * few)
            )
        empty = np.log(np.ceil(self.waves) / self.waves)
        bound = np.log((self.compute_s + 1e-9) / (self.move_s + 1e-9))
        units = self.half + self.tf32
        parts = (
            1.0,
            cached,
            self.half,
            self.tf32,
            np.minimum(empty, 3.0),
            np.clip(bound, -3.0, 0.0),
            np.clip(bound, 0.0, 3.0),
            self.misaligned * units,
            np.minimum(self.misaligned, 2.0) * (1.0 - units),
            np.log(1 + 1 / self.waves),
            np.log(_TILE / self.tile_columns),
            np.log(self.taps),
            np.log(self.batch) / 10,
            np.log(self.strain),
        )
        return self._stacked(parts)

    def _stacked(self, parts: tuple[Any, ...]) -> Vector:
        return np.stack([np.broadcast_to(part, self.peak.shape) for part in parts], axis=-1)

    def places(self) -> Vector:
        """Return [calls, 6]: where calls stand among their kind; nearby ones take alike long."""
        sizes = (self.batch, self.rows, self.columns, self.inner)
        logs = [np.log(np.maximum(size, 1)) for size in sizes]
        return np.stack([4.0 * self.half, np.log(self.bytes + 1), *logs], axis=-1)


def _is_half(work: Work) -> bool:
    """Tell whether kernels are those of half precision.

    Batch norm has cuDNN's in float32 and float16, and PyTorch's own in bfloat16
    (ATen/native/Normalization.cpp, `_select_batch_norm_backend`). Most depthwise convolutions in
    float16 have cuDNN's (`operators.laid_out`), which nobody timed: they are taken to be those of
    float32, which move twice the bytes.
    """
    is_cudnn = work.dtype == "float16" and (
        work.name.startswith("batch_norm") or work.kind.startswith("depthwise")
    )
    return work.dtype in HALF and not is_cudnn
