"""What a job takes beside training: launch, loading, checkpoints, and nodes that are taken away.

Source: J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps",
Future Generation Computer Systems 22 (2006) 303-312: the expected time of a job with checkpoints
(its complete model, equation 20); the interval is J. W. Young's ("A first order approximation to
the optimum checkpoint interval", Communications of the ACM 17 (1974) 530-531).
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, log, sqrt
from statistics import NormalDist

from pydantic import Field

from warehouse.records import BadInput, Record

LAUNCH_S = 150.0
"""Seconds from asking for a node to training on it: what Srift expects of EC2 (section 5.5)."""
LAUNCH_VARIES = 2.0
"""Nine of ten launches take between half and twice as long as the median: ours, nobody measured."""
CHECKPOINT_S = 10.0
"""Seconds of writing a checkpoint: ours, of networks of some hundred MB on a network disk."""
PREEMPTIONS_PER_NODE_HOUR = -log(1 - 0.2) / 730
"""A fifth of all nodes within a month: the last but one border of AWS's Spot Instance Advisor,
whose highest class is "> 20 %"."""
MOST = 100.0
"""How many times as long as its training a job may take before it counts as endless."""


class Overheads(Record):
    """What every job takes beside training, in seconds.

    Attributes:
        launch_s: until nodes train, at first and after each preemption.
        load_s: of loading the data, at first and after each preemption.
        checkpoint_s: of writing a checkpoint, and of reading it.
        checkpoint_every_s: seconds of training between two; None: Young's optimum where nodes may
            be taken away, no checkpoints elsewhere.
    """

    launch_s: float = Field(default=LAUNCH_S, ge=0)
    load_s: float = Field(default=0.0, ge=0)
    checkpoint_s: float = Field(default=CHECKPOINT_S, ge=0)
    checkpoint_every_s: float | None = Field(default=None, gt=0)


@dataclass(frozen=True)
class ExpectedDuration:
    """A job's time as a function of its training: `fixed_s` + `factor` times training.

    `checkpoint_every_s` None: it writes no checkpoints. `launch_s` of `fixed_s` vary.
    """

    fixed_s: float
    factor: float
    checkpoint_every_s: float | None
    launch_s: float = 0.0

    @cached_property
    def varied_fixed_s(self) -> list[float]:
        """Return what is fixed with launches that take more or less time, each as likely."""
        if not self.launch_s:
            return [self.fixed_s]
        law = NormalDist(0, log(LAUNCH_VARIES) / NormalDist().inv_cdf(0.95))
        times = (exp(law.inv_cdf((place + 0.5) / 10)) for place in range(10))
        return [self.fixed_s + self.launch_s * (time - 1) for time in times]

    def time_s(self, train_s: float) -> float:
        """Return how long the job is expected to take, seconds."""
        return self.fixed_s + self.factor * train_s


def expected_duration(
    overheads: Overheads, preemptions_per_hour: float, *, is_lost: bool = False
) -> ExpectedDuration:
    """Return what a job takes beside training.

    Args:
        overheads: of every job.
        preemptions_per_hour: how often any of its nodes is taken away, which stops all of them; 0
            of nodes bought on demand.
        is_lost: one of them is, halfway, beside that: the others start again, and train again what
            half of the time between checkpoints trained, or half of all where there are none.

    Raises:
        BadInput: that is so often that the job would never end.
    """
    usual = _usual_duration(overheads, preemptions_per_hour)
    if not is_lost:
        return usual
    every_s = usual.checkpoint_every_s
    fixed_s = usual.fixed_s + overheads.launch_s + overheads.load_s
    if every_s is None:
        return replace(usual, fixed_s=fixed_s, factor=usual.factor + 0.5)
    return replace(usual, fixed_s=fixed_s + overheads.checkpoint_s + every_s / 2)


def _usual_duration(overheads: Overheads, preemptions_per_hour: float) -> ExpectedDuration:
    fixed_s = overheads.launch_s + overheads.load_s
    rate_per_s = preemptions_per_hour / 3600
    write_s, every_s = overheads.checkpoint_s, overheads.checkpoint_every_s
    if not rate_per_s:
        factor = 1.0 if every_s is None else 1 + write_s / every_s
        return ExpectedDuration(fixed_s, factor, every_s, overheads.launch_s)
    every_s = every_s or young_s(write_s, rate_per_s)
    restart_s = fixed_s + write_s
    exponent = rate_per_s * (every_s + write_s + restart_s)
    factor = MOST if exponent > MOST else daly(every_s, write_s, restart_s, rate_per_s)
    if factor >= MOST:
        raise BadInput(
            f"spot nodes lose one every {1 / rate_per_s:.0f} s and would never end the job; write "
            "checkpoints more often or rent fewer nodes"
        )
    return ExpectedDuration(fixed_s, factor, every_s, overheads.launch_s)


def young_s(checkpoint_s: float, rate_per_s: float) -> float:
    """Return Young's interval between checkpoints, sqrt(2 δ M), at least a second."""
    return max(sqrt(2 * checkpoint_s / rate_per_s), 1.0)


def daly(every_s: float, checkpoint_s: float, restart_s: float, rate_per_s: float) -> float:
    """Return expected time over training: M e^(R/M) (e^((τ+δ)/M) - 1) / τ.

    Args:
        every_s: seconds of training between two checkpoints, τ.
        checkpoint_s: seconds that one takes, δ.
        restart_s: seconds from a failure until training goes on, R.
        rate_per_s: failures a second, 1/M.
    """
    between = exp(rate_per_s * (every_s + checkpoint_s)) - 1
    return exp(rate_per_s * restart_s) * between / (rate_per_s * every_s)
