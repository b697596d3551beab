"""Public measurements of GPUs: calls that were timed, steps and passes that were measured."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from models.gpu_step.channels_last import TwoLayouts
from models.gpu_step.collectives import TIMED
from models.gpu_step.device import Device
from models.gpu_step.gpu_time import Timing
from models.gpu_step.scaling import Scaling
from models.gpu_step.step import StepWork
from networks.gpu_steps import GpuStep
from warehouse.records import Optimizer, Precision

NO_TRACE = GpuStep((), (), (), 0, 0, 0, ())


@dataclass(frozen=True)
class MeasuredStep:
    """A training step, or passes of one, that were measured on a GPU, and what it asks of it.

    Passes have `NO_TRACE`; `mode` of these is `inf` where nothing goes backward, `published_us` are
    forecasts of others. `gpu_us` is the sum of profiled operators; None: it was not profiled.
    `step_us` is the mean of steps in a loop, `synchronised_us` that of steps that were waited for
    one by one; elsewhere the median of those who measured the same; 0: nobody else did.
    `peak_bytes` PyTorch allocated, `shown_bytes` nvidia-smi showed; None: nobody looked.
    `accumulate`: gradients of so many passes are added to each other, or 2 where they are never
    zeroed. `copied_us`: the host waits for the batch to be copied from memory that is not pinned.
    `is_plain`: a loop of PyTorch's own, whose host is like others.
    """

    source: str
    network: str
    family: str
    batch: int
    device: Device
    work: StepWork
    step_us: float
    mode: str = "train"
    size: int = 0
    precision: Precision = "float32"
    optimizer: Optimizer = "sgd"
    memory_format: str = "contiguous"
    trace: GpuStep = NO_TRACE
    synchronised_us: float = 0.0
    peak_bytes: int | None = None
    gpu_us: float | None = None
    shown_bytes: int | None = None
    accumulate: int = 1
    is_plain: bool = True
    copied_us: float = 0.0
    published_us: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Speedup:
    """How many times as many samples a second half precision trains.

    `full` and `half` are a pass each, with the samples of one.
    """

    network: str
    device: Device
    full: tuple[StepWork, int]
    half: tuple[StepWork, int]
    measured: float


@dataclass(frozen=True)
class Measurements:
    """All of it."""

    timings: tuple[Timing, ...]
    steps: tuple[MeasuredStep, ...]
    passes: tuple[MeasuredStep, ...]
    speedups: tuple[Speedup, ...] = ()
    collectives: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=TIMED))
    scalings: tuple[Scaling, ...] = ()
    elsewhere: tuple[MeasuredStep, ...] = ()
    """Steps of networks whose operators nobody timed where they were measured."""
    layers: tuple[MeasuredStep, ...] = ()
    kernels: tuple[Timing, ...] = ()
    both_layouts: tuple[TwoLayouts, ...] = ()
