"""What a few profiled steps of one's own would mend: operators of gpu_h100 as if they were such."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from models.gpu_step import gpu_time
from models.gpu_step.judged_steps import JudgedStep, fit_hosts, judged, without_device
from models.gpu_step.measurements import Measurements
from models.gpu_step.own_times import OwnTimes

_BOARD = "h100"
_TRACES = (1, 3, 10)
_EVERY = 4
"""Of sets of traces, each so many'th counts, to be done in a quarter of the time."""


@dataclass(frozen=True)
class Mended:
    """Steps as forecast by the H100's data sheet alone, and with so many `traces` of networks.

    `is_same`: they are steps of the network whose trace it is; else of all others.
    """

    traces: int
    is_same: bool
    before: Sequence[JudgedStep]
    after: Sequence[JudgedStep]


def mended(measured: Measurements) -> Iterator[Mended]:
    """Yield steps of networks beside 1, 3 and 10 traced ones, and of traced ones themselves.

    A trace is the operators of both profiled steps of a network, in float32 and bfloat16.
    """
    steps = [step for step in measured.steps if step.device.name == _BOARD]
    traced = [each for each in measured.timings if each.device.name == _BOARD and each.family]
    names = sorted({timing.family for timing in traced} & {step.family for step in steps})
    others = without_device(measured.timings, _BOARD)
    public = gpu_time.fit(others, measured.both_layouts)
    host = fit_hosts((*steps, *measured.elsewhere), public).of(steps[0].source)
    before = {
        id(step): each
        for step, each in zip(steps, judged(steps, OwnTimes(public), host), strict=True)
    }

    def of(traces: int, is_same: bool, sets: Sequence[Sequence[str]]) -> Mended:
        known: list[JudgedStep] = []
        corrected: list[JudgedStep] = []
        for chosen in sets:
            own = OwnTimes(public, [each for each in traced if each.family in chosen])
            asked = [step for step in steps if (step.family in chosen) == is_same]
            known += [before[id(step)] for step in asked]
            corrected += judged(asked, own, host)
        return Mended(traces, is_same, known, corrected)

    for count in _TRACES:
        starts = range(0, len(names), _EVERY)
        sets = [[names[(start + i) % len(names)] for i in range(count)] for start in starts]
        yield of(count, False, sets)
    yield of(1, True, [[name] for name in names])
