"""How long kernels take in half precision where tensors are channels_last, beside contiguous ones.

Matrix units read channels last: cuDNN turns contiguous tensors round before a convolution in half
precision and after it, and has a faster batch norm of them, too. What either saves follows from
steps that somebody measured both ways; nobody did in full precision, and where products have TF32.
A convolution saves a share of the time in which its bytes are moved, for each of its products.

A network that permutes its tensors has some in channels_last, whatever it was given. PyTorch leaves
depthwise convolutions of these to cuDNN, whose kernels for full precision "are not very fast"
(pytorch/pytorch issue 15513): they are taken to load both operands of each multiplication anew.

Sources: NVIDIA, Deep Learning Performance, Convolutional Layers User's Guide (tensor layouts);
ATen/native/Convolution.cpp, `use_cudnn_depthwise`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.gpu_step.columns import Calls, Vector
from models.gpu_step.device import Device
from models.gpu_step.operators import CONVOLUTIONS, DEPTHWISE, HALF, NORMS, Work, laid_out
from models.gpu_step.step import StepWork

_LOADED_BYTES = 4.0
"""Of an operation: both operands of a multiplication and an addition, in float32."""
_TURNED = 2.0
"""Times of moving where nobody measured: what is turned round is read once and written once."""
_TIMES = np.linspace(0.0, 4.0, 81)
_HELD = 0.003


@dataclass(frozen=True)
class TwoLayouts:
    """Work of a step of contiguous tensors, and how many times as long it takes channels_last."""

    network: str
    work: StepWork
    device: Device
    ratio: float


def in_channels_last(work: StepWork) -> StepWork:
    """Return the same work of tensors that are channels_last."""
    kinds = (*CONVOLUTIONS, *DEPTHWISE, *NORMS)
    works = [laid_out(each, each.dtype in HALF and each.kind in kinds) for each in work.works]
    return replace(work, works=tuple(works))


def in_layout(us: Vector, works: Sequence[Work], calls: Calls, saved: Sequence[float]) -> Vector:
    """Return [devices, calls]: microseconds of calls of a kind, of which some are channels_last.

    Args:
        us: of contiguous tensors.
        works: what is called.
        calls: the same as columns.
        saved: by convolutions, times of moving their bytes; by norms, a share of their time.
    """
    of_layout = np.array([work.channels_last for work in works])
    if not of_layout.any():
        return us
    if works[0].kind in DEPTHWISE:
        last_us = np.maximum(us, 1e6 * calls.flops * _LOADED_BYTES / calls.bandwidth)
    elif calls.is_convolution:
        last_us = _turned(us, works, calls, saved[0])
    else:
        last_us = us * (1 - saved[1]) if works[0].kind in NORMS else us
    return np.where(of_layout, last_us, us)


def _turned(us: Vector, works: Sequence[Work], calls: Calls, times: float) -> Vector:
    """Return times of convolutions whose bytes nobody turns round; peaks bind them, too."""
    moved_us = 1e6 * calls.move_s * np.array([work.tensors for work in works])
    turned_us: Vector = np.maximum(us - times * moved_us, np.minimum(us, calls.least_us()))
    return turned_us


def fit(pairs: Sequence[tuple[TwoLayouts, Vector]]) -> Sequence[float]:
    """Return what convolutions and norms save, by least squares.

    Args:
        pairs: steps, and microseconds of each of their works of contiguous tensors.
    """
    normed, ratios, by_times = np.zeros(len(pairs)), np.zeros(len(pairs)), []
    for place, (both, us) in enumerate(pairs):
        works, spent_us = both.work.works, us * both.work.calls
        total_us = spent_us.sum()
        normed[place] = spent_us[[work.kind in NORMS for work in works]].sum() / total_us
        ratios[place] = both.ratio
        at = [number for number, work in enumerate(works) if work.kind in CONVOLUTIONS]
        some, many = [works[number] for number in at], both.work.calls[at]
        calls = Calls(some, [both.device]) if some else None
        by_times.append(
            [
                0.0 if calls is None else (us[at] - _turned(us[at], some, calls, times)[0]) @ many
                for times in _TIMES
            ]
            / total_us
        )
    best = (np.inf, _TURNED, 0.0)
    for times, turned in zip(_TIMES, np.array(by_times).reshape(-1, len(_TIMES)).T, strict=True):
        left = 1 - turned - ratios
        share = float(np.clip(normed @ left / (normed @ normed + _HELD), 0.0, 0.8))
        error = (left - share * normed) @ (left - share * normed)
        error += _HELD * ((times - _TURNED) ** 2 + share**2)
        best = min(best, (float(error), float(times), share))
    return best[1:]
