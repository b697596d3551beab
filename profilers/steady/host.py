"""What this host is and how busy it is, and measuring anew what a hypervisor disturbed."""

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from statistics import fmean
from typing import Generic, NamedTuple, TypeVar

from warehouse.records import content_hash

_FLAGS = {
    "SSE41": {"sse4_1"},
    "AVX2": {"avx2", "fma"},
    "AVX512_CORE": {"avx512f", "avx512bw", "avx512vl", "avx512dq"},
    "AVX512_CORE_VNNI": {"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni"},
}
PACKAGES = ("tensorflow", "tf_keras", "torch", "numpy")


@cache
def hardware() -> dict[str, str]:
    """CPU model, cores, memory in GiB, instruction sets and GPUs: what makes hosts comparable."""
    memory_kb = int(Path("/proc/meminfo").read_text().split()[1])
    facts = {
        "cpu": _cpu_field("model name") or platform.machine(),
        "cores": str(os.cpu_count()),
        "memory_gib": str(round(memory_kb / 2**20)),
        "instruction_sets": " ".join(instruction_sets()),
    }
    return facts | ({"gpu": ", ".join(models)} if (models := gpu_models()) else {})


@cache
def host_id() -> str:
    """Hash of `hardware()`: runs of hosts with another hash are not comparable."""
    return content_hash(repr(sorted(hardware().items())))


def description() -> dict[str, str]:
    """`hardware()`, the kernel release, and which start of the kernel this is.

    A host that was started again is faster or slower as a whole, yet stays comparable hardware: its
    boot is in no `host_id()`. Guests restored from one snapshot may share a `boot_id`; their
    `booted_at` (UTC, to the second) tells them apart.
    """
    return {
        **hardware(),
        "kernel": platform.release(),
        "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "booted_at": datetime.fromtimestamp(_boot_time_s(), UTC).isoformat(),
    }


def software() -> dict[str, str]:
    """Versions of Python and of the frameworks that are measured, as far as they are there."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


@cache
def instruction_sets() -> tuple[str, ...]:
    """Names of the oneDNN instruction sets this CPU has, weakest first."""
    flags = set(_cpu_field("flags").split())
    return tuple(name for name, needed in _FLAGS.items() if needed <= flags)


def gpu_models() -> list[str]:
    """Return the models of this host's NVIDIA GPUs, as their driver names them."""
    paths = sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
    lines = [line for path in paths for line in path.read_text().splitlines()]
    return [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]


def gpus() -> int:
    """Return how many NVIDIA GPUs this host has."""
    return len(list(Path("/dev").glob("nvidia[0-9]*")))


class CpuTimes(NamedTuple):
    """Seconds of all cores together since boot: idle, stolen by the hypervisor, all."""

    idle_s: float
    stolen_s: float
    total_s: float

    def fractions_since(self, before: "CpuTimes") -> tuple[float, float]:
        """Return which part of the time since `before` was idle, and which was stolen."""
        total_s = max(self.total_s - before.total_s, 1e-9)
        return (self.idle_s - before.idle_s) / total_s, (self.stolen_s - before.stolen_s) / total_s


def cpu_times() -> CpuTimes:
    """Return what the kernel has counted so far."""
    return parse_cpu_times(Path("/proc/stat").read_text().split("\n", 1)[0])


def parse_cpu_times(line: str) -> CpuTimes:
    """Return what the first line of /proc/stat says."""
    ticks = [int(field) for field in line.split()[1:9]]
    per_second = os.sysconf("SC_CLK_TCK")
    idle, stolen = ticks[3] + ticks[4], ticks[7]
    return CpuTimes(idle / per_second, stolen / per_second, sum(ticks) / per_second)


def _boot_time_s() -> int:
    lines = Path("/proc/stat").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("btime "))


def _cpu_field(name: str) -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


# Measuring in peace: what a hypervisor disturbed is measured again.
#
# Where the host is itself a guest, its hypervisor may take processor time from it in the middle of
# a measurement. The kernel counts that time as stolen.


MOST_STOLEN = 0.02
"""The part of the host's processor time that may be stolen while something is measured."""
PATIENCE_S = 60.0
"""How long a probe goes on measuring the same again before it takes the least disturbed attempt.

As long as it is, because all forecasts of a job rest on one profile and one probe of its links.
"""

T = TypeVar("T")


@dataclass(frozen=True)
class MeasuredValue(Generic[T]):
    """A measured value, and the parts of the host's processor time that were idle and stolen."""

    value: T
    idle: float
    stolen: float

    @property
    def disturbed(self) -> bool:
        """Whether more was stolen than a measurement bears."""
        return self.stolen > MOST_STOLEN


@dataclass
class Patience:
    """Seconds that a probe may still spend on measuring again.

    `cpu_times` tells what the processors that matter have done so far.
    """

    cpu_times: Callable[[], CpuTimes]
    left_s: float = PATIENCE_S
    _stolen: list[float] = field(default_factory=list)

    @property
    def stolen(self) -> float:
        """The mean of what was stolen of all that was measured."""
        return fmean(self._stolen)

    def measure_undisturbed(self, measure: Callable[[], T]) -> MeasuredValue[T]:
        """Measure until it was quiet or patience ends; return the least disturbed attempt."""
        attempts: list[MeasuredValue[T]] = []
        while True:
            before, started_s = self.cpu_times(), time.monotonic()
            value = measure()
            attempts.append(MeasuredValue(value, *self.cpu_times().fractions_since(before)))
            if not attempts[-1].disturbed or self.left_s <= 0:
                least = min(attempts, key=lambda attempt: attempt.stolen)
                self._stolen.append(least.stolen)
                return least
            self.left_s -= time.monotonic() - started_s

    def pieces(self, measure: Callable[[int], T], steps: int, size: int) -> list[MeasuredValue[T]]:
        """Measure so many steps, `size` at a time, so that a disturbance costs one piece only."""
        return [
            self.measure_undisturbed(partial(measure, min(size, steps - first)))
            for first in range(0, steps, size)
        ]


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"host": description(), "software": software()}))
