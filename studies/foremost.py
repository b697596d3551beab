"""Which systems reports are about, of each kind of curve."""

from collections.abc import Mapping

from studies.curve import CurveKind

FOREMOST: Mapping[CurveKind, str] = {
    "asynchronous": "async_sgd",
    "ddp": "srift",
    "synchronous": "ceer",
    "ddp_operations": "ceer_pytorch",
}
"""The system that reports are about."""
BASELINE: Mapping[CurveKind, str] = {
    "asynchronous": "linear",
    "ddp": "ideal_scaling",
    "synchronous": "ceer_paper",
    "ddp_operations": "ceer_pytorch_paper",
}
"""What stands beside it."""
INDISPENSABLE = frozenset({*FOREMOST.values(), *BASELINE.values()})
"""Systems without which nothing is measured; others are left out where they cannot be fitted."""
