"""GPU time of operators by regression on what they do, relative to what the device could do.

Of each kind of operator, four layers say what those before them leave:

1. Shares of launching, moving, computing by unit, and feeding; what is computed are whole tiles in
   whole waves, and what multiprocessors are fed with are the operands of tiles. A device that was
   timed has its own shares, drawn towards those of all. What is slower than peaks allow is taken
   to wait to be fed, where calls do not tell: a device with less to do for each multiprocessor
   comes nearer to its peaks.
2. The logarithm of what remains is linear in a few properties without units: how full the last wave
   of tiles is, alignment, how much of the data fits in L2.
3. Offsets of each operator and of each device, shrunk towards nothing.
4. Smoothing over calls of like shapes.

Properties are relative to the device, so that a fit serves devices that it has not seen.

Sources: Ceer's regressions by operation (Hafeez, Gandhi, section IV); waves of tiles as the unit
of a GPU's work: NeuSight (Lee et al., ASPLOS 2025, section 4); ours otherwise.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Self

import numpy as np
import scipy
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator

from models.gpu_step import channels_last
from models.gpu_step.channels_last import TwoLayouts
from models.gpu_step.columns import Calls, KeptNames, KeptVector, Vector
from models.gpu_step.device import Device, devices
from models.gpu_step.operator_kinds import Kind
from models.gpu_step.operators import PRODUCTS, Work

_LEAST = 0.3
_ROOFLINE = np.array([2.0, 1.0, 1.0, 1.0, 1.0, 0.0])
"""Shares of launching, moving, computing and feeding where nothing is known: a kernel is two
floors."""
_HELD = np.array([0.1, 1.0, 1.0, 1.0, 1.0, 0.1])
"""How firmly each is held, beside what is known of all calls."""
_RIDGE = 20.0
_NAME_PRIOR = 1.0
_SMOOTH_PRIOR = 0.7
_SMOOTH_WIDTH = 0.45
_ELSEWHERE = 0.1
_MOST = 3.0
"""A regression never says more than e^3 times, nor less than e^-3 times, the shares."""
_ROUNDS = 12


KeptDevice = Annotated[
    Device,
    PlainValidator(lambda name: devices()[name]),
    PlainSerializer(lambda device: device.name),
]
"""A device, which JSON has as its name."""


@dataclass(frozen=True)
class Timing:
    """A call that was timed: microseconds of one call of `work` on `device`, seen `calls` times.

    `family` is that of the network in whose step it was timed; empty: it was timed by itself.
    """

    work: Work
    device: KeptDevice
    us: float
    calls: float = 1.0
    family: str = ""


def roofline_us(works: Sequence[Work], devices: Sequence[Device]) -> Vector:
    """Return [devices, calls]: microseconds that peaks and bandwidth alone allow, and a floor."""
    us = np.zeros((len(devices), len(works)))
    for kind, at in _by_kind(works).items():
        if kind != "none":
            us[:, at] = Calls([works[i] for i in at], devices).roofline_us
    us *= [work.repeats for work in works]
    return us


def _by_kind(works: Sequence[Work]) -> Mapping[Kind, list[int]]:
    places: dict[Kind, list[int]] = defaultdict(list)
    for place, work in enumerate(works):
        places[work.kind].append(place)
    return places


@dataclass(frozen=True)
class Regression:
    """Of one kind; `places` and `residuals` of the calls that were timed, `on` their devices."""

    base: KeptVector
    own: Mapping[str, KeptVector]
    slopes: KeptVector
    names: Mapping[str, float]
    devices: Mapping[str, float]
    places: KeptVector
    residuals: KeptVector
    named: KeptNames
    on: KeptNames

    @cached_property
    def pooled(self) -> "_Pooled":
        """Return calls that were timed, those of one place, name and device as one."""
        return _Pooled.of(self.places, self.residuals, self.named, self.on)


@dataclass(frozen=True)
class _Pooled:
    """Calls that were timed, one for each place, name and device.

    `sums` are [calls, 2 x devices]: how many each is on a device, and what they leave together.
    `of_name` are the places of those of a name.
    """

    places: Vector
    sums: Vector
    of_name: Mapping[str, slice]
    devices: NDArray[np.str_]

    @classmethod
    def of(
        cls, places: Vector, residuals: Vector, named: NDArray[np.str_], on: NDArray[np.str_]
    ) -> Self:
        names, of_name = np.unique(named, return_inverse=True)
        devices, of_device = np.unique(on, return_inverse=True)
        alike = np.column_stack([of_name, of_device, places])
        calls, of_call = np.unique(alike, axis=0, return_inverse=True)
        sums = np.zeros((len(calls), 2 * len(devices)))
        at, column = np.arange(len(calls)), calls[:, 1].astype(int)
        sums[at, column] = np.bincount(of_call)
        sums[at, column + len(devices)] = np.bincount(of_call, residuals)
        ends = np.searchsorted(calls[:, 0], np.arange(len(names) + 1))
        slices = {str(name): slice(*ends[i : i + 2]) for i, name in enumerate(names)}
        return cls(calls[:, 2:] / _SMOOTH_WIDTH, sums, slices, devices)


@dataclass(frozen=True, eq=False)
class GpuTime:
    """Times of operators by regressions of kinds, and what `channels_last` saves."""

    regressions: Mapping[Kind, Regression]
    saved: Sequence[float] = (0.0, 0.0)

    def us(self, works: Sequence[Work], devices: Sequence[Device]) -> Vector:
        """Return [devices, calls]: microseconds of a call; 0 of what launches nothing.

        Products that follow one another in a call take as long as so many calls.
        """
        us = np.zeros((len(devices), len(works)))
        for kind, at in _by_kind(works).items():
            if kind == "none":
                continue
            kind_works = [works[i] for i in at]
            calls = Calls(kind_works, devices)
            regression = self._of(kind)
            kind_us = calls.roofline_us
            if regression is not None:
                kind_us = _times(regression, kind_works, calls, devices)
            us[:, at] = channels_last.in_layout(kind_us, kind_works, calls, self.saved)
        us *= [work.repeats for work in works]
        return us

    def knows(self, work: Work) -> bool:
        """Whether an operator of this name was timed."""
        regression = self.regressions.get(work.kind)
        return regression is not None and work.name in regression.names

    def _of(self, kind: Kind) -> Regression | None:
        like: Kind = "matmul" if kind in PRODUCTS else "elementwise"
        return self.regressions.get(kind) or self.regressions.get(like)


def _times(
    regression: Regression, works: Sequence[Work], calls: Calls, devices: Sequence[Device]
) -> Vector:
    log_ratio = calls.properties() @ regression.slopes
    log_ratio += np.array([regression.names.get(work.name, 0.0) for work in works])
    log_ratio += np.array([[regression.devices.get(device.name, 0.0)] for device in devices])
    log_ratio += _smoothed(regression, works, calls, devices)
    own = np.array([regression.own.get(device.name, regression.base) for device in devices])
    base: Vector = (calls.shares_us() * own[:, None, :]).sum(axis=-1)
    us: Vector = base * np.exp(np.clip(log_ratio, -_MOST, _MOST))
    return np.maximum(us, calls.least_us())


def _smoothed(
    regression: Regression, works: Sequence[Work], calls: Calls, devices: Sequence[Device]
) -> Vector:
    """Return the mean of what the regression left at like shapes, shrunk towards nothing.

    What was timed of another name, or elsewhere, counts `_ELSEWHERE`.
    """
    timed = regression.pooled
    places = calls.places() / _SMOOTH_WIDTH
    near = places @ timed.places.T
    near -= 0.5 * (places**2).sum(axis=1)[:, None]
    near -= 0.5 * (timed.places**2).sum(axis=1)
    np.exp(np.minimum(near, 0.0, out=near), out=near)
    sums = _ELSEWHERE * (near @ timed.sums)
    named: dict[str, list[int]] = defaultdict(list)
    for place, work in enumerate(works):
        named[work.name].append(place)
    for name, at in named.items():
        if (same := timed.of_name.get(name)) is not None:
            sums[at] += (1 - _ELSEWHERE) * (near[at, same] @ timed.sums[same])
    weights = np.where(
        np.array([device.name for device in devices])[:, None] == timed.devices, 1.0, _ELSEWHERE
    )
    counted, left = np.split(sums, 2, axis=1)
    means: Vector = (weights @ left.T) / (weights @ counted.T + _SMOOTH_PRIOR)
    return means


def fit(timings: Sequence[Timing], both_layouts: Sequence[TwoLayouts] = ()) -> GpuTime:
    """Fit regressions to timed calls, one for each kind, and what channels_last saves to steps."""
    by_kind: dict[Kind, list[Timing]] = defaultdict(list)
    for timing in timings:
        if timing.work.kind != "none" and timing.us > 0:
            by_kind[timing.work.kind].append(timing)
    regressions = {kind: _fit_kind(of_kind) for kind, of_kind in sorted(by_kind.items())}
    contiguous = GpuTime(regressions)
    pairs = [(both, contiguous.us(both.work.works, [both.device])[0]) for both in both_layouts]
    return GpuTime(regressions, channels_last.fit(pairs))


def _fit_kind(timings: Sequence[Timing]) -> Regression:
    timings = sorted(timings, key=lambda timing: timing.device.name)
    on = np.array([timing.device.name for timing in timings])
    named = np.array([timing.work.name for timing in timings])
    us = np.array([timing.us for timing in timings])
    columns = [
        Calls([timing.work for timing in timings if timing.device.name == name], [device])
        for name, device in {timing.device.name: timing.device for timing in timings}.items()
    ]
    matrix = np.concatenate([calls.properties()[0] for calls in columns])
    shares = np.concatenate([calls.shares_us()[0] for calls in columns])
    places = np.concatenate([calls.places() for calls in columns])
    # Long calls matter for a step; the square root keeps a few from ruling all.
    weights = np.sqrt(us * np.array([timing.calls for timing in timings]))
    weights /= weights.mean()
    # Every device counts alike, however often it was timed.
    device_names, of_device = np.unique(on, return_inverse=True)
    weights *= (weights.sum() / len(device_names) / np.bincount(of_device, weights))[of_device]
    # Relative errors count: rows are divided by what was measured.
    scale = np.sqrt(weights) / us
    base = _held_shares(shares * scale[:, None], us * scale, _ROOFLINE)
    own, bases = {}, np.tile(base, (len(timings), 1))
    for place, name in enumerate(device_names):
        on_device = of_device == place
        rows = scale[on_device, None] * shares[on_device]
        own[str(name)] = _held_shares(rows, us[on_device] * scale[on_device], base)
        bases[on_device] = own[str(name)]
    target = np.log(us / (shares * bases).sum(axis=1))
    slopes, (by_name, by_device), left = _regressed(matrix, target, weights, (named, on))
    # Few digits: there are thousands of them in a fit that is kept.
    few, residuals = np.round(places, 3), np.round(left, 4)
    return Regression(base, own, slopes, by_name, by_device, few, residuals, named, on)


def _held_shares(rows: Vector, wanted: Vector, towards: Vector) -> Vector:
    """Return shares of least squares, drawn to others as far as calls do not tell them."""
    held = np.diag(_HELD * np.sqrt((rows**2).sum(axis=0)) + _HELD)
    targets = np.concatenate([wanted, held @ towards])
    shares: Vector = scipy.optimize.nnls(np.vstack([rows, held]), targets)[0]
    return np.maximum(shares, _LEAST * towards)


def _regressed(
    matrix: Vector, target: Vector, weights: Vector, groups: tuple[NDArray[np.str_], ...]
) -> tuple[Vector, tuple[dict[str, float], ...], Vector]:
    """Return slopes, offsets of each group's members, and what they leave.

    Slopes and offsets in turn: each is a ridge regression of what the others leave.
    """
    penalty = np.full(matrix.shape[1], _RIDGE)
    penalty[0] = 1e-6
    weighted = matrix * weights[:, None]
    normal = matrix.T @ weighted + np.diag(penalty)
    members = [np.unique(group, return_inverse=True) for group in groups]
    totals = [np.bincount(places, weights) + _NAME_PRIOR for _, places in members]
    offsets: list[Vector] = [np.zeros(len(names)) for names, _ in members]
    moved = [np.zeros(len(target)) for _ in groups]
    slopes: Vector = np.zeros(matrix.shape[1])
    for _ in range(_ROUNDS):
        left = weighted.T @ (target - sum(moved))
        slopes = np.asarray(np.linalg.solve(normal, left), np.float64)
        for i, (_, places) in enumerate(members):
            left = target - matrix @ slopes - sum(moved) + moved[i]
            offsets[i] = np.bincount(places, weights * left) / totals[i]
            moved[i] = offsets[i][places]
    named = tuple(
        dict(zip(names.tolist(), group_offsets.tolist(), strict=True))
        for (names, _), group_offsets in zip(members, offsets, strict=True)
    )
    return slopes, named, target - matrix @ slopes - sum(moved)
