"""What a GPU can do at most, from its data sheet: the peaks against which times are held.

Peaks are dense (without structured sparsity), in operations a second, a multiplication and an
addition each as one; bandwidth is that of device memory. `float32` is what ordinary cores do:
PyTorch's matrix products in float32 use them unless TF32 is asked for. Convolutions in float32 use
TF32 where there is any (cuDNN, PyTorch's default).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import yaml

from models.gpu_step.operators import CONVOLUTIONS, ON_MATRIX_UNITS, Work

_SHEETS = Path(__file__).with_name("devices.yaml")
_JOULES_PER_OPERATION: Mapping[str, float] = {
    "pascal": 250 / 9.3e12,  # P100 PCIe
    "volta": 250 / 14.0e12,  # V100 PCIe
    "turing": 250 / 14.0e12,  # V100 PCIe: the same process, and no board of Turing held its peak
    "ampere-a100": 250 / 19.5e12,  # A100 PCIe
    "ampere": 350 / 35.6e12,  # GeForce RTX 3090
    "ada": 450 / 82.6e12,  # GeForce RTX 4090
    "hopper": 700 / 66.9e12,  # H100 SXM5
    "blackwell": 1000 / 75e12,  # B200
}


_PCIE_BPS: Mapping[str, float] = {
    **dict.fromkeys(("pascal", "volta", "turing"), 16e9),
    **dict.fromkeys(("ampere", "ampere-a100", "ada"), 32e9),
    **dict.fromkeys(("hopper", "blackwell"), 64e9),
}
"""Of 16 lanes in each direction: generation 3, 4 and 5 (PCI-SIG)."""
_MOST_HZ = 2.1e9
_TURNED_TF32 = 0.629
"""Of Hopper's peak, for products in TF32 of operands that do not lie along their inner side: its
own instructions take no others (PTX ISA, `wgmma.mma_async`). Those of Ampere do, and reach so much
in the mean of shapes and types (Luo et al., Benchmarking and Dissecting the Nvidia Hopper GPU
Architecture, 2024). No fitted share has it, too: nobody timed products in TF32 on Hopper alone."""
_THROUGH_HOST = 0.5
"""GPUs of a node without NVLink reach each other through the host's memory: in and out."""


@dataclass(frozen=True)
class Device:
    """A GPU: peaks (operations/s by precision), bandwidth (bytes/s), L2 (bytes), power (W).

    `peak` has `float32`, and of `tf32`, `bfloat16`, `float16` those that its matrix units have.
    `instances` are families of EC2 that have it.
    """

    name: str
    peak: Mapping[str, float]
    bandwidth: float
    l2_bytes: float
    multiprocessors: int
    memory_bytes: float
    watts: float
    architecture: str
    source: str
    nvlink_bps: float | None = None
    aliases: tuple[str, ...] = field(default=())
    instances: tuple[str, ...] = field(default=())

    @property
    def strain(self) -> float:
        """How many times its power limit the board would need to hold its peak; at least 1.

        What an operation costs follows from boards of the same architecture that were made to hold
        their peak: their watts over their peak, from the data sheets.
        """
        needed_w = self.peak["float32"] * _JOULES_PER_OPERATION[self.architecture]
        return max(1.0, needed_w / self.watts)

    @property
    def clock_hz(self) -> float:
        """Clock at its peak: multiprocessors add and multiply in 64 lanes of float32, or in 128.

        No board's is above 2.1 GHz with 64 lanes (white papers of the architectures).
        """
        clock_hz = self.peak["float32"] / (2 * 64 * self.multiprocessors)
        return clock_hz if clock_hz < _MOST_HZ else clock_hz / 2

    def link_bps(self, link: str | None) -> float:
        """Return rated bytes/s to others of the node, each way, over NVLink, NVSwitch or PCIe."""
        if link in ("NVLink", "NVSwitch") and self.nvlink_bps is not None:
            return self.nvlink_bps
        return _PCIE_BPS[self.architecture] * _THROUGH_HOST

    def without_units(self, precision: str) -> str:
        """Return that it has no matrix units for a precision, and for which it has some."""
        others = " and ".join(each for each in self.peak if each != "float32")
        instead = f"; it has some for {others}" if others else ""
        return f"{self.name} has no matrix units for {precision}{instead}"

    def peak_of(self, work: Work) -> tuple[float, str]:
        """Return operations/s at most, and the precision of the units that do it.

        Half precision without matrix units of its own falls back to float32.
        """
        dtype = work.dtype
        if work.kind not in ON_MATRIX_UNITS:
            return self.peak["float32"], "float32"
        if dtype == "float32" and work.kind in CONVOLUTIONS:
            dtype = "tf32"
        if dtype in self.peak:
            is_slow = work.turned and (self.architecture, dtype) == ("hopper", "tf32")
            return self.peak[dtype] * (_TURNED_TF32 if is_slow else 1.0), dtype
        return self.peak["float32"], "float32"


@lru_cache
def devices() -> Mapping[str, Device]:
    """Return the devices of the data sheets by every name that they have."""
    by_name: dict[str, Device] = {}
    for name, sheet in yaml.load(_SHEETS.read_text(), yaml.CSafeLoader).items():
        device = Device(
            name=name,
            peak={
                precision: teraflops * 1e12 for precision, teraflops in sheet["peak_tflops"].items()
            },
            bandwidth=sheet["bandwidth_gb_per_s"] * 1e9,
            l2_bytes=sheet["l2_mib"] * 2**20,
            multiprocessors=sheet["multiprocessors"],
            memory_bytes=sheet["memory_gib"] * 2**30,
            watts=sheet["watts"],
            architecture=sheet["architecture"],
            source=sheet["source"],
            nvlink_bps=1e9 * sheet["nvlink_gb_per_s"] if "nvlink_gb_per_s" in sheet else None,
            aliases=tuple(sheet.get("aliases", ())),
            instances=tuple(sheet.get("instances", ())),
        )
        for alias in (name, *device.aliases):
            by_name[alias] = device
    return by_name


@lru_cache
def boards() -> tuple[Device, ...]:
    """Return each device of the data sheets once."""
    return tuple({device.name: device for device in devices().values()}.values())


def device_of_node(node_type: str) -> Device | None:
    """Return the GPU of a node type: `gpu.` and its name, or an instance of EC2 that has it."""
    family, _, rest = node_type.partition(".")
    if family == "gpu":
        return devices().get(rest)
    return next((device for device in boards() if family in device.instances), None)
