"""How wrong are forecasts of sources that fits have not seen, and how many do intervals hold?"""

from collections.abc import Callable, Iterator, Sequence
from math import exp, log

from benchmarks.gpu_figures import Figure, beside_roofline, figure, mean, roofline
from models.gpu_step.gpu_time import GpuTime, Timing
from models.gpu_step.judged_steps import (
    Forecasts,
    JudgedCase,
    JudgedStep,
    cases_of,
    passes_elsewhere,
    past_errors,
)
from models.gpu_step.measurements import MeasuredStep, Measurements
from models.gpu_step.memory import Memory, peak_memory


def layers(measured: Measurements) -> Iterator[Figure]:
    """Yield layers of Sailor, each by a fit without its device."""
    forecasts = passes_elsewhere(measured, measured.layers)
    if forecasts:
        yield beside_roofline("Sailor, each device left out: layers", forecasts, "12 %")


def kernels(kernels: Sequence[Timing], times: GpuTime) -> Iterator[Figure]:
    """Yield operators on an A100 of a source that no fit has seen."""
    for what, is_product in (("products", True), ("other operators", False)):
        group = [each for each in kernels if (each.work.kind == "matmul") == is_product]
        if group:
            errors = [times.us([each.work], [each.device])[0, 0] / each.us - 1 for each in group]
            yield figure(f"FlagPerf left out: {what}", errors)


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


def elsewhere(steps: Sequence[JudgedStep]) -> Iterator[Figure]:
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
            floor = mean(
                each.measured.synchronised_us / each.measured.step_us - 1 for each in group
            )
        plain = [roofline(judged.measured) / judged.measured.step_us - 1 for judged in group]
        yield figure(what, errors, goal, floor, f"roofline {mean(plain):.1f} %")
    for source, goal in (("milabench", "8 %"), ("qwen", "12 %")):
        shown = [judged.measured for judged in steps if judged.measured.source == source]
        errors = [
            memory_of(step).needed_bytes / step.shown_bytes - 1
            for step in shown
            if step.shown_bytes is not None
        ]
        if errors:
            yield figure(f"{source}: memory as nvidia-smi shows it", errors, goal)


def memory_of(step: MeasuredStep) -> Memory:
    """Return the memory that a measured step needs, as forecast."""
    return peak_memory(step.trace, step.optimizer, step.precision, accumulate=step.accumulate)


def intervals(
    families: Sequence[JudgedStep],
    by_device: Forecasts,
    steps: Sequence[JudgedStep],
    elsewhere: Sequence[JudgedStep],
) -> Iterator[Figure]:
    """Yield which share of intervals of 90 % does not hold; their goal is 5 to 15 %.

    The width for a family, a device or a source comes from errors of the others, of its kind of
    step where there are some.
    """
    known = [JudgedCase.of(judged, "family") for judged in families]
    by_source = [
        (judged.measured.source, JudgedCase.of(judged, "source"))
        for judged in elsewhere
        if judged.measured.is_plain
    ]
    cases = [(case.family, case) for case in known] + by_source
    yield _missed("steps of families left out", [(case.family, case) for case in known], cases)
    of_devices = [(case.device, case) for case in cases_of(by_device, steps)]
    yield _missed("passes and steps of devices left out", of_devices, of_devices)
    regnets = [pair for pair in of_devices if pair[1].family == "regnet"]
    if regnets:
        yield _missed("passes of RegNets, V100 left out", regnets, of_devices)
    for source in ("milabench", "qwen"):
        group = [pair for pair in by_source if pair[0] == source]
        if group:
            yield _missed(f"steps of {source}, hosts as far apart as others'", group, cases)


_Named = Sequence[tuple[str, JudgedCase]]
"""Cases, and with which others each is left out."""


def _missed(what: str, judged: _Named, known: _Named) -> Figure:
    outside = 0
    for name in dict.fromkeys(name for name, _ in judged):
        past = past_errors({"past": [case for other, case in known if other != name]})
        for case in (case for other, case in judged if other == name):
            width = past.get(f"past, {case.kind}", past["past"]).half_width
            fastest, slowest = map(log, case.spread)
            outside += not -width - slowest <= case.error <= width - fastest
    share = 100 * outside / len(judged)
    return Figure(
        f"intervals of 90 %, {what}: outside", len(judged), share, share, share, "5 to 15 %"
    )
