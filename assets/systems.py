"""Every predictor of throughput: what it is, and what it may see."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import polars as pl

from assets.job import Job, JobKind
from assets.parts import Probe
from models import cynthia, lin, line_rate, linear
from models.async_sgd import one_server
from models.async_sgd import predictor as async_sgd
from models.ceer import fitted as ceer
from models.ceer.parameters import PAPER
from models.profiled_run import refusal, refusal_of_mixed
from models.srift import ideal
from models.srift import predictor as srift
from warehouse.records import Scenario


class Fitted(Protocol):
    """A fitted model."""

    def predict(self, scenarios: Sequence[Scenario]) -> pl.DataFrame:
        """Return scenario_id, value, low and high, one row per scenario.

        Where value is NULL, a column `unknown` says why there is no more than an interval.
        """

    def parameters_json(self) -> str:
        """Return the fitted parameters."""


@dataclass(frozen=True)
class System:
    """A predictor, and what it is in one line.

    `version` is that of its code; it sees the runs of `probes`, and of those `tables`, which are
    given to `fit` by name (`ARGUMENTS`). It is about jobs of one `kind`. `declines` says of a
    profiled scenario and one that is to be predicted why the system has nothing to say, None if it
    has. With `one_server` it is about jobs with several servers, and sees their profile with one.
    With `first_type` it sees, of a job whose workers are of several types, the profile of the first
    one only. With `whole_study` one fit sees what all jobs of a round are profiled by, else each
    job has a fit of its own.
    """

    name: str
    what: str
    version: str
    probes: tuple[Probe, ...]
    tables: tuple[str, ...]
    fit: Callable[..., Fitted]
    kind: JobKind = "asynchronous"
    declines: Callable[[Scenario, Scenario], str | None] = lambda profiled, scenario: None
    one_server: bool = False
    first_type: bool = False
    whole_study: bool = False


FOREMOST: Mapping[JobKind, str] = {
    "asynchronous": "async_sgd",
    "ddp": "srift",
    "synchronous": "ceer",
    "ddp_operations": "ceer_pytorch",
}
"""The system that reports are about."""
BASELINE: Mapping[JobKind, str] = {
    "asynchronous": "linear",
    "ddp": "ideal_scaling",
    "synchronous": "ceer_paper",
    "ddp_operations": "ceer_pytorch_paper",
}
"""What stands beside it."""
INDISPENSABLE = frozenset({*FOREMOST.values(), *BASELINE.values()})
"""Systems without which nothing is measured; others are left out where they cannot be fitted."""


def seen_job(system: System, job: Job) -> Job:
    """Return the job whose profile a system sees to predict a job."""
    return job.on_one_server() if system.one_server else job


ARGUMENTS = {
    "run": "runs",
    "scenario": "scenarios",
    "operation": "operations",
    "edge": "edges",
    "timing": "timings",
    "step": "steps",
    "sample": "samples",
    "link": "links",
    "contention": "contention",
    "stream": "streams",
    "operation_shape": "shapes",
    "operation_time": "times",
    "dnn": "dnns",
    "compute": "compute",
    "layer": "layers",
    "layer_time": "layer_times",
    "allreduce": "allreduce",
    "cluster_node": "clusters",
}
"""Raw tables by the names that `fit` gives them."""
_BOTH: tuple[Probe, ...] = ("links", "tf_trace")
_STEPS = ("run", "scenario", "operation", "timing", "step", "sample", "link")

ASYNC_SGD = System(
    "async_sgd",
    "Throughput by simulation of the traced steps, with an interval (Li et al., ICPE 2020).",
    "7",
    (*_BOTH, "contention"),
    (*_STEPS, "edge", "contention"),
    async_sgd.fit,
)
ONE_SERVER = System(
    "async_sgd_one_server",
    "As async_sgd, on several servers from the profile of one: its variables put on them.",
    "4",
    (*_BOTH, "contention"),
    (*_STEPS, "edge", "contention"),
    one_server.fit,
    one_server=True,
)
LINEAR = System(
    "linear",
    "Baseline: W workers do W times the steps of one.",
    "1",
    ("tf_trace",),
    ("run", "scenario", "sample"),
    linear.fit,
    declines=refusal,
)
LIN = System(
    "lin",
    "Baseline: workers queue for each phase of a step (Lin et al., MASCOTS 2018).",
    "1",
    _BOTH,
    (*_STEPS, "stream"),
    lin.fit,
    declines=refusal_of_mixed,
    first_type=True,
)
CYNTHIA = System(
    "cynthia",
    "Baseline: a closed form of computation, communication and utilisation (ICPP 2019).",
    "1",
    _BOTH,
    _STEPS,
    cynthia.fit,
    declines=refusal_of_mixed,
    first_type=True,
)
CYNTHIA_HALF = System(
    "cynthia_half",
    "Baseline: Cynthia with communication times halved (ICPE 2020, section 4.4).",
    "1",
    _BOTH,
    _STEPS,
    partial(cynthia.fit, halved=True),
    declines=refusal_of_mixed,
    first_type=True,
)
LINE_RATE = System(
    "line_rate",
    "Bound: the server's link is full in its busier direction, whatever W.",
    "1",
    _BOTH,
    ("run", "scenario", "operation", "link"),
    line_rate.fit,
    declines=refusal,
    first_type=True,
)
SRIFT = System(
    "srift",
    "Iterations by simulation of computing and all-reduces, with an interval (Luo et al., 2022).",
    "4",
    ("links", "allreduce", "torch_memory", "torch_compute", "slowdown"),
    (
        "run",
        "scenario",
        "compute",
        "layer",
        "layer_time",
        "allreduce",
        "cluster_node",
        "link",
        "sample",
    ),
    srift.fit,
    kind="ddp",
    whole_study=True,
)
IDEAL_SCALING = System(
    "ideal_scaling",
    "Baseline: an iteration takes as long as on the slowest node alone.",
    "1",
    ("torch_compute",),
    ("run", "scenario", "compute"),
    ideal.fit,
    kind="ddp",
    whole_study=True,
)
CEER = System(
    "ceer",
    "Steps from operations of other networks, with an interval (Hafeez and Gandhi, Ceer).",
    "3",
    ("tf_operations", "tf_sync"),
    ("run", "scenario", "operation", "operation_shape", "operation_time", "sample", "dnn"),
    ceer.fit,
    kind="synchronous",
    declines=lambda profiled, scenario: ceer.declines(scenario),
    whole_study=True,
)
CEER_PAPER = replace(
    CEER,
    name="ceer_paper",
    what="Baseline: Ceer as published, with medians of light operations and S by parameters alone.",
    version="1",
    fit=partial(ceer.fit, settings=PAPER),
)
CEER_PYTORCH = replace(
    CEER,
    name="ceer_pytorch",
    what="As ceer, of PyTorch's operators.",
    version="2",
    probes=("torch_operations", "torch_throughput"),
    fit=partial(ceer.fit, framework="pytorch"),
    kind="ddp_operations",
    declines=lambda profiled, scenario: ceer.declines(scenario, "pytorch"),
)
CEER_PYTORCH_PAPER = replace(
    CEER_PYTORCH,
    name="ceer_pytorch_paper",
    what="As ceer_paper, of PyTorch's operators.",
    version="1",
    fit=partial(ceer.fit, framework="pytorch", settings=PAPER),
)
SYSTEMS = (
    ASYNC_SGD,
    ONE_SERVER,
    LINEAR,
    LIN,
    CYNTHIA,
    CYNTHIA_HALF,
    LINE_RATE,
    SRIFT,
    IDEAL_SCALING,
    CEER,
    CEER_PAPER,
    CEER_PYTORCH,
    CEER_PYTORCH_PAPER,
)
