"""Measured steps as forecast by fits that have not seen what they are of, and how wrong these were.

Families of networks, or devices, are left out of a fit one at a time or a few together; of a device
all boards of its chip are. A step is two queues (`queues`): the host's time of each launch, and the
GPU's of each operator.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import exp, log
from statistics import fmean
from typing import Self

import numpy as np

from models.gpu_step import gpu_time, host_time
from models.gpu_step.channels_last import TwoLayouts
from models.gpu_step.columns import Vector, covering
from models.gpu_step.gpu_time import GpuTime, Timing
from models.gpu_step.host_time import RELATIVE, HostClasses, HostTime, StepTiming
from models.gpu_step.measurements import NO_TRACE, MeasuredStep, Measurements
from models.gpu_step.operators import HALF, PRODUCTS
from models.gpu_step.own_times import OwnTimes
from models.gpu_step.queues import Step, simulate, varied_us
from models.gpu_step.step import StepWork

UNKNOWN_WIDTH = log(3.0)
"""How far operators that nobody timed may be off."""
FOLDS = 4
"""Of families for widths of intervals, in a third of the time of one family at a time."""
_SOME = 20
"""Cases of a kind of step from which on its intervals are as wide as their errors."""
_ATTENTION = ("attention", "attention_backward")
_CHIPS = {"h200": "h100", "b300": "b200", "a10g": "rtx3090", "l40s": "rtx4090"}
"""Boards of a chip that is called otherwise (GH100, GB100, GA102, AD102)."""


@dataclass(frozen=True)
class PastErrors:
    """How wrong forecasts were of `n` that fits had not seen.

    `percent` is their mean; `half_width` of an interval of logarithms has room for the next one.
    `devices` had them where networks were left out; empty: devices were.
    """

    half_width: float
    percent: float | None = None
    n: int = 0
    devices: Sequence[str] = ()

    @classmethod
    def of(cls, errors: Sequence[float], devices: Iterable[str] = ()) -> Self:
        """Return those of errors as logarithms of forecast over measured."""
        if not errors:
            return cls(UNKNOWN_WIDTH)
        percent = fmean(100 * abs(exp(error) - 1) for error in errors)
        return cls(covering(map(abs, errors)), percent, len(errors), tuple(sorted(set(devices))))


def simulated(work: StepWork, us: Vector, host: HostTime) -> Step:
    """Return a step whose works take `us` on the GPU; what it costs once is spread over its calls.

    Steps of gpu_h100 that the GPU binds are 1.5 ms longer in the median where each is waited for
    (n = 32), of 21 ms that a step costs its host once: the GPU works through most of these.
    """
    operators_us = _issued_us(work, host)
    once_us = host.once_us(work.parameters, float(operators_us.sum()))
    host_us = operators_us + once_us / len(work.order)
    step = simulate(host_us, us[work.order], work.waits)
    longer_us = float(varied_us(np.array(step.host_us), np.array(step.gpu_us)))
    return replace(step, step_us=step.step_us + longer_us, varied_us=longer_us)


def _issued_us(work: StepWork, host: HostTime) -> Vector:
    """Return what the host takes for each call of a step."""
    issue_us: Vector = np.array([host.issue_us(each) for each in work.works])[work.order]
    return issue_us * work.issued


def fit_hosts(steps: Sequence[MeasuredStep], times: GpuTime) -> HostClasses:
    """Return the hosts of steps, with the GPU's times of their works as forecast."""
    one = HostTime(RELATIVE, 0.0)
    return host_time.fit(
        [
            StepTiming(
                float(_issued_us(step.work, one).sum()),
                step.step_us - step.copied_us,
                float(us @ step.work.calls),
                step.source,
            )
            for step, us in zip(steps, times_of(steps, times), strict=True)
            if step.is_plain
        ]
    )


