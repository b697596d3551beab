"""How wrong are forecasts of steps on GPUs? From `data/public` alone, by what was left out of fits.

"Left out" means: no operator's time, no time of the host and no width of an interval is of what is
judged. Devices are left out with all boards of their chip.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

import polars as pl

from benchmarks.contract import Benchmark, Outcome
from benchmarks.gpu_figures import (
    Figure,
    figure,
    floor_of,
    gpu_errors,
    gpu_figure,
    mean,
    step_errors,
    step_figure,
)
from benchmarks.gpu_layouts import layouts
from benchmarks.gpu_memory import tracked
from benchmarks.gpu_scaling import collectives, scaling
from benchmarks.gpu_sources import (
    elsewhere,
    intervals,
    kernels,
    memory_of,
    passes_of_sources,
    speedups,
)
from models.gpu_step import collectives as collective_times
from models.gpu_step import gpu_time
from models.gpu_step.collectives import Collectives
from models.gpu_step.device import boards
from models.gpu_step.gpu_time import GpuTime
from models.gpu_step.judged_steps import (
    JudgedStep,
    fit_hosts,
    fits_without_devices,
    judged,
    judged_devices,
    judged_elsewhere,
    judged_families,
    judged_passes,
    simulated,
)
from models.gpu_step.measurements import Measurements
from models.gpu_step.own_times import OwnTimes
from models.gpu_step.public_measurements import read_measurements
from models.gpu_step.public_rows import rows_by_set
from warehouse.home import CHECKOUT
from warehouse.records import BadInput
from warehouse.sets import kept_runs, kept_tables, sets_below

_CNNS = ("resnet", "efficientnet", "mobilenet", "densenet")
_NETWORKS = (("transformers", False, "20 %"), ("CNNs", True, ""))
_PRECISIONS = ("float32", "bfloat16")
_BUSY = 0.9
_NODE_TYPES = 20
_TABLES = ("run", "source", "external")
_BOARD = "h100"
_TRACES = (1, 3, 10)
_EVERY = 4
"""Of sets of traces, each so many'th counts, to be done in a quarter of the time."""


def measure(folder: Path, progress: Callable[[str], None] = lambda _: None) -> Outcome:
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
    known = collective_times.fit(measured.collectives)
    rows = [
        *figures(measured, families, times, known),
        *layouts(measured, rows_by_set(tables), times, known),
    ]
    return Outcome(
        pl.DataFrame([row for row in rows if row.n]),
        (
            f"{len(families)} of {len(measured.steps)} steps of gpu_h100 have a forecast.",
            f"One of the largest network, on {_NODE_TYPES} devices, takes "
            f"{forecast_ms(measured, times):.0f} ms.",
        ),
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
    measured: Measurements, families: Sequence[JudgedStep], times: GpuTime, known: Collectives
) -> Iterator[Figure]:
    """Yield all figures but those of layouts.

    Args:
        measured: what judges.
        families: steps as forecast without their own.
        times: fitted to all timings.
        known: fitted to all collectives.
    """
    for precision in _PRECISIONS:
        group = [each for each in families if each.measured.precision == precision]
        yield gpu_figure(f"gpu_h100, families left out: GPU time, {precision}", group, "10 %")
    yield from _steps(families)
    alone = tuple(timing for timing in measured.timings if timing.device.name == _BOARD)
    of_h100 = judged_families(Measurements(alone, measured.steps, ()))
    what = "the same, fits to the H100's timings alone: step"
    yield figure(what, step_errors(of_h100), "15 %")
    fit_without = fits_without_devices(measured)
    passes, steps = judged_devices(measured, fit_without)
    for precision, (what, is_cnn, goal) in product(_PRECISIONS, _NETWORKS):
        group = [
            each
            for each in steps
            if (each.measured.device.name, each.measured.precision) == (_BOARD, precision)
            and (each.measured.family in _CNNS) == is_cnn
        ]
        yield gpu_figure(f"H100 left out: GPU time of {what}, {precision}", group, goal)
        words = f"H100 left out: step of {what}, {precision}"
        yield figure(words, step_errors(group), goal)
    what = "each device left out, as `predict` quotes of data sheets: passes and steps"
    yield figure(what, step_errors([*passes, *steps]))
    yield from passes_of_sources(measured, passes, times)
    yield from speedups(measured.speedups, times)
    layers = [judged_passes(each, fit_without(each.device.name)) for each in measured.layers]
    yield step_figure("Sailor, each device left out: layers", layers, "12 %")
    yield from kernels(measured.kernels, times)
    others = judged_elsewhere(measured, times)
    yield from elsewhere(others)
    yield from own_traces(measured, fit_without(_BOARD))
    seen = [step for step in measured.steps if step.peak_bytes is not None]
    errors = [memory_of(step).allocated_bytes / (step.peak_bytes or 1) - 1 for step in seen]
    yield figure("gpu_h100: peak memory", errors, "10 %, largest 25 %")
    yield from tracked([step for step in measured.steps if step.source == "gpu_h100"])
    yield from intervals(families, [*passes, *steps], others)
    if measured.scalings:
        yield from collectives(measured.collectives)
        yield from scaling(measured.scalings, known)


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
        larger = mean(
            max(each.step.host_us, each.step.gpu_us) / each.measured.step_us - 1 for each in steps
        )
        yield figure(
            f"gpu_h100, families left out: {what}",
            step_errors(steps),
            goal,
            floor_of(steps),
            f"larger of both {larger:.1f} %",
        )


