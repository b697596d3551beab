"""How wrong are steps of networks that are divided among GPUs?

GPT-2 stands for Megatron's GPT and for MPT; how it stands for them (one kernel of GELU, no dropout,
eager attention) was chosen while looking at these rows. What is judged is in no fit, nor how its
source scales.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from benchmarks.gpu_figures import Figure, figure, mean
from models.gpu_step.collectives import Collectives, Topology
from models.gpu_step.device import Device, devices
from models.gpu_step.gpu_time import GpuTime
from models.gpu_step.host_time import HostTime
from models.gpu_step.judged_steps import fit_hosts
from models.gpu_step.layout import Layout, blocks_of, divided
from models.gpu_step.measurements import Measurements
from models.gpu_step.parallel_steps import AloneStep, Parallel, together
from models.gpu_step.public_rows import RowsBySet, traces_of
from models.gpu_step.scaling import fit_straggling
from models.gpu_step.step import step_work
from networks.gpu_steps import GpuStep, Operator
from warehouse.records import Optimizer, Precision

_WORDS = 1024
"""Of a sample of vTrain."""
_SIDES = 4
"""Of a tensor of attention: batch, heads, words and size of a head."""
_PASSES = 2
"""Of which those of a step are as many times as long."""
_GPUS = 8
"""Of a node, of all sources."""
_LINK_BPS = 300e9
_NETWORK_BPS = {"internevo": 100e9, "mpt_training_a100": 200e9}
"""Of a node: InternEvo names four cards of 200 Gb/s, MPT's table 1,600 Gb/s."""


@dataclass(frozen=True)
class MeasuredLayout:
    """A step, traced whole, on the GPUs of a layout.

    `traced`: what tells traces apart. `layers`: how many it has, where that is not as traced.
    """

    source: str
    network: str
    device: Device
    traced: Any
    trace: GpuStep
    layers: int
    layout: Layout
    precision: Precision
    optimizer: Optimizer
    links: Topology
    step_s: float


def measured_layouts(rows: RowsBySet) -> Iterator[MeasuredLayout]:
    """Yield steps of vTrain, InternEvo and MPT."""
    traces = traces_of(rows["vtrain", "layout_traces"])
    traces |= traces_of(rows["internevo", "traces"])
    for row in rows["vtrain", "iterations"]:
        name = "megatron_gpt?weights=float16?checkpointed=1"
        of_gpt = _fused(traces[name, _WORDS, row["batch"], "float16"])
        replicas = row["gpus"] // (row["tensor"] * row["stages"])
        micro_batches = row["global_batch"] // (row["batch"] * replicas)
        layout = Layout(row["tensor"], row["stages"], 1, replicas, micro_batches=micro_batches)
        yield _measured("vtrain", row, of_gpt, row["layers"], layout, row["value"] / 1e3)
    for row in rows["internevo", "layouts"]:
        trace = traces.get(("internlm_7b?weights=bfloat16", 2048, row["batch"], "bfloat16"))
        replicas = row["gpus"] // row["tensor"]
        shards = replicas if row["shards"] < 0 else min(row["shards"], replicas)
        layout = Layout(row["tensor"], 1, 1, replicas, shards, 1, row["accumulate"])
        if trace is not None:
            tokens = 2048 * row["batch"] * row["accumulate"]
            step_s = tokens / row["tensor"] / row["value"]
            yield _measured("internevo", row, trace, 0, layout, step_s)
    for row in rows["mpt", "mpt_training_a100"]:
        how = "?checkpointed=1" if row["checkpointing"] == "True" else ""
        name = f"mpt_{row['network']}?weights=bfloat16{how}"
        trace = traces.get((name, row["sequence_length"], row["batch"], "bfloat16"))
        layout = Layout(1, 1, 1, row["gpus"], row["gpus"], 3, row["accumulate"])
        if trace is not None:
            step_s = row["tokens"] / row["value"]
            yield _measured("mpt_training_a100", row, trace, 0, layout, step_s)


def _fused(trace: GpuStep) -> GpuStep:
    """Return a step of Megatron: attention is scaled and masked in the kernel of its softmax.

    Its products read queries, keys and values where they are, and nothing is copied for them.
    """

    def in_a_kernel(operator: Operator) -> bool:
        shape = operator.outputs[0].shape if operator.outputs else ()
        is_square = shape[-2:] == (_WORDS, _WORDS) and len(shape) == _SIDES
        is_copy = operator.name == "clone" and len(shape) == _SIDES and shape[1] != _WORDS
        return is_copy or (is_square and operator.name in ("mul", "add"))

    return replace(
        trace,
        operators=tuple(
            replace(each, view=True) if in_a_kernel(each) else each for each in trace.operators
        ),
    )