def times_of(steps: Sequence[MeasuredStep], times: GpuTime | OwnTimes) -> list[Vector]:
    """Return microseconds of the works of steps; those of one device are forecast at once."""
    works_us: list[Vector] = [np.zeros(0)] * len(steps)
    for device in {step.device.name: step.device for step in steps}.values():
        at = [place for place, step in enumerate(steps) if step.device == device]
        distinct = {work: None for place in at for work in steps[place].work.works}
        us = dict(zip(distinct, times.us(list(distinct), [device])[0], strict=True))
        for place in at:
            works_us[place] = np.array([us[work] for work in steps[place].work.works])
    return works_us


@dataclass(frozen=True)
class JudgedCase:
    """A measured step, or passes, beside its forecast by a fit without its family, or its device.

    `left_out` says which of both, or that its source was; seconds. `kind`: see `kind_of_step`.
    `spread`: as many times as long with the fastest host of others, and with the slowest.
    """

    network: str
    family: str
    device: str
    precision: str
    batch: int
    left_out: str
    forecast_s: float
    measured_s: float
    kind: str
    spread: tuple[float, float] = (1.0, 1.0)

    @property
    def error(self) -> float:
        """Logarithm of forecast over measured."""
        return log(self.forecast_s / self.measured_s)

    @classmethod
    def of(cls, judged: "JudgedStep", left_out: str) -> Self:
        """Return the case of a step."""
        step = judged.measured
        network, precision = step.network, str(step.precision)
        if step.trace is NO_TRACE:
            network = f"{network}, {step.mode}"
            precision = max(step.work.works, key=lambda each: each.flops).dtype
        of_step = network, step.family, step.device.name, precision, step.batch
        seconds = judged.step.step_us * 1e-6, step.step_us * 1e-6
        return cls(*of_step, left_out, *seconds, kind_of_step(step.work), judged.spread)


def kind_of_step(step: StepWork) -> str:
    """Return in which precision most of its products are, and what they are: errors are alike."""
    flops: dict[str, float] = {}
    for work, calls in zip(step.works, step.calls.tolist(), strict=True):
        if work.kind in PRODUCTS:
            kind = "products" if work.kind in ("matmul", *_ATTENTION) else "convolutions"
            name = f"{kind} in {'half' if work.dtype in HALF else 'full'} precision"
            flops[name] = flops.get(name, 0.0) + work.flops * work.repeats * calls
    return max(flops, key=lambda name: flops[name], default="no products")


def past_errors(judged: Mapping[str, Sequence[JudgedCase]]) -> Mapping[str, PastErrors]:
    """Return past errors by what was left out, and of each kind of step of which there are some."""
    past = {}
    for name, cases in judged.items():
        past[name] = PastErrors.of([case.error for case in cases], [case.device for case in cases])
        for kind in sorted({case.kind for case in cases}):
            errors = [case.error for case in cases if case.kind == kind]
            if len(errors) >= _SOME:
                past[f"{name}, {kind}"] = PastErrors.of(errors, past[name].devices)
    return past


FitWithout = Callable[[str], GpuTime]
"""Fits without the timings of a device of a name; boards of one chip have one fit."""


def judged_devices(
    measured: Measurements, fit_without: FitWithout
) -> tuple[list["JudgedStep"], list["JudgedStep"]]:
    """Return passes and steps, each as forecast by a fit that knows its device by data sheet alone.

    Of some devices nobody timed an operator: their fit is that to all timings.
    The host's times are those of the machine that has the device.
    """
    judged_steps: list[JudgedStep] = []
    for name in sorted({step.device.name for step in measured.steps}):
        steps = [step for step in measured.steps if step.device.name == name]
        times = fit_without(name)
        hosts = fit_hosts((*steps, *measured.elsewhere), times)
        judged_steps += judged(steps, times, hosts.of(steps[0].source))
    passes = [judged_passes(each, fit_without(each.device.name)) for each in measured.passes]
    return passes, judged_steps


def judged_passes(passes: MeasuredStep, times: GpuTime) -> "JudgedStep":
    """Return passes as forecast: the GPU's time of all their operators."""
    us = float(times.us(passes.work.works, [passes.device])[0] @ passes.work.calls)
    return JudgedStep(passes, Step(us, 0.0, us))


