"""A study: the YAML file that lists what to profile, predict and measure."""

import random
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Self

from pydantic import Field, field_validator, model_validator

from profilers.clusters import BackendChoice
from profilers.record_file import read_record
from studies.curve import BY_OPERATIONS, Curve, CurveKind
from warehouse import limits
from warehouse.amounts import Batch, Bytes, Nodes, Repeats, Seconds
from warehouse.names import Name
from warehouse.records import Backend, Record, Scenario


def _both_or_neither(section: Record, one: str, other: str) -> None:
    if (getattr(section, one) is None) != (getattr(section, other) is None):
        raise ValueError(f"{one} and {other} belong together; give both or neither")


class Links(Record):
    """How the link probes run: numbers of simultaneous flows, counted seconds, repeats.

    With `contention_s`, as many workers also train a network of one large tensor, for so long.
    """

    flows: tuple[Nodes, ...] = Field(min_length=1, max_length=limits.LISTED)
    seconds: Seconds
    trials: Repeats
    contention_s: Seconds | None = None

    @field_validator("flows")
    @classmethod
    def _single_flow_is_among_them(cls, flows: tuple[int, ...]) -> tuple[int, ...]:
        if 1 not in flows or min(flows) < 1:
            raise ValueError(f"should be 1 or more each and hold 1, found {list(flows)}")
        return tuple(sorted(set(flows)))

    @model_validator(mode="after")
    def _contention_needs_two(self) -> Self:
        if self.contention_s is not None and max(self.flows) == 1:
            raise ValueError("contention_s needs flows of 2 or more; add 2, or leave it out")
        return self


class Profile(Record):
    """How many steps of one worker are traced, and how many are run untraced beside them.

    With `capture`, the worker's packets are captured during the traced steps.
    """

    traced_steps: int = Field(ge=2, le=limits.REPEATS)
    untraced_steps: int = Field(ge=2, le=limits.REPEATS)
    capture: bool = False


class AllReduce(Record):
    """The grid of the all-reduce probe: bytes, ranks, transfers at once; and repeats of each."""

    sizes_bytes: tuple[Bytes, ...] = Field(min_length=1, max_length=limits.LISTED)
    world_sizes: tuple[Nodes, ...] = Field(min_length=1, max_length=limits.LISTED)
    concurrent: tuple[Nodes, ...] = Field(default=(1,), max_length=limits.LISTED)
    trials: Repeats


class Compute(Record):
    """Passes of PyTorch networks on one node: batch sizes, timed steps, and steps with hooks.

    With `slowdown_trials`, nodes also train beside all-reduces, so many steps, with each network
    whose curves are `fitted`; as many nodes of a type as any curve has. With `largest_up_to`, the
    largest batch that fits the memory of a node is searched for, up to that one; without, the
    largest of `batch_sizes` stands for it. With `interval`, steps are timed until they are known
    as well as that, or for `most_s`: see `profilers.torch_passes.profile`. Batch sizes that are
    `held_out` are timed apart, for nobody to see who predicts: they tell how well profiles know
    sizes that they do not have.
    """

    batch_sizes: tuple[Batch, ...] = Field(min_length=1, max_length=limits.LISTED)
    held_out: tuple[Batch, ...] = Field(default=(), max_length=limits.LISTED)
    trials: int = Field(ge=2, le=limits.REPEATS)
    watched_trials: Repeats
    interval: float | None = Field(default=None, gt=0, lt=1, allow_inf_nan=False)
    most_s: Seconds | None = None
    slowdown_trials: int | None = Field(default=None, ge=2, le=limits.REPEATS)
    largest_up_to: Batch | None = None

    @model_validator(mode="after")
    def _held_out_are_others(self) -> Self:
        if both := sorted({*self.batch_sizes} & {*self.held_out}):
            raise ValueError(f"held_out: {both} are among batch_sizes; hold out others")
        return self

    @model_validator(mode="after")
    def _interval_has_an_end(self) -> Self:
        _both_or_neither(self, "interval", "most_s")
        return self


class Measure(Record):
    """Windows of each scenario of TensorFlow: see `profilers.windows.Windows`."""

    windows: Repeats
    window_s: Seconds
    interval: float | None = Field(default=None, gt=0, lt=1, allow_inf_nan=False)
    most_windows: Repeats | None = None

    @model_validator(mode="after")
    def _interval_has_an_end(self) -> Self:
        _both_or_neither(self, "interval", "most_windows")
        return self


class Iterate(Record):
    """How many iterations of DDP are measured: see `profilers.iterations.Goal`."""

    iterations: int = Field(ge=20, le=limits.REPEATS)
    interval: float | None = Field(default=None, gt=0, lt=1, allow_inf_nan=False)
    most_s: Seconds | None = None


