"""Job files: what is to be trained on which nodes, within which limits, and what is known of it."""

from pathlib import Path
from typing import Literal

from pydantic import Field

import networks
from models.choice.limits import Minimize
from models.choice.offers import Offer
from models.srift.iteration import Performance
from models.srift.parameters import Parameters
from models.srift.predictor import Srift
from models.srift.profiles import NetworkKey
from pipelines.runtime import IfInfeasible
from pipelines.runtime.controller import Controller
from pipelines.runtime.plan import Planner
from pipelines.runtime.state import JobState, LearnedDurations
from profilers.clusters import BackendChoice, host_id
from profilers.clusters.node_types import node_group
from profilers.record_file import read_record
from warehouse import limits
from warehouse.fields import Batch, Mbps, Name, Pixels, Repeats, Seconds, SecondsOrNone
from warehouse.records import Backend, BadInput, Record, content_hash
from warehouse.sql import read_only

InterruptionKind = Literal["kill", "notice", "freeze"]


class Interruption(Record):
    """Once so many iterations are done, the lowest rank of a node type is taken away.

    `kill`: at once; `notice`: its provider says so before; `freeze`: it goes silent.
    """

    after_iterations: int = Field(ge=1, le=limits.ITERATIONS)
    node_type: str
    how: InterruptionKind = "kill"


class TrainingJob(Record):
    """A job file. Seconds not given are those of section 5.4.

    `profile` is a file, relative to this one; without it, the newest fit in the history is taken.

    `if_infeasible` says what happens where nothing meets the limits and nobody can be asked:
    abort, or relax the deadline, or the budget. `interruptions` are made on emulated nodes.
    """

    name: Name
    dnn: str
    image_size: Pixels
    samples: int = Field(ge=1, le=limits.SAMPLES)
    seed: int = Field(default=0, ge=0, lt=1 << 31)
    global_batch: Batch
    iterations: int = Field(ge=1, le=limits.ITERATIONS)
    minimize: Minimize
    deadline_s: Seconds | None = None
    budget_usd: float | None = Field(default=None, gt=0, le=limits.USD, allow_inf_nan=False)
    backend: BackendChoice = "auto"
    link_mbps: Mbps | None = None
    profile: Path | None = None
    offers: tuple[Offer, ...] = Field(min_length=1, max_length=limits.LISTED)
    launch_s: SecondsOrNone = 150.0
    restart_s: SecondsOrNone = 10.0
    detach_s: SecondsOrNone = 5.0
    beat_s: Seconds = 1.0
    silence_s: Seconds = 10.0
    checkpoint_every: int = Field(default=50, ge=1, le=limits.ITERATIONS)
    keep_checkpoints: Repeats = 2
    if_infeasible: IfInfeasible = "ask"
    interruptions: tuple[Interruption, ...] = Field(default=(), max_length=limits.LISTED)

    @property
    def training_id(self) -> str:
        """A hash of everything that decides the parameters: who goes on must agree."""
        decisive = {"dnn", "image_size", "samples", "seed", "global_batch", "iterations"}
        return content_hash(self.model_dump_json(include=decisive))

    def state(self) -> JobState:
        """Return where the job begins."""
        return JobState(
            iterations=self.iterations,
            deadline_s=self.deadline_s,
            budget_usd=self.budget_usd,
            launch=LearnedDurations(assumed_s=self.launch_s),
            restart=LearnedDurations(assumed_s=self.restart_s),
            detach=LearnedDurations(assumed_s=self.detach_s),
        )

    def controller(self, performance: Performance) -> Controller:
        """Return what decides for it."""
        planner = Planner(performance, self.offers, self.global_batch, self.minimize)
        return Controller(planner, self.silence_s)


def read_job(path: Path) -> TrainingJob:
    """Return the job of a file, its profile's path made absolute.

    Raises:
        BadInput: there is no such file, or it does not say what a job file has to.
        UnknownNetwork: as networks.
    """
    job = read_record(path, TrainingJob, "job")
    networks.check(job.dnn, job.image_size, "pytorch")
    for offer in job.offers:
        node_group("worker", offer.node_type, 1)
    if job.profile is None:
        return job
    return job.model_copy(update={"profile": path.parent / job.profile})


# What is known of a job's network on the nodes on offer: from the history, or from a file.


_FITS = Path(__file__).with_name("fits.sql")


def read_performance(job: TrainingJob, backend: Backend, home: Path) -> Performance:
    """Return the job's profile; without one, the newest fit of this backend and host that has it.

    Raises:
        BadInput: there is none, or it lacks a node type.
    """
    if job.profile is None:
        return _of_history(job, backend, home)
    performance = read_record(job.profile, Performance, "profile")
    for offer in job.offers:
        performance.node(offer.node_type)
    return performance


def _of_history(job: TrainingJob, backend: Backend, home: Path) -> Performance:
    fits = read_only(home, _FITS.read_text()).filter(backend=backend, host_id=host_id(backend))
    types = [offer.node_type for offer in job.offers]
    refused: BadInput | None = None
    for text in fits["parameters"]:
        model = Srift(Parameters.model_validate_json(text))
        try:
            performance = model.performance(NetworkKey(job.dnn, job.image_size), job.link_mbps)
            model.check_profiled(performance, types, job.link_mbps)
        except BadInput as error:
            refused = refused or error
        else:
            return performance
    raise refused or BadInput(
        f"job {job.name} names no profile, and srift has not been fitted on {backend} nodes of "
        "this host yet: list its network and node types in a study of srift, and `stepcast run` it"
    )
