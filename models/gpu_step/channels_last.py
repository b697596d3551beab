"""How long kernels take in half precision where tensors are channels_last, beside contiguous ones.

Matrix units read channels last: cuDNN turns contiguous tensors round before a convolution in half
precision and after it, and has a faster batch norm of them, too. What either saves follows from
steps that somebody measured both ways; nobody did in full precision, and where products have TF32.

Source: NVIDIA, Deep Learning Performance, Convolutional Layers User's Guide (tensor layouts).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from models.gpu_step.device import Device
from models.gpu_step.operators import HALF, Work
from models.gpu_step.step import StepWork

_KINDS = ("convolution", "depthwise", "normalization")
"""Of which forward and backward are alike."""
_TOWARDS_NOTHING = 0.05
_BOUNDS = 0.2, 1.5


@dataclass(frozen=True)
class TwoLayouts:
    """Work of a step of contiguous tensors, and how many times as long it takes channels_last."""

    network: str
    work: StepWork
    device: Device
    ratio: float


def in_channels_last(work: StepWork) -> StepWork:
    """Return the same work of tensors that are channels_last."""
    return replace(
        work,
        works=tuple(
            replace(each, channels_last=each.dtype in HALF and kind_of(each) in _KINDS)
            for each in work.works
        ),
    )


def kind_of(work: Work) -> str:
    """Return the kind of an operator, forward and backward alike."""
    return work.kind.removesuffix("_backward")


def fit(pairs: Sequence[tuple[TwoLayouts, NDArray[np.float64]]]) -> Mapping[str, float]:
    """Return how many times as long each kind takes, by least squares.

    Args:
        pairs: steps, and microseconds of each of their works of contiguous tensors.
    """
    if not pairs:
        return {}
    rows, saved = [], []
    for both, us in pairs:
        spent = us * both.work.calls
        kinds = np.array([kind_of(work) for work in both.work.works])
        shares = [float(spent[kinds == kind].sum() / spent.sum()) for kind in _KINDS]
        rows.append(shares)
        saved.append(both.ratio - 1 + sum(shares))
    held = _TOWARDS_NOTHING**0.5 * np.eye(len(_KINDS))
    targets = [*saved, *held.sum(axis=0)]
    factors = scipy.optimize.lsq_linear(np.vstack([rows, held]), targets, _BOUNDS).x
    return dict(zip(_KINDS, factors.tolist(), strict=True))