class Again(Record):
    """What rounds after the first repeat: a fraction of judged scenarios with W >= 2, by seed."""

    fraction: float = Field(gt=0, le=1, allow_inf_nan=False)
    seed: int = 0


_SETTINGS: Mapping[CurveKind, tuple[str, ...]] = {
    "asynchronous": ("links", "profile", "measure"),
    "ddp": ("links", "allreduce", "compute", "iterate"),
    "synchronous": ("profile", "measure"),
    "ddp_operations": ("profile", "iterate"),
}
"""The sections that say how curves of a kind are profiled and measured: all of them, no others."""


class Study(Record):
    """What a study file says."""

    name: Name
    description: str = ""
    backend: BackendChoice = "auto"
    links: Links | None = None
    profile: Profile | None = None
    allreduce: AllReduce | None = None
    compute: Compute | None = None
    measure: Measure | None = None
    iterate: Iterate | None = None
    again: Again = Again(fraction=1.0)
    curves: tuple[Curve, ...] = Field(min_length=1, alias="jobs")

    @model_validator(mode="after")
    def _jobs_differ(self) -> Self:
        seen: dict[Curve, int] = {}
        for index, curve in enumerate(self.curves):
            bare = curve.model_copy(update={"workers": ()})
            if bare in seen:
                raise ValueError(f"jobs[{index}] repeats jobs[{seen[bare]}]; merge their workers")
            seen[bare] = index
        return self

    @model_validator(mode="after")
    def _one_kind_with_its_settings(self) -> Self:
        for index, curve in enumerate(self.curves):
            if curve.kind != self.kind:
                raise ValueError(
                    f"jobs[{index}] is {curve.kind}, jobs[0] is {self.kind}; make a study of each"
                )
        used = _SETTINGS[self.kind]
        for section in dict.fromkeys(chain.from_iterable(_SETTINGS.values())):
            given = getattr(self, section) is not None
            if section in used and not given:
                raise ValueError(f"{section}: missing, and it has no default")
            if given and section not in used:
                raise ValueError(f"{section}: {self.kind} curves have no use for it; leave it out")
        return self

    @property
    def kind(self) -> CurveKind:
        """What all its curves are."""
        return self.curves[0].kind

    @property
    def metric(self) -> str:
        """What is predicted and measured of all its curves."""
        return self.curves[0].metric

    @property
    def metric_in_words(self) -> str:
        """What `metric` is, as figures and tables name it."""
        return self.curves[0].metric_in_words

    @property
    def baseline_in_words(self) -> str:
        """What predictions stand beside, as figures and tables name it."""
        return self.curves[0].baseline_in_words

    @property
    def profiled_once(self) -> bool:
        """Whether later rounds are predicted from what earlier ones profiled.

        Those by operations are where they repeat a part: every forecast needs all profiles.
        """
        return self.kind in BY_OPERATIONS and self.again.fraction < 1 and bool(self._drawn_from)

    def in_round(self, repeat: int) -> "Study":
        """Return what a round does: all of the first one, and what is repeated in later ones.

        What is repeated is drawn from judged scenarios of several workers, or of one where no
        others are. A `mix` is somebody's choice, and no sample is drawn of choices.
        """
        drawn_from = self._drawn_from
        if repeat == 1 or self.again.fraction == 1 or not drawn_from:
            return self
        count = max(1, round(self.again.fraction * len(drawn_from)))
        chosen = random.Random(self.again.seed).sample(drawn_from, count)
        curves = [
            curve.model_copy(update={"workers": workers})
            for curve in self.curves
            if (workers := _workers_of(curve, chosen))
        ]
        return self.model_copy(update={"curves": tuple(curves)})

    @property
    def _drawn_from(self) -> list[tuple[Curve, int]]:
        given = [curve for curve in self.curves if curve.is_judged and not curve.mix]
        every = [(curve, workers) for curve in given for workers in curve.workers]
        return [(curve, workers) for curve, workers in every if workers > 1] or every

    def job_of(self, scenario: Scenario, backend: Backend) -> Curve:
        """Return the curve that a scenario belongs to."""
        workers = scenario.strategy.workers
        return next(curve for curve in self.curves if curve.scenario(workers, backend) == scenario)


def _workers_of(curve: Curve, chosen: Iterable[tuple[Curve, int]]) -> tuple[int, ...]:
    """Return what is chosen of a curve; all of one that is not judged."""
    if not curve.is_judged:
        return curve.workers
    return tuple(sorted(workers for one, workers in chosen if one == curve))


def read_study(path: Path) -> Study:
    """Read a study file.

    Raises:
        BadInput: as `read_record`.
    """
    return read_record(path, Study, "study")