def _measured(
    source: str, row: Mapping[str, Any], trace: GpuStep, layers: int, layout: Layout, step_s: float
) -> MeasuredLayout:
    network = row.get("network") or source
    full = tuple(replace(each, dtype="float32") for each in trace.parameters)
    name = {"a100_40gb": "NVIDIA A100-SXM4-40GB", "a100_80gb": "NVIDIA A100-SXM4-80GB"}
    nodes = max(layout.ranks // _GPUS, 1)
    links = Topology(layout.ranks // nodes, nodes, _LINK_BPS, _NETWORK_BPS.get(source, 1e9))
    return MeasuredLayout(
        source,
        network,
        devices()[name.get(row["device"], row["device"])],
        (network, row["batch"], len(trace.order)),
        replace(trace, parameters=full),
        layers,
        layout,
        "float16" if source == "vtrain" else "bfloat16",
        "adam" if source == "vtrain" else "adamw",
        links,
        step_s,
    )


def layouts(
    measured: Measurements, rows: RowsBySet, times: GpuTime, known: Collectives
) -> Iterator[Figure]:
    """Yield steps of layouts, by source; beside them what passes and optimizer take by themselves.

    Args:
        measured: what is fitted to, without scalings of the source.
        rows: of `data/public`.
        times: of operators.
        known: times of collectives.
    """
    by_source: dict[str, list[MeasuredLayout]] = {}
    for each in measured_layouts(rows):
        by_source.setdefault(each.source, []).append(each)
    host = fit_hosts((*measured.steps, *measured.elsewhere), times).middle
    for source, steps in by_source.items():
        others = [each for each in measured.scalings if each.source != source]
        parallel = Parallel(known, fit_straggling(others, known), {})
        forecaster = _Forecaster(times, host, parallel)
        forecasts = [(forecaster.step_s(each), each.step_s) for each in steps]
        what, goal = _JUDGED[source]
        plain = mean(alone_s / step_s - 1 for (_, alone_s), step_s in forecasts)
        errors = [forecast_s / step_s - 1 for (forecast_s, _), step_s in forecasts]
        yield figure(what, errors, goal, beside=f"no exchange, no bubble {plain:.1f} %")


_JUDGED = {
    "vtrain": (
        "vTrain left out: iterations of GPT, tensor, data and pipeline parallel on 2 to 8 A100",
        "12 %",
    ),
    "internevo": (
        "InternEvo left out: steps of 7B on 8 to 1,024 A100, ZeRO-1, one or two tensor ranks",
        "12 %",
    ),
    "mpt_training_a100": (
        "mpt_training_a100: sharded steps of 125M to 70B on 8 to 128 A100, its scaling left out",
        "10 %",
    ),
}


class _Forecaster:
    """Forecasts of measured layouts; equal parts of a step are timed once."""

    def __init__(self, times: GpuTime, host: HostTime, parallel: Parallel) -> None:
        self._times, self._host, self._parallel = times, host, parallel
        self._parts: dict[tuple[Any, ...], tuple[GpuStep, AloneStep]] = {}

    def step_s(self, measured: MeasuredLayout) -> tuple[float, float]:
        """Return seconds of a step, and of passes and optimizer of its GPU alone."""
        layout, network = measured.layout, blocks_of(measured.trace)
        layers = measured.layers or network.layers
        part, alone = self._part(measured, layout.stages, layers)
        _, whole = self._part(measured, 1, layers)
        alone = alone.of_passes(layout.micro_batches, _PASSES)
        forecast = together(
            alone,
            whole.of_passes(layout.micro_batches, _PASSES),
            part,
            replace(network, layers=layers) if layout.is_divided else None,
            layout,
            measured.precision,
            measured.links,
            self._parallel,
        )
        return forecast.step_s, alone.step.step_us * 1e-6

    def _part(
        self, measured: MeasuredLayout, stages: int, layers: int
    ) -> tuple[GpuStep, AloneStep]:
        layout, trace, device = measured.layout, measured.trace, measured.device
        key = measured.traced, device.name, layout.tensor, stages, layers
        if key not in self._parts:
            shape = Layout(layout.tensor, stages)
            part = divided(trace, shape, blocks_of(trace), ceil(layers / stages))
            work = step_work(part, measured.optimizer, measured.precision, _PASSES)
            us = self._times.us(work.works, [device])[0]
            self._parts[key] = part, AloneStep.of(work, us, self._host)
        return self._parts[key]
