"""What a few profiled steps of one's own would mend: operators of gpu_h100 as if they were such."""

from collections.abc import Iterator, Sequence
from math import exp

from benchmarks.gpu_figures import Figure, figure, mean
from models.gpu_step import gpu_time
from models.gpu_step.judged_steps import JudgedStep, fit_hosts, judged, without_device
from models.gpu_step.measurements import Measurements
from models.gpu_step.own_times import OwnTimes

_BOARD = "h100"
_TRACES = (1, 3, 10)
_EVERY = 4
"""Of sets of traces, each so many'th counts, to be done in a quarter of the time."""


def own_traces(measured: Measurements) -> Iterator[Figure]:
    """Yield how wrong the H100 by its data sheet is with traces of networks, beside without.

    Steps are of networks beside 1, 3 and 10 traced ones, and of traced ones themselves. A trace is
    the operators of both profiled steps of a network, in float32 and bfloat16.
    """
    steps = [step for step in measured.steps if step.device.name == _BOARD]
    traced = [each for each in measured.timings if each.device.name == _BOARD and each.family]
    if not steps or not traced:
        return
    names = sorted({timing.family for timing in traced} & {step.family for step in steps})
    others = without_device(measured.timings, _BOARD)
    public = gpu_time.fit(others, measured.both_layouts)
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
        for part, errors in (("GPU time", _gpu_errors), ("step", _step_errors)):
            if corrected:
                beside = f"without {mean(errors(known)):.1f} %"
                yield figure(f"{what}, {part}", errors(corrected), beside=beside)

    for count in _TRACES:
        starts = range(0, len(names), _EVERY)
        sets = [[names[(start + i) % len(names)] for i in range(count)] for start in starts]
        yield from figures(count, False, sets)
    yield from figures(1, True, [[name] for name in names])


def _gpu_errors(steps: Sequence[JudgedStep]) -> list[float]:
    return [judged.step.gpu_us / us - 1 for judged in steps if (us := judged.measured.gpu_us)]


def _step_errors(steps: Sequence[JudgedStep]) -> list[float]:
    return [exp(judged.error) - 1 for judged in steps]
