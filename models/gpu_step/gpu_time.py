"""GPU time of operators by regression on what they do, relative to what the device could do.

For each kind of operator the logarithm of time over roofline time is linear in a few properties
without units: how full the last wave of tiles is, how deep the inner dimension, the ratio of
computing to moving, alignment, how much of the data fits in L2. Each operator of a kind has its
own offset, shrunk towards that of the kind. What remains is smoothed over operators of like
shapes. Properties are relative to the device, so that a fit serves devices that it has not seen.

Sources: Ceer's regressions by operation (Hafeez, Gandhi, section IV); waves of tiles as the unit
of a GPU's work: NeuSight (Lee et al., ASPLOS 2025, section 4); ours otherwise.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log, log2

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from models.gpu_step.device import Device
from models.gpu_step.operators import DTYPE_BYTES, HALF, Kind, Work

Vector = NDArray[np.float64]

FLOOR_US = 1.0
"""A kernel that does nothing takes this long (gpu_h100: `fill_` of one number, 1.0 us)."""
_TILE = 128
"""Rows and columns of a tile of a matrix product (NeuSight, table 2: most of cuBLAS's)."""
_LEAST = 0.3
_HELD = 0.1
_RIDGE = 8.0
_NAME_PRIOR = 1.0
_SMOOTH_PRIOR = 0.7
_SMOOTH_WIDTH = 0.45
_ELSEWHERE = 0.3
_MOST_WASTE = 8.0
_MOST = 3.0
"""A regression never says more than e^3 times, nor less than e^-3 times, the roofline."""
PRODUCTS = (
    "matmul",
    "convolution",
    "convolution_backward",
    "attention",
    "attention_backward",
    "depthwise",
    "depthwise_backward",
)


@dataclass(frozen=True)
class Timing:
    """A call that was timed: microseconds of one call of `work` on `device`, seen `calls` times."""

    work: Work
    device: Device
    us: float
    calls: float = 1.0


def roofline_us(work: Work, device: Device) -> float:
    """Return the microseconds that peaks and bandwidth alone allow, with a kernel's floor."""
    peak, _ = device.peak_of(work)
    return 1e6 * max(work.flops / peak, work.bytes / device.bandwidth) + FLOOR_US


def shares_us(work: Work, device: Device) -> Vector:
    """Return microseconds of launching, of moving, and of computing by each kind of unit.

    What is computed are whole tiles in whole waves.
    """
    peak, precision = device.peak_of(work)
    compute_us = 1e6 * work.flops / peak
    if work.kind in PRODUCTS:
        tiles, tile_columns, waves = _tiles(work, device)
        whole = tiles * _TILE * tile_columns / (work.batch * work.rows * work.columns)
        # Small boards of large chips cannot hold their clocks.
        compute_us *= device.strain * min(whole * ceil(waves) / waves, _MOST_WASTE)
    units = [compute_us if one == precision else 0.0 for one in ("float32", "tf32")]
    half_us = compute_us - sum(units)
    move_us = 1e6 * work.bytes / device.bandwidth
    return np.array([FLOOR_US, move_us, *units, half_us])


def _tiles(work: Work, device: Device) -> tuple[int, int, float]:
    """Return how many tiles a product has, columns of each, and how many waves they are."""
    tile_columns = min(_TILE, max(16, 1 << (work.columns - 1).bit_length()))
    tiles = work.batch * ceil(work.rows / _TILE) * ceil(work.columns / tile_columns)
    return tiles, tile_columns, tiles / device.multiprocessors


def properties(work: Work, device: Device) -> Vector:
    """Return what the regression of a kind rests on, numbers without units."""
    peak, precision = device.peak_of(work)
    compute_s, move_s = work.flops / peak, work.bytes / device.bandwidth
    floor_share = FLOOR_US * 1e-6 / (max(compute_s, move_s) + FLOOR_US * 1e-6)
    half, tf32 = float(work.dtype in HALF), float(precision == "tf32")
    cached = log(1 + device.l2_bytes / (work.bytes + 1))
    if work.kind not in PRODUCTS:
        wide = log(work.columns) if work.columns > 1 else 0.0
        few = log(max(1.0, device.multiprocessors * 8 / max(work.rows, 1)))
        few = few if wide else 0.0
        return np.array([1.0, floor_share, cached, half, wide / 10, few, half * few])
    tiles, tile_columns, waves = _tiles(work, device)
    empty = log(ceil(waves) / waves)
    waste = log(tiles * _TILE * tile_columns / (work.batch * work.rows * work.columns))
    bound = log((compute_s + 1e-9) / (move_s + 1e-9))
    aligned = min(side & -side for side in (work.columns, work.inner, work.rows))
    misaligned = max(0.0, log2(16 / (aligned * DTYPE_BYTES[work.dtype])))
    narrow = log(_TILE / tile_columns)
    return np.array(
        [
            1.0,
            floor_share,
            cached,
            half,
            tf32,
            min(empty, 3.0),
            min(waste, 3.0),
            max(-3.0, min(bound, 0.0)),
            max(0.0, min(bound, 3.0)),
            32.0 / (work.inner + 32.0),
            misaligned * (half + tf32),
            min(misaligned, 2.0) * (1.0 - half - tf32),
            log(1 + 1 / waves),
            narrow,
            log(work.taps),
            log(work.batch) / 10,
            log(device.strain),
        ]
    )


def _place(work: Work) -> Vector:
    """Return where a call stands among others of its kind; nearby ones take alike long."""
    half = 4.0 * (work.dtype in HALF)
    sizes = (work.batch, work.rows, work.columns, work.inner)
    return np.array([half, log(work.bytes + 1), *(log(max(size, 1)) for size in sizes)])


@dataclass(frozen=True)
class _Regression:
    base: Vector
    own: Mapping[str, Vector]
    slopes: Vector
    names: Mapping[str, float]
    places: Vector
    residuals: Vector
    weights: Vector
    named: tuple[str, ...]
    devices: Mapping[str, float]
    on: tuple[str, ...]


class GpuTime:
    """Times of operators; see the module. `smooth`: whether what remains is smoothed."""

    def __init__(self, regressions: Mapping[Kind, _Regression], smooth: bool) -> None:
        self._regressions = regressions
        self._smooth = smooth

    def us(self, work: Work, device: Device) -> float:
        """Return microseconds of GPU time of a call; 0 of what launches nothing."""
        if work.kind == "none":
            return 0.0
        like: Kind = "matmul" if work.kind in PRODUCTS else "elementwise"
        regression = self._regressions.get(work.kind) or self._regressions.get(like)
        if regression is None:
            return roofline_us(work, device)
        said = float(properties(work, device) @ regression.slopes)
        said += regression.names.get(work.name, 0.0) + regression.devices.get(device.name, 0.0)
        if self._smooth:
            said += _smoothed(work, device, regression)
        base = float(shares_us(work, device) @ regression.own.get(device.name, regression.base))
        return base * float(np.exp(np.clip(said, -_MOST, _MOST)))

    def knows(self, work: Work) -> bool:
        """Whether an operator of this name was timed."""
        regression = self._regressions.get(work.kind)
        return regression is not None and work.name in regression.named


def fit(timings: Sequence[Timing], smooth: bool = True) -> GpuTime:
    """Fit regressions to timed calls, one for each kind."""
    by_kind: dict[Kind, list[Timing]] = defaultdict(list)
    for timing in timings:
        if timing.work.kind != "none" and timing.us > 0:
            by_kind[timing.work.kind].append(timing)
    return GpuTime({kind: _fit_kind(of_kind) for kind, of_kind in by_kind.items()}, smooth)


def _fit_kind(timings: Sequence[Timing]) -> _Regression:
    matrix = np.array([properties(one.work, one.device) for one in timings])
    shares = np.array([shares_us(one.work, one.device) for one in timings])
    us = np.array([one.us for one in timings])
    # Long calls matter for a step; the square root keeps a few from ruling all.
    weights = np.sqrt(np.array([one.us * one.calls for one in timings]))
    weights /= weights.mean()
    # Every device counts alike, however often it was timed.
    on = np.unique(np.array([one.device.name for one in timings]), return_inverse=True)[1]
    weights *= (weights.sum() / (on.max() + 1) / np.bincount(on, weights))[on]
    # Relative errors count: rows are divided by what was measured.
    scale = np.sqrt(weights) / us
    base, _ = nnls(shares * scale[:, None], us * scale)
    base = np.maximum(base, _LEAST)
    # A device that was timed has its own shares, drawn towards those of all.
    own = {}
    bases = np.tile(base, (len(timings), 1))
    for place, name in enumerate(sorted({one.device.name for one in timings})):
        rows = scale[:, None] * shares * (on == place)[:, None]
        held = np.diag(_HELD * np.sqrt((rows**2).sum(axis=0)) + _HELD)
        found, _ = nnls(
            np.vstack([rows, held]), np.concatenate([us * scale * (on == place), held @ base])
        )
        own[name] = np.maximum(found, _LEAST * base)
        bases[on == place] = own[name]
    target = np.log(us / (shares * bases).sum(axis=1))
    penalty = np.full(matrix.shape[1], _RIDGE)
    penalty[0] = 1e-6
    groups = (
        [one.work.name for one in timings],
        [one.device.name for one in timings],
    )
    offsets: tuple[dict[str, float], ...] = ({}, {})
    moved = [np.zeros(len(timings)) for _ in groups]
    slopes = np.zeros(matrix.shape[1])
    weighted = matrix * weights[:, None]
    # Slopes and offsets in turn: each is a ridge regression of what the others leave.
    for _ in range(12):
        shifted = target - sum(moved)
        slopes = np.linalg.solve(matrix.T @ weighted + np.diag(penalty), weighted.T @ shifted)
        for place, group in enumerate(groups):
            left = target - matrix @ slopes - sum(moved) + moved[place]
            offsets[place].update(_offsets(group, left, weights))
            moved[place] = np.array([offsets[place][name] for name in group])
    left = target - matrix @ slopes - sum(moved)
    return _Regression(
        base,
        own,
        slopes,
        offsets[0],
        np.array([_place(one.work) for one in timings]),
        left,
        weights,
        tuple(groups[0]),
        offsets[1],
        tuple(groups[1]),
    )


def _offsets(group: Sequence[str], left: Vector, weights: Vector) -> dict[str, float]:
    """Return the mean of what is left for each name of a group, shrunk towards nothing."""
    names, places = np.unique(np.array(group), return_inverse=True)
    sums = np.bincount(places, weights * left)
    totals = np.bincount(places, weights)
    return dict(zip(names.tolist(), (sums / (totals + _NAME_PRIOR)).tolist(), strict=True))


def _smoothed(work: Work, device: Device, regression: _Regression) -> float:
    """Return the mean of what the regression left at like shapes, shrunk towards nothing."""
    away = (regression.places - _place(work)) / _SMOOTH_WIDTH
    same = np.array(
        [
            (1.0 if name == work.name else _ELSEWHERE) * (1.0 if on == device.name else _ELSEWHERE)
            for name, on in zip(regression.named, regression.on, strict=True)
        ]
    )
    near = np.exp(-0.5 * (away**2).sum(axis=1)) * same
    return float((near * regression.residuals).sum() / (near.sum() + _SMOOTH_PRIOR))
