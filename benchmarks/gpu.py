"""How wrong are forecasts of steps on GPUs? From `data/public` alone, by what was left out of fits.

"Left out" means: no operator's time, no time of the host and no width of an interval is of what is
judged. Devices are left out with all boards of their chip.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, log
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.contract import Benchmark, Outcome, Say
from benchmarks.gpu_own_traces import mended
from models.gpu_step import collectives, gpu_time
from models.gpu_step.collectives import Collectives, Topology
from models.gpu_step.data_parallel import BACKWARD_SHARE
from models.gpu_step.device import boards
from models.gpu_step.gpu_time import GpuTime, Timing, roofline_us
from models.gpu_step.judged_steps import (
    Forecasts,
    JudgedStep,
    fit_hosts,
    half_width,
    judged_devices,
    judged_elsewhere,
    judged_families,
    judged_layers,
    passes_us,
    simulated,
    without_families,
)
from models.gpu_step.measurements import (
    MeasuredPasses,
    MeasuredStep,
    Measurements,
    Speedup,
)
from models.gpu_step.memory import peak_memory
from models.gpu_step.public_measurements import read_measurements
from models.gpu_step.scaling import OPTIMIZER_SHARE, Scaling, judged_sources
from models.srift.exchange import exchange_s, wire_factor
from warehouse.home import CHECKOUT
from warehouse.records import BadInput
from warehouse.sets import kept_runs, kept_tables, sets_below

_CNNS = ("resnet", "efficientnet", "mobilenet", "densenet")
_BUSY = 0.9
_NODE_TYPES = 20
_TABLES = ("run", "source", "external")


@dataclass(frozen=True)
class Figure:
    """A row of the table: `error` and `beside` are means of absolute errors, percent.

    `floor` is how far repeated measurement of the same is apart; `beside` is another's error.
    """

    judged: str
    n: int
    error: float
    median: float
    largest: float
    goal: str
    floor: float | None = None
    beside: str = ""


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
    measured = read_public(folder)
    progress(f"read {len(measured.timings):,} timed calls and {len(measured.steps)} steps")
    families = judged_families(measured)
    progress("forecast steps of families that were left out")
    times = gpu_time.fit(measured.timings, measured.both_layouts)
    return GpuReport(
        tuple(figures(measured, families, times)),
        len(families),
        len(measured.steps),
        forecast_ms(measured, times),
    )


def read_public(folder: Path) -> Measurements:
    """Return the measurements of folders of sets; the history is not asked.

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
    return read_measurements({name: pl.concat(tables) for name, tables in frames.items()})


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
    yield _figure(
        "the same, fits to the H100's timings alone: step",
        [exp(judged.error) - 1 for judged in judged_families(only)],
        "15 %",
    )
    by_device, steps = judged_devices(measured)
    yield from _device_left_out(
        [judged for judged in steps if judged.measured.device.name == "h100"]
    )
    yield _figure(
        "each device left out, as `predict` quotes of data sheets: passes and steps",
        [us / passes.passes_us - 1 for passes, us in by_device]
        + [exp(judged.error) - 1 for judged in steps],
    )
    yield from _passes(_of_source("neusight", by_device), _model_left_out(measured))
    yield from _regnets(_of_source("pycls", by_device), measured, times)
    yield from _timm(_of_source("timm", by_device))
    yield from _speedups(measured.speedups, times)
    yield from _layers(measured)
    yield from _kernels(measured.kernels, times)
    yield from _elsewhere(judged_elsewhere(measured, times))
    yield from _own_traces(measured)
    yield _memory(measured.steps)
    yield from _intervals(families, by_device, steps)
    if measured.scalings:
        yield from _collectives(measured.collectives)
        yield from _scaling(measured)


def _figure(
    judged: str,
    errors: Sequence[float],
    goal: str = "",
    floor: float | None = None,
    beside: str = "",
) -> Figure:
    """Return a row of signed relative errors."""
    sizes = 100 * np.abs(np.array(errors))
    mean, median, largest = float(sizes.mean()), float(np.median(sizes)), float(sizes.max())
    return Figure(judged, len(errors), mean, median, largest, goal, floor, beside)


def _mean(errors: Iterable[float]) -> float:
    return 100 * float(np.mean(np.abs(list(errors))))


def _gpu_time(families: Sequence[JudgedStep], goal: str) -> Iterator[Figure]:
    profiled = [judged for judged in families if judged.measured.gpu_us is not None]
    for precision in ("float32", "bfloat16"):
        steps = [judged for judged in profiled if judged.measured.precision == precision]
        plain = [_roofline(judged.measured) / (judged.measured.gpu_us or 1) - 1 for judged in steps]
        yield _figure(
            f"gpu_h100, families left out: GPU time, {precision}",
            [judged.step.gpu_us / (judged.measured.gpu_us or 1) - 1 for judged in steps],
            goal,
            beside=f"roofline {_mean(plain):.1f} %",
        )