def _is_busy(judged: JudgedStep) -> bool:
    busy_us = judged.measured.gpu_us
    return busy_us is not None and busy_us >= _BUSY * judged.measured.step_us


def own_traces(measured: Measurements, public: GpuTime) -> Iterator[Figure]:
    """Yield how wrong the H100 by its data sheet is with traces of networks, beside without.

    Steps are of networks beside 1, 3 and 10 traced ones, and of traced ones themselves. A trace is
    the operators of both profiled steps of a network, in float32 and bfloat16. `public` is fitted
    without the H100.
    """
    steps = [step for step in measured.steps if step.device.name == _BOARD]
    traced = [each for each in measured.timings if each.device.name == _BOARD and each.family]
    names = sorted({timing.family for timing in traced} & {step.family for step in steps})
    host = fit_hosts((*steps, *measured.elsewhere), public).of(steps[0].source)
    forecasts = judged(steps, OwnTimes(public), host)
    before = {id(step): each for step, each in zip(steps, forecasts, strict=True)}

    def figures(traces: int, is_same: bool, sets: Sequence[Sequence[str]]) -> Iterator[Figure]:
        known: list[JudgedStep] = []
        corrected: list[JudgedStep] = []
        for chosen in sets:
            own = OwnTimes(public, [each for each in traced if each.family in chosen])
            asked = [step for step in steps if (step.family in chosen) == is_same]
            known += [before[id(step)] for step in asked]
            corrected += judged(asked, own, host)
        whose = "the same network" if is_same else "other networks"
        what = f"H100 left out, {traces} own trace{'s' * (traces > 1)}: {whose}"
        for part, errors in (("GPU time", gpu_errors), ("step", step_errors)):
            beside = f"without {mean(errors(known)):.1f} %"
            yield figure(f"{what}, {part}", errors(corrected), beside=beside)

    for count in _TRACES:
        starts = range(0, len(names), _EVERY)
        sets = [[names[(start + i) % len(names)] for i in range(count)] for start in starts]
        yield from figures(count, False, sets)
    yield from figures(1, True, [[name] for name in names])


def forecast_ms(measured: Measurements, times: GpuTime) -> float:
    """Return the milliseconds of processor time that a step takes on 20 devices.

    That is the traced step with the most operators.
    """
    step = max(measured.steps, key=lambda step: len(step.work.works))
    host = fit_hosts((*measured.steps, *measured.elsewhere), times).middle
    started = time.process_time()
    for us in times.us(step.work.works, boards()[:_NODE_TYPES]):
        simulated(step.work, us, host)
    return 1e3 * (time.process_time() - started)


BENCHMARK = Benchmark(
    "How wrong forecasts of steps on GPUs are, by public measurements left out of their own fits.",
    "Reads data/public alone; two minutes of processor time, half of them PyTorch's MemTracker. "
    "Errors are means of sizes, percent; the floor is how far repeated measurement is apart.",
    lambda _, progress: measure(CHECKOUT / "data" / "public", progress),
)
