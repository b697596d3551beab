"""Every system. A new one is a module of `models` and a line here."""

from collections.abc import Mapping

from models.async_sgd.systems import ASYNC_SGD, ASYNC_SGD_PAPER, ONE_SERVER
from models.baselines import CYNTHIA, CYNTHIA_HALF, IDEAL_SCALING, LIN, LINE_RATE, LINEAR
from models.ceer.systems import CEER, CEER_PAPER, CEER_PYTORCH, CEER_PYTORCH_PAPER
from models.choice.offers import Search
from models.ernest import ERNEST, ERNEST_POOLED
from models.gpu_step.system import GPU_STEP
from models.predictddl.systems import (
    BLACK_BOX,
    GRAY_BOX,
    HISTOGRAM,
    LOG_LINEAR,
    PAPER,
    PREDICTDDL,
    UNTRAINED,
)
from models.srift.policies import propose
from models.srift.system import SRIFT, SRIFT_PAPER
from models.system import System

SYSTEMS: tuple[System, ...] = (
    ASYNC_SGD,
    ASYNC_SGD_PAPER,
    ONE_SERVER,
    LINEAR,
    LIN,
    CYNTHIA,
    CYNTHIA_HALF,
    LINE_RATE,
    SRIFT,
    SRIFT_PAPER,
    IDEAL_SCALING,
    CEER,
    CEER_PAPER,
    CEER_PYTORCH,
    CEER_PYTORCH_PAPER,
    PREDICTDDL,
    PAPER,
    UNTRAINED,
    HISTOGRAM,
    LOG_LINEAR,
    GPU_STEP,
    BLACK_BOX,
    GRAY_BOX,
    ERNEST,
    ERNEST_POOLED,
)

SEARCHES: Mapping[System, Search] = {SRIFT: propose}
"""Systems that search by themselves. It is no part of a system: what it proposes fits nothing."""
