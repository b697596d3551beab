"""On which GPUs operators were timed like those of a step: of a kind, in full or in half precision.

A fit to all of them forecasts a kind on a GPU where it was never timed, too. So a forecast says for
which part of the GPU's time its operators were timed on that board itself, and else where.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from models.gpu_step.gpu_time import Timing
from models.gpu_step.operators import HALF, Work

TimedKinds = Mapping[str, Mapping[str, Sequence[str]]]
"""By kind of operator and units that compute it: types in which it was timed, by GPU."""


TimedShare = Mapping[str, Any]
"""`share`, 0 to 1, of the GPU's time of operators whose kind was timed on `device`, in `dtypes`;
`device` None: nobody timed it in that precision."""


def timed_kinds(timings: Iterable[Timing]) -> TimedKinds:
    """Return where each kind of operator was timed, in which types."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for timing in timings:
        found[kind_of(timing.work)][timing.device.name].add(timing.work.dtype)
    return {
        kind: {name: sorted(dtypes) for name, dtypes in sorted(by_device.items())}
        for kind, by_device in sorted(found.items())
    }


def kind_of(work: Work) -> str:
    """Return the kind of an operator with the precision of the units that compute it."""
    return f"{work.kind} {'half' if work.dtype in HALF else work.dtype}"


def timed_shares(
    timed: TimedKinds, device: str, spent_us: Iterable[tuple[str, float]]
) -> list[TimedShare]:
    """Return where the operators of a step were timed: on its own device first, the rest by share.

    Shares of other devices overlap: several timed one kind.

    Args:
        timed: by kind.
        device: that the step is on; others count for what was not timed on it.
        spent_us: kinds (`kind_of`) of the step with the GPU's time of each.
    """
    us_of: dict[str | None, float] = defaultdict(float)
    dtypes_of: dict[str | None, set[str]] = defaultdict(set)
    total_us = 0.0
    for kind, us in spent_us:
        by_device = timed.get(kind, {})
        total_us += us
        names: list[str | None] = [device] if device in by_device else [*by_device]
        for name in names or [None]:
            us_of[name] += us
            dtypes_of[name].update(by_device.get(name or "", ()))
    shares: list[TimedShare] = [
        {"share": us / total_us, "device": name, "dtypes": tuple(sorted(dtypes_of[name]))}
        for name, us in us_of.items()
        if us > 0
    ]
    return sorted(
        shares, key=lambda each: (each["device"] != device, each["device"] is None, -each["share"])
    )