def without_device(timings: Iterable[Timing], name: str) -> list[Timing]:
    """Return timings of other chips than a device's."""
    return [timing for timing in timings if _chip(timing.device.name) != _chip(name)]


def _chip(name: str) -> str:
    return _CHIPS.get(name, name.partition("-")[0])


def fits_without_devices(measured: Measurements) -> FitWithout:
    """Return what fits without a device, once for each chip."""

    @cache
    def without(chip: str) -> GpuTime:
        layouts = [each for each in measured.both_layouts if _chip(each.device.name) != chip]
        return gpu_time.fit(without_device(measured.timings, chip), layouts)

    return lambda name: without(_chip(name))


@dataclass(frozen=True)
class JudgedStep:
    """A measured step, or passes, and its forecast by a fit that had seen nothing of its kind."""

    measured: MeasuredStep
    step: Step
    spread: tuple[float, float] = (1.0, 1.0)

    @property
    def error(self) -> float:
        """Logarithm of forecast over measured."""
        return log(self.step.step_us / self.measured.step_us)

    @property
    def share(self) -> float:
        """By which share of what was measured the forecast is longer."""
        return self.step.step_us / self.measured.step_us - 1


def judged_families(measured: Measurements, folds: int | None = None) -> list[JudgedStep]:
    """Return each step as forecast by a fit to the timings and steps of other families.

    `folds`: as many groups of families are left out, for so many fits; None: one at a time.
    """
    judged_steps = []
    names = sorted({step.family for step in measured.steps})
    folds = min(folds or len(names), len(names))
    for group in [names[start::folds] for start in range(folds)]:
        plain = set(map(_plain, group))
        layouts = layouts_without_families(measured.both_layouts, group)
        times = gpu_time.fit(without_families(measured.timings, group), layouts)
        all_steps = (*measured.steps, *measured.elsewhere)
        hosts = fit_hosts([step for step in all_steps if _plain(step.family) not in plain], times)
        of_group = [step for step in measured.steps if step.family in group]
        judged_steps += judged(of_group, times, hosts.of("gpu_h100"))
    return judged_steps


def judged(
    steps: Sequence[MeasuredStep], times: GpuTime | OwnTimes, host: HostTime
) -> list["JudgedStep"]:
    """Return steps as forecast by times of operators and of a host."""
    judged_steps = []
    for step, us in zip(steps, times_of(steps, times), strict=True):
        forecast = simulated(step.work, us, host)
        copied_us = forecast.step_us + step.copied_us
        judged_steps.append(JudgedStep(step, replace(forecast, step_us=copied_us)))
    return judged_steps


def judged_elsewhere(measured: Measurements, times: GpuTime) -> list["JudgedStep"]:
    """Return steps of sources without operators of their own; hosts are those of other sources."""
    judged_steps = []
    for source in sorted({step.source for step in measured.elsewhere}):
        others = [step for step in (*measured.steps, *measured.elsewhere) if step.source != source]
        of_source = [step for step in measured.elsewhere if step.source == source]
        hosts = fit_hosts(others, times)
        judged_steps += [
            replace(each, spread=hosts.spread_of(each.step.host_us, each.step.gpu_us))
            for each in judged(of_source, times, hosts.middle)
        ]
    return judged_steps


def without_families(timings: Iterable[Timing], families: Iterable[str]) -> list[Timing]:
    """Return timings of other families; names of families differ by source in case alone."""
    plain = set(map(_plain, families))
    return [timing for timing in timings if _plain(timing.family) not in plain]


def layouts_without_families(
    layouts: Iterable[TwoLayouts], families: Iterable[str]
) -> list[TwoLayouts]:
    """Return steps in both layouts of other families, with whose names names of networks begin."""
    plain = tuple(map(_plain, families))
    return [each for each in layouts if not _plain(each.network).startswith(plain)]


def _plain(family: str) -> str:
    return "".join(character for character in family.lower() if character.isalnum())
