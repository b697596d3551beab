"""How wrong are forecasts of steps on GPUs? From `data/public` alone, by what was left out of fits.

"Left out" means: no operator's time, no time of the host and no width of an interval is of what is
judged. Devices are left out with all boards of their chip.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path

import polars as pl

from benchmarks.contract import Benchmark, Outcome, Say
from benchmarks.gpu_figures import Figure, beside_roofline, figure, mean, roofline
from benchmarks.gpu_layouts import layouts
from benchmarks.gpu_memory import tracked
from benchmarks.gpu_own_traces import own_traces
from benchmarks.gpu_scaling import collectives, scaling
from benchmarks.gpu_sources import elsewhere, intervals, kernels, layers, memory_of
from models.gpu_step import gpu_time
from models.gpu_step.device import boards
from models.gpu_step.gpu_time import GpuTime
from models.gpu_step.judged_steps import (
    Forecasts,
    JudgedStep,
    fit_hosts,
    judged_devices,
    judged_elsewhere,
    judged_families,
    passes_us,
    simulated,
    without_families,
)
from models.gpu_step.measurements import (
    MeasuredStep,
    Measurements,
    Speedup,
)
from models.gpu_step.public_measurements import read_measurements
from models.gpu_step.public_rows import rows_by_set
from warehouse.home import CHECKOUT
from warehouse.records import BadInput
from warehouse.sets import kept_runs, kept_tables, sets_below

_CNNS = ("resnet", "efficientnet", "mobilenet", "densenet")
_BUSY = 0.9
_NODE_TYPES = 20
_TABLES = ("run", "source", "external")


@dataclass(frozen=True)
class GpuReport:
    """All figures; `answered` of `asked` steps have a forecast, by fits without their family.

    `forecast_ms` is processor time of the step with the most operators, on 20 devices.
    """

    figures: tuple[Figure, ...]
    answered: int
    asked: int
    forecast_ms: float


def measure(folder: Path, progress: Callable[[str], None] = lambda _: None) -> GpuReport:
    """Judge forecasts by the public measurements of a folder.

    Raises:
        BadInput: sets are damaged, or there are none.
    """
    tables = public_tables(folder)
    measured = read_measurements(tables)
    progress(f"read {len(measured.timings):,} timed calls and {len(measured.steps)} steps")
    families = judged_families(measured)
    progress("forecast steps of families that were left out")
    times = gpu_time.fit(measured.timings, measured.both_layouts)
    by_layout = layouts(measured, rows_by_set(tables), times)
    return GpuReport(
        (*figures(measured, families, times), *by_layout),
        len(families),
        len(measured.steps),
        forecast_ms(measured, times),
    )


def public_tables(folder: Path) -> Mapping[str, pl.DataFrame]:
    """Return tables of folders of sets; the history is not asked.

    Raises:
        BadInput: sets are damaged, or there are none.
    """
    if not sets_below(folder):
        raise BadInput(f"{folder} holds no sets of public measurements; expected data/public")
    frames: dict[str, list[pl.DataFrame]] = {name: [] for name in _TABLES}
    for sets in sets_below(folder):
        for run in kept_runs(sets):
            for name, table in kept_tables(sets, run.run_id).items():
                if name in frames:
                    frames[name].append(pl.DataFrame(table))
    return {name: pl.concat(tables) for name, tables in frames.items()}


def figures(
    measured: Measurements, families: Sequence[JudgedStep], times: GpuTime
) -> Iterator[Figure]:
    """Yield all figures.

    Args:
        measured: what judges.
        families: steps as forecast without their own.
        times: fitted to all timings.
    """
    yield from _gpu_time(families, "10 %")
    yield from _steps(families)
    alone = [timing for timing in measured.timings if timing.device.name == "h100"]
    only = Measurements(tuple(alone), measured.steps, ())
    yield figure(
        "the same, fits to the H100's timings alone: step",
        [exp(judged.error) - 1 for judged in judged_families(only)],
        "15 %",
    )
    by_device, steps = judged_devices(measured)
    yield from _device_left_out(
        [judged for judged in steps if judged.measured.device.name == "h100"]
    )
    yield figure(
        "each device left out, as `predict` quotes of data sheets: passes and steps",
        [us / passes.passes_us - 1 for passes, us in by_device]
        + [exp(judged.error) - 1 for judged in steps],
    )
    yield from _passes(_of_source("neusight", by_device), _model_left_out(measured))
    yield from _regnets(_of_source("pycls", by_device), measured, times)
    yield from _timm(_of_source("timm", by_device))
    yield from _inference(by_device)
    yield from _speedups(measured.speedups, times)
    yield from layers(measured)
    yield from kernels(measured.kernels, times)
    others = judged_elsewhere(measured, times)
    yield from elsewhere(others)
    yield from own_traces(measured)
    yield _memory(measured.steps)
    yield from tracked([step for step in measured.steps if step.source == "gpu_h100"])
    yield from intervals(families, by_device, steps, others)
    if measured.scalings:
        yield from collectives(measured.collectives)
        yield from scaling(measured)


def _gpu_time(families: Sequence[JudgedStep], goal: str) -> Iterator[Figure]:
    profiled = [judged for judged in families if judged.measured.gpu_us is not None]
    for precision in ("float32", "bfloat16"):
        steps = [judged for judged in profiled if judged.measured.precision == precision]
        plain = [roofline(judged.measured) / (judged.measured.gpu_us or 1) - 1 for judged in steps]
        yield figure(
            f"gpu_h100, families left out: GPU time, {precision}",
            [judged.step.gpu_us / (judged.measured.gpu_us or 1) - 1 for judged in steps],
            goal,
            beside=f"roofline {mean(plain):.1f} %",
        )


def _steps(families: Sequence[JudgedStep]) -> Iterator[Figure]:
    chosen: tuple[tuple[str, Callable[[JudgedStep], bool], str], ...] = (
        ("step", lambda _: True, "15 %"),
        ("step, measured as 90 % busy", _is_busy, "8 %"),
        ("step, the GPU binds (as forecast)", lambda judged: judged.step.binds == "gpu", "8 %"),
        ("step, the host binds (as forecast)", lambda judged: judged.step.binds == "host", ""),
        ("step, channels_last", lambda judged: judged.measured.memory_format != "contiguous", ""),
    )
    for what, is_meant, goal in chosen:
        steps = [judged for judged in families if is_meant(judged)]
        if not steps:
            continue
        larger_errors = [
            max(judged.step.host_us, judged.step.gpu_us) / judged.measured.step_us - 1
            for judged in steps
        ]
        floor = [judged.measured.synchronised_us / judged.measured.step_us - 1 for judged in steps]
        yield figure(
            f"gpu_h100, families left out: {what}",
            [exp(judged.error) - 1 for judged in steps],
            goal,
            mean(floor),
            f"larger of both {mean(larger_errors):.1f} %",
        )


def _is_busy(judged: JudgedStep) -> bool:
    busy_us = judged.measured.gpu_us
    return busy_us is not None and busy_us >= _BUSY * judged.measured.step_us


def _device_left_out(steps: Sequence[JudgedStep]) -> Iterator[Figure]:
    """Yield the H100 by its data sheet alone; the host's times are those of its machine."""
    for precision in ("float32", "bfloat16"):
        for what in ("transformers", "CNNs"):
            group = [
                judged
                for judged in steps
                if (judged.measured.family in _CNNS) == (what == "CNNs")
                and judged.measured.precision == precision
            ]
            profiled = [(judged, us) for judged in group if (us := judged.measured.gpu_us)]
            plain = [roofline(judged.measured) / us - 1 for judged, us in profiled]
            goal = "20 %" if what == "transformers" else ""
            yield figure(
                f"H100 left out: GPU time of {what}, {precision}",
                [judged.step.gpu_us / us - 1 for judged, us in profiled],
                goal,
                beside=f"roofline {mean(plain):.1f} %",
            )
            yield figure(
                f"H100 left out: step of {what}, {precision}",
                [exp(judged.error) - 1 for judged in group],
                goal,
            )


