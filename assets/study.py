"""A study: the YAML file that lists what to profile, predict and measure."""

import random
from collections.abc import Iterator
from typing import Self

from pydantic import Field, field_validator, model_validator

from profilers.clusters import BackendChoice
from profilers.clusters.node_types import node_group
from warehouse.records import (
    Backend,
    NodeGroup,
    Order,
    Placement,
    Record,
    Scenario,
    Strategy,
    Workload,
)


class Links(Record):
    """How the link probes run: numbers of simultaneous flows, counted seconds, repeats.

    With `contention_s`, as many workers also train a network of one large tensor, for so long.
    """

    flows: tuple[int, ...] = Field(min_length=1)
    seconds: float = Field(gt=0)
    trials: int = Field(ge=1)
    contention_s: float | None = Field(default=None, gt=0)

    @field_validator("flows")
    @classmethod
    def _single_flow_is_among_them(cls, flows: tuple[int, ...]) -> tuple[int, ...]:
        if 1 not in flows or min(flows) < 1:
            raise ValueError(f"should be 1 or more each and hold 1, found {list(flows)}")
        return tuple(sorted(set(flows)))


class Profile(Record):
    """How many steps of one worker are traced, and how many are run untraced beside them.

    With `capture`, the worker's packets are captured during the traced steps.
    """

    traced_steps: int = Field(ge=2)
    untraced_steps: int = Field(ge=2)
    capture: bool = False


class Measure(Record):
    """Measured windows of each scenario, and their length."""

    windows: int = Field(ge=1)
    window_s: float = Field(gt=0)


class Again(Record):
    """What rounds after the first repeat: a fraction of the scenarios with W >= 2, by seed."""

    fraction: float = Field(gt=0, le=1)
    seed: int = 0


class Job(Record):
    """One training job, and the numbers of workers to predict and measure it with.

    It is profiled on links of `link_mbps` unless `profiled_link_mbps` names another speed, and with
    one server also if there are several. `cross_traffic` is the fraction of the servers' links that
    others use while it trains, not while it is profiled.
    """

    dnn: str
    image_size: int = Field(ge=8)
    batch_size: int = Field(ge=1)
    worker: str
    server: str
    servers: int = Field(default=1, ge=1)
    placement: Placement = "round_robin"
    order: Order = "framework"
    link_mbps: float = Field(gt=0)
    profiled_link_mbps: float | None = Field(default=None, gt=0)
    cross_traffic: float | None = Field(default=None, gt=0, lt=1)
    workers: tuple[int, ...] = Field(min_length=1)

    @field_validator("workers")
    @classmethod
    def _at_least_one(cls, workers: tuple[int, ...]) -> tuple[int, ...]:
        if min(workers) < 1:
            raise ValueError(f"W should be 1 or more, found {min(workers)}")
        return tuple(sorted(set(workers)))

    def nodes(self, workers: int) -> tuple[NodeGroup, NodeGroup]:
        """Return the worker and server groups for a number of workers."""
        return (
            node_group("worker", self.worker, workers),
            node_group("server", self.server, self.servers),
        )

    def cluster(self, workers: int) -> tuple[NodeGroup, ...]:
        """Return the groups of nodes to train on, with the neighbour that sends cross traffic."""
        others = [node_group("neighbour", self.server, 1)] if self.cross_traffic else []
        return (*self.nodes(workers), *others)

    def scenario(self, workers: int, backend: Backend) -> Scenario:
        """Return the scenario with a number of workers; only emulated links are shaped."""
        return Scenario(
            workload=Workload(dnn=self.dnn, image_size=self.image_size, batch_size=self.batch_size),
            strategy=Strategy(
                workers=workers,
                servers=self.servers,
                placement=self.placement,
                order=self.order,
            ),
            nodes=self.nodes(workers),
            link_mbps=self.link_mbps if backend == "emulated" else None,
            cross_traffic=self.cross_traffic if backend == "emulated" else None,
        )

    def scenarios(self, backend: Backend) -> tuple[Scenario, ...]:
        """Return what is predicted and measured, by number of workers."""
        return tuple(self.scenario(workers, backend) for workers in self.workers)

    def link_speeds(self, backend: Backend) -> tuple[float | None, ...]:
        """Return the speeds of the links it is profiled on and trains on; once if they agree."""
        speeds = self.profiled(backend).link_mbps, self.scenario(1, backend).link_mbps
        return tuple(dict.fromkeys(speeds))

    def profiled(self, backend: Backend) -> Scenario:
        """Return what is profiled: the job with one worker, on the links it is profiled on."""
        one = self.scenario(1, backend).model_copy(update={"cross_traffic": None})
        if self.profiled_link_mbps is None or one.link_mbps is None:
            return one
        return one.model_copy(update={"link_mbps": self.profiled_link_mbps})

    def on_one_server(self) -> "Job":
        """Return this job as it is with a single parameter server."""
        return self.model_copy(update={"servers": 1, "placement": "round_robin"})

    def as_profiled(self) -> tuple["Job", ...]:
        """Return the jobs of which it is profiled: itself, and with one server if it has more."""
        return tuple(dict.fromkeys((self, self.on_one_server())))


class Study(Record):
    """What a study file says."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    description: str = ""
    backend: BackendChoice = "auto"
    links: Links
    profile: Profile
    measure: Measure
    again: Again = Again(fraction=1.0)
    jobs: tuple[Job, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _jobs_differ(self) -> Self:
        seen: dict[Job, int] = {}
        for index, job in enumerate(self.jobs):
            bare = job.model_copy(update={"workers": ()})
            if bare in seen:
                raise ValueError(f"jobs[{index}] repeats jobs[{seen[bare]}]; merge their workers")
            seen[bare] = index
        return self

    def in_round(self, repeat: int) -> "Study":
        """Return what a round does: all of the first one, and what is repeated in later ones."""
        if repeat == 1 or self.again.fraction == 1:
            return self
        several = [(job, workers) for job in self.jobs for workers in job.workers if workers > 1]
        count = max(1, round(self.again.fraction * len(several)))
        chosen = random.Random(self.again.seed).sample(several, count)
        jobs = [
            job.model_copy(update={"workers": tuple(sorted(w for one, w in chosen if one == job))})
            for job in self.jobs
            if any(one == job for one, _ in chosen)
        ]
        return self.model_copy(update={"jobs": tuple(jobs)})

    def job_of(self, scenario: Scenario, backend: Backend) -> Job:
        """Return the job that a scenario belongs to."""
        workers = scenario.strategy.workers
        return next(job for job in self.jobs if job.scenario(workers, backend) == scenario)


def links_measured(study: Study, backend: Backend) -> Iterator[tuple[float | None, Job]]:
    """Yield each distinct link speed once, with the job of most workers that uses it."""
    by_speed: dict[float | None, Job] = {}
    for job in sorted(study.jobs, key=lambda job: max(job.workers)):
        by_speed |= dict.fromkeys(job.link_speeds(backend), job)
    yield from by_speed.items()


def contention_measured(study: Study, backend: Backend) -> Iterator[tuple[float | None, Job]]:
    """Yield each link speed and worker type once, with the job of most workers that has them."""
    if study.links.contention_s is None:
        return
    found: dict[tuple[float | None, str], Job] = {}
    for job in sorted(study.jobs, key=lambda job: max(job.workers)):
        found |= {(speed, job.worker): job for speed in job.link_speeds(backend)}
    for (speed, _), job in found.items():
        yield speed, job
