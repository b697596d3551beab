"""How wrong are forecasts of sources that fits have not seen, and how many do intervals hold?"""

from collections.abc import Callable, Iterator, Sequence
from math import log

from benchmarks.gpu_figures import Figure, figure, mean, step_figure
from models.gpu_step import gpu_time
from models.gpu_step.gpu_time import GpuTime, Timing
from models.gpu_step.judged_steps import (
    JudgedCase,
    JudgedStep,
    judged_passes,
    past_errors,
    without_families,
)
from models.gpu_step.measurements import MeasuredStep, Measurements, Speedup
from models.gpu_step.memory import Memory, peak_memory

_PUBLISHED = {"neusight": "NeuSight's own", "habitat": "Habitat", "roofline": "its roofline"}
"""Forecasts that NeuSight's authors published of the same steps."""
_LAYOUTS = {"nchw": "contiguous", "nhwc": "channels_last"}


def passes_of_sources(
    measured: Measurements, by_device: Sequence[JudgedStep], times: GpuTime
) -> Iterator[Figure]:
    """Yield passes, each source with its device left out, or what else its fits have not seen.

    Three ResNets of pycls state no batch; it does not say which V100 it had.

    Args:
        measured: what judges, and is fitted to.
        by_device: passes as forecast without their devices.
        times: fitted to all timings.
    """

    def of(source: str) -> list[JudgedStep]:
        return [each for each in by_device if each.measured.source == source]

    for what, passes, goal in (
        ("device", of("neusight"), "12 %"),
        ("model", _models_left_out(measured), "8 %"),
    ):
        for mode, words in (("inf", "inference"), ("train", "training on V100")):
            of_mode = [each for each in passes if each.measured.mode == mode]
            published = "".join(_published(of_mode, name) for name in _PUBLISHED)
            yield step_figure(f"neusight, each {what} left out: {words}", of_mode, goal, published)
    known = [judged_passes(each, times) for each in measured.passes if each.source == "pycls"]
    for what, passes in (("V100 left out", of("pycls")), ("V100 timed by others", known)):
        yield step_figure(f"pycls, {what}: passes of RegNets, float32", passes)
    for what, is_vit in (("CNNs", False), ("ViTs", True)):
        group = [each for each in of("timm") if each.measured.network.startswith("vit") == is_vit]
        words = f"timm, RTX 3090 by its data sheet: steps of {what}, float16"
        yield step_figure(words, group)
    for layout, words in _LAYOUTS.items():
        of_layout = of(f"timm_inference_{layout}")
        for name in sorted({each.measured.device.name for each in of_layout}):
            group = [each for each in of_layout if each.measured.device.name == name]
            what = f"timm, {name} by its data sheet: inference of CNNs, float16, {words}"
            yield step_figure(what, group)


def _models_left_out(measured: Measurements) -> list[JudgedStep]:
    """Return passes of neusight, each as forecast by a fit without the timings of its family."""
    judged = []
    neusight = [passes for passes in measured.passes if passes.source == "neusight"]
    for name in sorted({passes.family for passes in neusight}):
        times = gpu_time.fit(without_families(measured.timings, [name]))
        judged += [judged_passes(each, times) for each in neusight if each.family == name]
    return judged


def _published(judged: Sequence[JudgedStep], name: str) -> str:
    """Return how wrong published forecasts are of the same rows, and how often ours are nearer."""
    rows = [
        (each.share, published_us / each.measured.step_us - 1)
        for each in judged
        if (published_us := each.measured.published_us.get(name))
    ]
    if not rows:
        return ""
    nearer = sum(abs(error) < abs(published_error) for error, published_error in rows)
    return (
        f", {_PUBLISHED[name]} {mean(error for _, error in rows):.1f} % (n = {len(rows)}; "
        f"ours is nearer in {nearer} rows)"
    )


def speedups(speedups: Sequence[Speedup], times: GpuTime) -> Iterator[Figure]:
    """Yield how many times as many samples pass in half precision, or with activations kept."""

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
        yield figure(what, [forecast(each) / each.measured - 1 for each in group], goal)


def kernels(kernels: Sequence[Timing], times: GpuTime) -> Iterator[Figure]:
    """Yield operators on an A100 of a source that no fit has seen."""
    for what, is_product in (("products", True), ("other operators", False)):
        group = [each for each in kernels if (each.work.kind == "matmul") == is_product]
        errors = [times.us([each.work], [each.device])[0, 0] / each.us - 1 for each in group]
        yield figure(f"FlagPerf left out: {what}", errors)


_SOURCES: tuple[tuple[str, str, Callable[[MeasuredStep], bool], str], ...] = (
    ("milabench left out: step", "milabench", lambda _: True, "12 %"),
    ("milabench left out: step, batches above 1", "milabench", lambda step: step.batch > 1, ""),
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
        group = [each for each in steps if each.measured.source == source]
        yield step_figure(what, [each for each in group if is_meant(each.measured)], goal)
    for source, goal in (("milabench", "8 %"), ("qwen", "12 %")):
        errors = [
            memory_of(step).needed_bytes / step.shown_bytes - 1
            for step in (each.measured for each in steps if each.measured.source == source)
            if step.shown_bytes is not None
        ]
        yield figure(f"{source}: memory as nvidia-smi shows it", errors, goal)


def memory_of(step: MeasuredStep) -> Memory:
    """Return the memory that a measured step needs, as forecast."""
    return peak_memory(step.trace, step.optimizer, step.precision, accumulate=step.accumulate)


def intervals(
    families: Sequence[JudgedStep], by_device: Sequence[JudgedStep], elsewhere: Sequence[JudgedStep]
) -> Iterator[Figure]:
    """Yield which share of intervals of 90 % does not hold; their goal is 5 to 15 %.

    The width for a family, a device or a source comes from errors of the others, of its kind of
    step where there are some.
    """
    known = [(each.measured.family, JudgedCase.of(each, "family")) for each in families]
    by_source = [
        (each.measured.source, JudgedCase.of(each, "source"))
        for each in elsewhere
        if each.measured.is_plain
    ]
    cases = known + by_source
    yield _missed("steps of families left out", known, cases)
    of_devices = [(each.measured.device.name, JudgedCase.of(each, "device")) for each in by_device]
    yield _missed("passes and steps of devices left out", of_devices, of_devices)
    regnets = [pair for pair in of_devices if pair[1].family == "regnet"]
    yield _missed("passes of RegNets, V100 left out", regnets, of_devices)
    for source in ("milabench", "qwen"):
        group = [pair for pair in by_source if pair[0] == source]
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
    share = 100 * outside / max(len(judged), 1)
    return Figure(
        f"intervals of 90 %, {what}: outside", len(judged), share, share, share, "5 to 15 %"
    )