def _model_left_out(measured: Measurements) -> Forecasts:
    """Return passes of neusight, each as forecast by a fit without the timings of its family."""
    forecasts = []
    neusight = [passes for passes in measured.passes if passes.source == "neusight"]
    for name in sorted({passes.family for passes in neusight}):
        times = gpu_time.fit(without_families(measured.timings, [name]))
        of_family = [passes for passes in neusight if passes.family == name]
        forecasts += [(passes, passes_us(passes, times)) for passes in of_family]
    return forecasts


def _of_source(source: str, forecasts: Forecasts) -> Forecasts:
    return [(passes, us) for passes, us in forecasts if passes.source == source]


def _regnets(left_out: Forecasts, measured: Measurements, times: GpuTime) -> Iterator[Figure]:
    """Yield passes of CNNs of which no fit has an operator, by fits with others' V100 or without.

    Three ResNets of the source state no batch. It does not say which board it had.
    """
    known = [
        (passes, passes_us(passes, times)) for passes in measured.passes if passes.source == "pycls"
    ]
    for what, forecasts in (("V100 left out", left_out), ("V100 timed by others", known)):
        if forecasts:
            yield beside_roofline(f"pycls, {what}: passes of RegNets, float32", forecasts)


def _timm(forecasts: Forecasts) -> Iterator[Figure]:
    """Yield steps on a GPU of which nobody timed an operator."""
    for what, is_vit in (("CNNs", False), ("ViTs", True)):
        group = [
            (passes, us) for passes, us in forecasts if passes.model.startswith("vit") == is_vit
        ]
        if group:
            yield beside_roofline(
                f"timm, RTX 3090 by its data sheet: steps of {what}, float16", group
            )


