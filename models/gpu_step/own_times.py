"""GPU time of operators where one's own traces timed some on a board: what the public fit leaves.

The fit to public rows stays as it is. The logarithm of measured over forecast time of the operators
that were traced is a Gaussian process, and forecasts of that board are corrected by its mean:
operators of one name and precision are alike as far as their sizes are, those of a kind and
precision a little. What is unlike all that was traced stays as it was, so one trace does no harm to
other kinds of networks. Fitting all anew with the board as one more device does that harm.

Source: Kennedy and O'Hagan, Bayesian calibration of computer models (J. R. Stat. Soc. B, 2001);
Rasmussen and Williams, Gaussian Processes for Machine Learning, equation 2.25.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from models.gpu_step.columns import Vector
from models.gpu_step.device import Device, devices
from models.gpu_step.gpu_time import GpuTime, Timing
from models.gpu_step.operator_kinds import Kind
from models.gpu_step.operators import HALF, Work

_LIKE_SIZES = 0.1
"""Variance that operators of a name share where their sizes are within a factor of e."""
_LIKE_KINDS = 0.03
"""Variance that all operators of a kind and precision share."""
_NOISE = 0.03
"""Variance of a single operator."""
_MOST = 1000
"""Operators of a kind that count: those that take the most."""


@dataclass(frozen=True, eq=False)
class OwnTimes:
    """Times of operators as a fit to public rows tells them, corrected on boards that were traced.

    `timings`: operators of own traces.
    """

    public: GpuTime
    timings: Sequence[Timing] = ()

    @cached_property
    def _left(self) -> "dict[str, Mapping[Kind, _Left]]":
        """What is left on boards that were asked about."""
        return {}

    def us(self, works: Sequence[Work], boards: Sequence[Device]) -> Vector:
        """Return [boards, works]: microseconds of a call; 0 of what launches nothing."""
        us = self.public.us(works, boards)
        for row, board in zip(us, boards, strict=True):
            for kind, left in self._left_on(board.name).items():
                at = [place for place, work in enumerate(works) if work.kind == kind]
                if at:
                    row[at] *= np.exp(left.of([works[place] for place in at]))
        return us

    def _left_on(self, board: str) -> "Mapping[Kind, _Left]":
        if board not in self._left:
            by_kind: dict[Kind, list[Timing]] = defaultdict(list)
            for timing in _means(each for each in self.timings if each.device.name == board):
                by_kind[timing.work.kind].append(timing)
            self._left[board] = {kind: _Left(self.public, of) for kind, of in by_kind.items()}
        return self._left[board]

    def knows(self, work: Work) -> bool:
        """Whether an operator of this name was timed by others."""
        return self.public.knows(work)


def _means(timings: Iterable[Timing]) -> list[Timing]:
    """Return each work of a board once, with the mean time of its calls in all traces."""
    spent: dict[tuple[Work, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for timing in timings:
        totals = spent[timing.work, timing.device.name]
        totals[0] += timing.us * timing.calls
        totals[1] += timing.calls
    return [
        Timing(work, devices()[name], us / calls, calls)
        for (work, name), (us, calls) in spent.items()
    ]


class _Left:
    """What the public fit leaves of operators of one kind on one board."""

    def __init__(self, public: GpuTime, timings: Sequence[Timing]) -> None:
        costliest = sorted(timings, key=lambda timing: -timing.us * timing.calls)[:_MOST]
        self._works = [timing.work for timing in costliest]
        forecast_us = public.us(self._works, [timings[0].device])[0]
        left = np.log(np.array([timing.us for timing in costliest]) / forecast_us)
        covariance = _covariance(self._works, self._works) + _NOISE * np.eye(len(left))
        self._weights: Vector = np.linalg.solve(covariance, left)

    def of(self, works: Sequence[Work]) -> Vector:
        """Return logarithms by which forecasts of works are to be corrected."""
        corrections: Vector = _covariance(works, self._works) @ self._weights
        return corrections


def _covariance(works: Sequence[Work], others: Sequence[Work]) -> Vector:
    """Return [works, others]: how much of what is left of two operators of a kind they share."""
    sizes, other_sizes = _sizes(works), _sizes(others)
    apart = ((sizes[:, None, :] - other_sizes) ** 2).sum(axis=-1)
    names, other_names = (np.array([work.name for work in each]) for each in (works, others))
    half, other_half = (np.array([work.dtype in HALF for work in each]) for each in (works, others))
    alike = _LIKE_SIZES * np.exp(-apart / 2) * (names[:, None] == other_names)
    shared: Vector = (alike + _LIKE_KINDS) * (half[:, None] == other_half)
    return shared


def _sizes(works: Sequence[Work]) -> Vector:
    sizes = [(work.bytes, work.batch, work.rows, work.columns, work.inner) for work in works]
    logarithms: Vector = np.log(np.maximum(np.array(sizes, float), 1.0))
    return logarithms