def _roofline(step: MeasuredStep) -> float:
    us = roofline_us(step.work.works, [step.device])[0]
    return float(us @ step.work.calls)


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
        larger_errors = [judged.larger_of_both_us / judged.measured.step_us - 1 for judged in steps]
        floor = [judged.measured.synchronised_us / judged.measured.step_us - 1 for judged in steps]
        yield _figure(
            f"gpu_h100, families left out: {what}",
            [exp(judged.error) - 1 for judged in steps],
            goal,
            _mean(floor),
            f"larger of both {_mean(larger_errors):.1f} %",
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
            plain = [_roofline(judged.measured) / us - 1 for judged, us in profiled]
            goal = "20 %" if what == "transformers" else ""
            yield _figure(
                f"H100 left out: GPU time of {what}, {precision}",
                [judged.step.gpu_us / us - 1 for judged, us in profiled],
                goal,
                beside=f"roofline {_mean(plain):.1f} %",
            )
            yield _figure(
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
            yield _beside_roofline(f"pycls, {what}: passes of RegNets, float32", forecasts)


def _timm(forecasts: Forecasts) -> Iterator[Figure]:
    """Yield steps on a GPU of which nobody timed an operator."""
    for what, is_vit in (("CNNs", False), ("ViTs", True)):
        group = [
            (passes, us) for passes, us in forecasts if passes.model.startswith("vit") == is_vit
        ]
        if group:
            yield _beside_roofline(
                f"timm, RTX 3090 by its data sheet: steps of {what}, float16", group
            )


def _passes(by_device: Forecasts, by_model: Forecasts) -> Iterator[Figure]:
    for what, forecasts, goal in (("device", by_device, "12 %"), ("model", by_model, "8 %")):
        for mode, words in (("inf", "inference"), ("train", "training on V100")):
            of_mode = [(passes, us) for passes, us in forecasts if passes.mode == mode]
            rows = [
                (us / passes.passes_us - 1, published_us / passes.passes_us - 1)
                for passes, us in of_mode
                if (published_us := passes.published_us.get("neusight"))
            ]
            published = ""
            if rows:
                nearer = sum(abs(error) < abs(published_error) for error, published_error in rows)
                published_percent = _mean(error for _, error in rows)
                published = (
                    f", NeuSight's own {published_percent:.1f} % (n = {len(rows)}; "
                    f"ours is nearer in {nearer} rows)"
                )
            judged = f"neusight, each {what} left out: {words}"
            yield _beside_roofline(judged, of_mode, goal, published)


def _beside_roofline(judged: str, forecasts: Forecasts, goal: str = "", others: str = "") -> Figure:
    """Return how wrong forecasts of passes are, beside peaks and bandwidth alone, and `others`."""
    plain = [_passes_roofline(passes) / passes.passes_us - 1 for passes, _ in forecasts]
    errors = [us / passes.passes_us - 1 for passes, us in forecasts]
    return _figure(judged, errors, goal, beside=f"roofline {_mean(plain):.1f} %{others}")


def _passes_roofline(passes: MeasuredPasses) -> float:
    counts = np.array([count for _, count in passes.works])
    return float(roofline_us([work for work, _ in passes.works], [passes.device])[0] @ counts)


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
            yield _figure(
                what, [forecast(speedup) / speedup.measured - 1 for speedup in group], goal
            )


def _layers(measured: Measurements) -> Iterator[Figure]:
    """Yield layers of Sailor, each by a fit without its device."""
    forecasts = judged_layers(measured)
    if forecasts:
        yield _beside_roofline("Sailor, each device left out: layers", forecasts, "12 %")


def _kernels(kernels: Sequence[Timing], times: GpuTime) -> Iterator[Figure]:
    """Yield operators on an A100 of a source that no fit has seen."""
    for what, is_product in (("products", True), ("other operators", False)):
        group = [each for each in kernels if (each.work.kind == "matmul") == is_product]
        if group:
            errors = [times.us([each.work], [each.device])[0, 0] / each.us - 1 for each in group]
            yield _figure(f"FlagPerf left out: {what}", errors)


_SOURCES: tuple[tuple[str, str, Callable[[MeasuredStep], bool], str], ...] = (
    ("milabench left out: step", "milabench", lambda _: True, "12 %"),
    (
        "milabench left out: step, batches above 1",
        "milabench",
        lambda step: step.batch > 1,
        "",
    ),
    (
        "milabench left out: step, channels_last",
        "milabench",
        lambda step: step.memory_format != "contiguous",
        "",
    ),
    (
        "milabench left out: step, ConvNeXt and RegNet",
        "milabench",
        lambda step: step.family in ("convnext", "regnet"),
        "12 %",
    ),
    ("Qwen left out: step of LoRA and full fine-tuning", "qwen", lambda _: True, "20 %"),
)


def _elsewhere(steps: Sequence[JudgedStep]) -> Iterator[Figure]:
    """Yield steps, and their memory, of sources without operators of their own."""
    for what, source, is_meant, goal in _SOURCES:
        group = [
            judged
            for judged in steps
            if judged.measured.source == source and is_meant(judged.measured)
        ]
        if not group:
            continue
        errors = [exp(judged.error) - 1 for judged in group]
        floor = None
        if source == "milabench":
            floor = _mean(
                each.measured.synchronised_us / each.measured.step_us - 1 for each in group
            )
        plain = [_roofline(judged.measured) / judged.measured.step_us - 1 for judged in group]
        yield _figure(what, errors, goal, floor, f"roofline {_mean(plain):.1f} %")
    for source, goal in (("milabench", "8 %"), ("qwen", "12 %")):
        shown = [judged.measured for judged in steps if judged.measured.source == source]
        if shown:
            errors = [step.needed_bytes / step.shown_bytes - 1 for step in shown]
            yield _figure(f"{source}: memory as nvidia-smi shows it", errors, goal)


def _own_traces(measured: Measurements) -> Iterator[Figure]:
    """Yield how wrong the H100 by its data sheet is with traces of networks, beside without."""
    for each in mended(measured):
        if not each.after:
            continue
        whose = "the same network" if each.is_same else "other networks"
        what = f"H100 left out, {each.traces} own trace{'s' * (each.traces > 1)}: {whose}"
        (gpu, gpu_before), (step, step_before) = (
            [_errors(steps, is_gpu) for steps in (each.after, each.before)]
            for is_gpu in (True, False)
        )
        yield _figure(f"{what}, GPU time", gpu, beside=f"without {_mean(gpu_before):.1f} %")
        yield _figure(f"{what}, step", step, beside=f"without {_mean(step_before):.1f} %")


def _errors(steps: Sequence[JudgedStep], is_gpu: bool) -> list[float]:
    if not is_gpu:
        return [exp(judged.error) - 1 for judged in steps]
    return [judged.step.gpu_us / us - 1 for judged in steps if (us := judged.measured.gpu_us)]


def _memory(steps: Sequence[MeasuredStep]) -> Figure:
    errors = []
    for step in steps:
        most = peak_memory(step.trace, step.optimizer).allocated_bytes
        errors.append(most / step.peak_bytes - 1)
    return _figure("gpu_h100: peak memory", errors, "10 %, largest 25 %")


def _intervals(
    families: Sequence[JudgedStep], by_device: Forecasts, steps: Sequence[JudgedStep]
) -> Iterator[Figure]:
    """Yield which share of intervals of 90 % does not hold; their goal is 5 to 15 %.

    The width for a family, and for a device, comes from errors of the others.
    """
    by_family = {
        family: [judged.error for judged in families if judged.measured.family == family]
        for family in sorted({judged.measured.family for judged in families})
    }
    yield _missed("steps of families left out", by_family)
    of_device: dict[str, list[float]] = {}
    for passes, us in by_device:
        of_device.setdefault(passes.device.name, []).append(log(us / passes.passes_us))
    for step in steps:
        of_device.setdefault(step.measured.device.name, []).append(step.error)
    yield _missed("passes and steps of devices left out", of_device)


def _missed(what: str, errors: dict[str, list[float]]) -> Figure:
    outside, n = 0, 0
    for group, group_errors in errors.items():
        others = [error for name, rest in errors.items() if name != group for error in rest]
        width = half_width(others)
        outside += sum(abs(error) > width for error in group_errors)
        n += len(group_errors)
    share = 100 * outside / n
    return Figure(f"intervals of 90 %, {what}: outside", n, share, share, share, "5 to 15 %")


def _collectives(timed: pl.DataFrame) -> Iterator[Figure]:
    """Yield all-reduces on numbers of nodes that a fit had not seen, and all-gathers."""
    reductions = timed.filter(collective="all_reduce")
    several = reductions.group_by("cluster").agg(pl.col("nodes").n_unique())
    clusters = several.filter(pl.col("nodes") > 1)["cluster"].to_list()
    errors, rated = list[float](), list[float]()
    for cluster in clusters:
        for nodes in sorted(set(reductions.filter(cluster=cluster)["nodes"])):
            is_left_out = (pl.col("cluster") == cluster) & (pl.col("nodes") == nodes)
            fitted = collectives.fit(reductions.filter(~is_left_out))
            for row in reductions.filter(is_left_out).to_dicts():
                error, by_rating = _collective_errors(row, fitted)
                errors.append(error)
                rated.append(by_rating)
    yield _figure(
        "all-reduces of estimate-train-time, each number of nodes left out",
        errors,
        "15 %",
        beside=f"rated bandwidth {_mean(rated):.1f} %",
    )
    fitted = collectives.fit(reductions)
    gathers = [
        _collective_errors(row, fitted)[0]
        for row in timed.filter(collective="all_gather").to_dicts()
    ]
    yield _figure("all-gathers there, as halves of all-reduces", gathers)


def _collective_errors(row: Mapping[str, Any], fitted: Collectives) -> tuple[float, float]:
    """Return relative errors of a forecast, and of bytes over rated bandwidth."""
    topology = Topology(row["devices"], row["nodes"], row["link_bps"], row["network_bps"])
    ways = 2 if row["collective"] == "all_reduce" else 1
    operation = fitted.all_reduce_s if ways == 2 else fitted.all_gather_s
    sizes_bytes = np.array([row["size_bytes"]])
    seconds = float(operation(sizes_bytes, topology, row["cluster"])[0])
    ranks, slowest_bps = topology.ranks, topology.link_bps
    if topology.nodes > 1:
        slowest_bps = min(slowest_bps, topology.network_bps)
    rated_s = ways * (ranks - 1) / ranks * row["size_bytes"] / slowest_bps
    return seconds / row["seconds"] - 1, rated_s / row["seconds"] - 1


_SCALINGS: Mapping[tuple[str, bool], tuple[str, str]] = {
    ("ddp_step_time_sia", False): ("1 to 4 T4 of a node", "7 %"),
    ("tf_cnn_benchmarks_lambda", False): ("1 to 8 GPUs of a node, one process for all", "7 %"),
    ("ddp_step_time_sia", True): ("1 to 16 T4 of 2 to 4 nodes, TCP", "12 %"),
    ("mpt_training_a100", True): ("sharded, from 16 or 32 to 128 A100", "12 %"),
}
"""What sources tell of, within a node and across nodes, and the goal."""


def _scaling(measured: Measurements) -> Iterator[Figure]:
    """Yield how wrong scaling is, of sources that a fit of interference had not seen.

    Beside it: linear scaling, the simulation of Srift as published over the same bandwidths, and
    passes and exchanges one after the other.
    """
    known = collectives.fit(measured.collectives.filter(collective="all_reduce"))
    judged_scalings = judged_sources(measured.scalings, known)
    for (source, is_across), (what, goal) in _SCALINGS.items():
        group = [
            judged
            for judged in judged_scalings
            if judged.scaling.source == source and (judged.scaling.more.nodes > 1) == is_across
        ]
        linear = _mean(1 / judged.scaling.factor - 1 for judged in group)
        beside = f"linear {linear:.1f} %"
        if all(judged.scaling.fewest.ranks == 1 for judged in group):
            srift = _mean(_srift_as_published(judged.scaling, known) for judged in group)
            serial = _mean(_one_by_one(judged.scaling, known) for judged in group)
            beside += f", Srift as published {srift:.1f} %, no overlap {serial:.1f} %"
        yield _figure(
            f"scaling, {source} left out: {what}",
            [exp(judged.error) - 1 for judged in group],
            goal,
            beside=beside,
        )


def _srift_as_published(scaling: Scaling, known: Collectives) -> float:
    """Return the error of SIM of Srift's section 4.3: each gradient is exchanged by itself.

    Gradients come at even intervals; exchanges and the backward pass do not disturb each other.
    """
    sizes_bytes = np.array(scaling.sizes_bytes[::-1])
    ready = np.arange(1, len(sizes_bytes) + 1) / len(sizes_bytes)
    backward_s = scaling.fewest_s * (1 - OPTIMIZER_SHARE) * BACKWARD_SHARE
    wire_bytes = sizes_bytes * wire_factor(scaling.more.ranks)
    bus_Bps = wire_bytes / known.all_reduce_s(sizes_bytes, scaling.more)
    cap_Bps = scaling.more.network_bps if scaling.more.nodes > 1 else inf
    starts, wire, bus = (each[None] for each in (ready * backward_s, wire_bytes, bus_Bps))
    end_s = float(exchange_s(starts, wire, bus, np.array([cap_Bps]))[0])
    return (scaling.fewest_s + max(end_s - backward_s, 0.0)) / scaling.more_s - 1


def _one_by_one(scaling: Scaling, known: Collectives) -> float:
    """Return the error of passes and one exchange of all gradients, one after the other."""
    sizes_bytes = np.array([sum(scaling.sizes_bytes)])
    exchange_s = float(known.all_reduce_s(sizes_bytes, scaling.more)[0])
    return (scaling.fewest_s + exchange_s) / scaling.more_s - 1


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
    "Reads data/public alone; half a minute. Errors are means of sizes, percent; the floor is how "
    "far repeated measurement is apart.",
    _measure,
)