_LAYOUTS = {"nchw": "contiguous", "nhwc": "channels_last"}


def _inference(forecasts: Forecasts) -> Iterator[Figure]:
    """Yield forward passes on GPUs of which nobody timed an operator."""
    for layout, words in _LAYOUTS.items():
        of_layout = _of_source(f"timm_inference_{layout}", forecasts)
        for name in sorted({passes.device.name for passes, _ in of_layout}):
            group = [(passes, us) for passes, us in of_layout if passes.device.name == name]
            what = f"timm, {name} by its data sheet: inference of CNNs, float16, {words}"
            yield beside_roofline(what, group)


def _passes(by_device: Forecasts, by_model: Forecasts) -> Iterator[Figure]:
    for what, forecasts, goal in (("device", by_device, "12 %"), ("model", by_model, "8 %")):
        for mode, words in (("inf", "inference"), ("train", "training on V100")):
            of_mode = [(passes, us) for passes, us in forecasts if passes.mode == mode]
            published = "".join(_published(of_mode, name) for name in _PUBLISHED)
            judged = f"neusight, each {what} left out: {words}"
            yield beside_roofline(judged, of_mode, goal, published)


_PUBLISHED = {"neusight": "NeuSight's own", "habitat": "Habitat", "roofline": "its roofline"}
"""Forecasts that NeuSight's authors published of the same steps."""


def _published(of_mode: Forecasts, name: str) -> str:
    """Return how wrong published forecasts are of the same rows, and how often ours are nearer."""
    rows = [
        (us / passes.passes_us - 1, published_us / passes.passes_us - 1)
        for passes, us in of_mode
        if (published_us := passes.published_us.get(name))
    ]
    if not rows:
        return ""
    nearer = sum(abs(error) < abs(published_error) for error, published_error in rows)
    return (
        f", {_PUBLISHED[name]} {mean(error for _, error in rows):.1f} % (n = {len(rows)}; "
        f"ours is nearer in {nearer} rows)"
    )


def _speedups(speedups: Sequence[Speedup], times: GpuTime) -> Iterator[Figure]:
    def forecast(speedup: Speedup) -> float:
        before, after = (
            float(times.us(work.works, [speedup.device])[0] @ work.calls) / samples
            for work, samples in (speedup.full, speedup.half)
        )
        return before / after

    for network, what, goal in (
        (
            "bert_large",
            "half precision over float32 or TF32: BERT-large on A100 and V100 (LAMB, loss scaling)",
            "12 %",
        ),
        ("internlm_7b", "InternEvo: tokens/s with activations computed again over kept", "6 %"),
    ):
        group = [speedup for speedup in speedups if speedup.network.startswith(network)]
        if group:
            yield figure(
                what, [forecast(speedup) / speedup.measured - 1 for speedup in group], goal
            )


def _memory(steps: Sequence[MeasuredStep]) -> Figure:
    errors = [
        memory_of(step).allocated_bytes / step.peak_bytes - 1
        for step in steps
        if step.peak_bytes is not None
    ]
    return figure("gpu_h100: peak memory", errors, "10 %, largest 25 %")


def forecast_ms(measured: Measurements, times: GpuTime) -> float:
    """Return the milliseconds that times of a traced step on 20 devices take."""
    step = max(measured.steps, key=lambda step: len(step.work.works))
    several = boards()[:_NODE_TYPES]
    host = fit_hosts((*measured.steps, *measured.elsewhere), times).middle
    started = time.process_time()
    for us in times.us(step.work.works, several):
        simulated(step.work, us, host)
    return 1e3 * (time.process_time() - started)


def _measure(_: Mapping[str, int], progress: Say) -> Outcome:
    report = measure(CHECKOUT / "data" / "public", progress)
    return Outcome(
        pl.DataFrame(report.figures),
        (
            f"{report.answered} of {report.asked} steps of gpu_h100 have a forecast.",
            f"One of the largest network, on 20 devices, takes {report.forecast_ms:.0f} ms.",
        ),
    )


BENCHMARK = Benchmark(
    "How wrong forecasts of steps on GPUs are, by public measurements left out of their own fits.",
    "Reads data/public alone; a minute. Errors are means of sizes, percent; the floor is how "
    "far repeated measurement is apart.",
    _measure,
)
