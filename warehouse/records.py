"""The words of the house as types: errors, scenarios, runs, predictions.

Every other room speaks in these. Standard library and pydantic only, so that a bare node can
import it.
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Literal

from pydantic import AwareDatetime, Field, FiniteFloat, JsonValue, model_validator

from warehouse.record import Record as Record
from warehouse.record import SparseRecord as SparseRecord
from warehouse.strategy import Order as Order
from warehouse.strategy import Placement as Placement
from warehouse.strategy import Strategy as Strategy
from warehouse.strategy import StrategyKind as StrategyKind

Backend = Literal["emulated", "loopback", "ssh", "ec2", "imported"]
Purpose = Literal["profile", "measurement"]
RunStatus = Literal["ok", "failed"]
Role = Literal["worker", "server", "neighbour"]
Precision = Literal["float32", "tf32", "bfloat16", "float16"]
Optimizer = Literal["sgd", "momentum", "adam", "adamw", "adamw_8bit"]
MemoryFormat = Literal["contiguous", "channels_last"]
Compiled = Literal[False, "default", "reduce-overhead"]
Market = Literal["on_demand", "spot"]
SubjectKind = Literal["scenario", "operation", "allreduce", "job", "external"]


WHAT_IF = r"^(lost-node|(slow-gpu|slow-link)=0?\.([1-9]\d{0,2}|0[1-9]\d?|00[1-9]))$"
"""Faults of large clusters, as they are spelled."""


class StepcastError(Exception):
    """An error with one clear line for the user; `exit_code` is what the command line returns."""

    exit_code = 1


class BadInput(StepcastError):
    """The user asked for something that cannot be: say what, what was expected, what to do."""

    exit_code = 2


class MissingTool(StepcastError):
    """A program or permission this machine lacks; the message names the command that mends it."""

    exit_code = 2


class WarehouseBusy(StepcastError):
    """Another process holds the warehouse; the message names its pid."""

    exit_code = 2


class DamagedFile(BadInput):
    """A file of the home is not what was written; the message names what is lost and the way on."""


class ProbeFailed(StepcastError):
    """A probe did not finish; `detail` holds what the failed process wrote to stderr."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


@contextmanager
def error_context(
    where: str, *kinds: type[Exception], kind: type[StepcastError] = BadInput
) -> Iterator[None]:
    """Say what errors of a block are about.

    Args:
        where: begins the message.
        kinds: of errors; none: `BadInput`.
        kind: what they become.

    Raises:
        StepcastError: of this kind, with the message of the error on one line.
    """
    told = kinds or (BadInput,)
    try:
        yield
    except told as error:
        why, file = getattr(error, "strerror", None), f"{getattr(error, 'filename', None) or ''}"
        words = (f"{why}: {file}" if file not in where else why) if why else str(error)
        raise kind(f"{where}: {' '.join(words.split())}") from error


class TrainingWorkload(SparseRecord):
    """What is trained. `batch_size` is per device; images are square, `image_size` pixels.

    Attributes:
        image_size: 0: what a network takes is no images.
        batch_size: samples of a forward pass; a step has `accumulate` of these.
        precision: float32 is PyTorch's default: TF32 in cuDNN, not in matrix products; tf32 has it
            in both. bfloat16 and float16 are autocast, with parameters in float32; float16 also
            scales the loss.
        optimizer: PyTorch's with its defaults; sgd has no momentum; adamw_8bit is bitsandbytes'.
        accumulate: passes whose gradients are added before the optimizer's step.
        compiled: mode of torch.compile; False: the step is eager.
        sequence_length: words of a sample; None: it has none, or its network says it.
    """

    SPARSE = ("accumulate", "memory_format", "compiled", "sequence_length")

    dnn: str
    framework: Literal["tensorflow", "pytorch"] = "tensorflow"
    image_size: int = Field(ge=0)
    batch_size: int = Field(ge=1)
    precision: Precision = "float32"
    optimizer: Optimizer = "sgd"
    dataset: Literal["synthetic"] = "synthetic"
    accumulate: int = Field(default=1, ge=1)
    memory_format: MemoryFormat = "contiguous"
    compiled: Compiled = False
    sequence_length: int | None = Field(default=None, ge=1)

    @property
    def recipe(self) -> str:
        """How it is trained, in words; empty: in float32, by plain SGD, one pass a step."""
        words = (
            self.precision if self.precision != "float32" else "",
            self.optimizer if self.optimizer != "sgd" else "",
            f"{self.accumulate} passes a step" if self.accumulate > 1 else "",
            self.memory_format if self.memory_format != "contiguous" else "",
            {False: "", "default": "compiled"}.get(self.compiled, f"compiled ({self.compiled})"),
        )
        return ", ".join(filter(None, words))

    @property
    def label(self) -> str:
        """Short human name: the network, what it is given, and how it is trained."""
        words = "" if self.sequence_length is None else f" {self.sequence_length} words"
        network = f"{on_images(self.dnn, self.image_size)}{words} b{self.batch_size}"
        return ", ".join(filter(None, (network, self.recipe)))


class NodeGroup(SparseRecord):
    """`count` nodes of one type in one role.

    `cpu_share` (cores, None: unlimited), `core_gflops` (of a steady core; None: of this host, fast
    or slow as it is), `threads` (within an operation), `inter_op_threads` (operations at once) and
    `isa` (oneDNN cap, None: native) are copied from the node type, so that redefining a type makes
    a new scenario. `batch_size` is that of each of its devices, where it differs from the
    workload's (an all-reduce of nodes of several types).
    """

    SPARSE = ("batch_size", "core_gflops")

    role: Role
    node_type: str
    count: int = Field(ge=1)
    cpu_share: float | None = Field(default=None, gt=0)
    threads: int = Field(default=1, ge=1)
    inter_op_threads: int = Field(default=4, ge=1)
    isa: str | None = None
    memory_bytes: int | None = Field(default=None, gt=0)
    batch_size: int | None = Field(default=None, ge=1)
    core_gflops: float | None = Field(default=None, gt=0)

    @property
    def one(self) -> "NodeGroup":
        """One of these nodes: equal ones are alike."""
        return self.model_copy(update={"count": 1})

    @property
    def bare(self) -> "NodeGroup":
        """One of these nodes without a batch: the node type as it was defined."""
        return self.model_copy(update={"count": 1, "batch_size": None})


class Scenario(SparseRecord):
    """Workload + strategy + nodes + link speed; its hash is `scenario_id`.

    `link_mbps` is the shaped speed of every node's link in each direction, None where links are
    not shaped. It names the scenario; predictors use the speed the link probe measured.
    `cross_traffic` is the fraction of it that a neighbour which does not train exchanges with each
    server, in each direction. `what_if` a node is lost halfway, a GPU has a part of its speed, or a
    link a part of its bandwidth; of GPUs.
    """

    SPARSE = ("cross_traffic", "what_if")
    __slots__ = ("_hashed",)

    schema_version: Literal[1] = 1
    workload: TrainingWorkload
    strategy: Strategy
    nodes: tuple[NodeGroup, ...]
    link_mbps: float | None = Field(default=None, gt=0)
    cross_traffic: float | None = Field(default=None, gt=0, lt=1)
    what_if: str | None = Field(default=None, pattern=WHAT_IF)

    def __hash__(self) -> int:
        """Return that of its fields, made once: plans look the same up again and again."""
        try:
            return int(object.__getattribute__(self, "_hashed"))
        except AttributeError:
            made = hash(tuple(getattr(self, name) for name in Scenario.model_fields))
            object.__setattr__(self, "_hashed", made)  # in no field, so no copy has it
            return made

    @model_validator(mode="after")
    def _parts_agree(self) -> "Scenario":
        if self.cross_traffic is not None and self.link_mbps is None:
            raise ValueError("cross_traffic is a fraction of link_mbps, which is missing")
        if self.strategy.kind == "single" and self.link_mbps is not None:
            raise ValueError("a single device has no link; leave out link_mbps")
        own = [node.batch_size for node in self.nodes if node.batch_size is not None]
        if own and self.strategy.kind != "all_reduce":
            raise ValueError("only nodes of an all_reduce may have a batch_size of their own")
        if self.workload.batch_size in own:
            raise ValueError(
                f"a group repeats batch_size {self.workload.batch_size} of the workload; leave "
                "it out there"
            )
        for role, count in (("worker", self.strategy.workers), ("server", self.strategy.servers)):
            nodes = sum(group.count for group in self.nodes if group.role == role)
            if nodes != count:
                raise ValueError(f"strategy asks for {count} {role}(s) but nodes list {nodes}")
        return self

    @property
    def scenario_id(self) -> str:
        """First 16 hex digits of the SHA-256 of the canonical JSON."""
        return _scenario_id(self)

    @property
    def label(self) -> str:
        """Short human name, as tables print it."""
        load, link, strategy = self.workload.label, self.link_mbps, self.strategy
        if strategy.kind == "single":
            return f"{load}, single{self._kinds}"
        placed = f" {strategy.placement}" if strategy.placement != "round_robin" else ""
        servers = f"M={strategy.servers}{placed}" if strategy.servers > 1 else ""
        if not strategy.has_servers:
            each, kind = strategy.devices_per_node, strategy.kind.replace("_", "-")
            servers = f"{kind}{f' of {each} devices each' if each > 1 else ''}"
            servers = ", ".join(filter(None, (servers, strategy.layout)))
        parts = (
            load,
            "unshaped" if link is None else f"{link:g} Mb/s",
            f"{self.cross_traffic:.0%} cross traffic" if self.cross_traffic else "",
            strategy.order if strategy.order != "framework" else "",
            servers,
            f"W={strategy.workers}{self._kinds}",
            self.what_if or "",
        )
        return ", ".join(filter(None, parts))

    @property
    def training(self) -> tuple[str, str, str]:
        """What is told apart wherever runs or forecasts are compared: none stands for another.

        The framework, the strategy, and how the network is trained (`TrainingWorkload.recipe`).
        """
        kind = " ".join(filter(None, (self.strategy.kind, self.strategy.layout)))
        return self.workload.framework, kind, self.workload.recipe

    @property
    def worker_groups(self) -> tuple[NodeGroup, ...]:
        """The groups of workers."""
        return tuple(group for group in self.nodes if group.role == "worker")

    @property
    def _kinds(self) -> str:
        """How many workers there are of each kind; with servers only if there are several."""
        counts: dict[str, int] = {}
        for group in sorted(self.worker_groups, key=lambda group: group.node_type):
            own = "" if group.batch_size is None else f" b{group.batch_size}"
            kind = f"{group.node_type}{own}"
            counts[kind] = counts.get(kind, 0) + group.count
        named = " + ".join(f"{count} {kind}" for kind, count in counts.items())
        tells = len(counts) > 1 or not self.strategy.has_servers
        return f" ({named})" if tells else ""


class Run(Record):
    """One execution of a probe.

    `purpose` says whether predictors may see it: a `profile` is input to fits, a `measurement`
    judges predictions and stays hidden from them. `repeat` counts the rounds of a study, each on
    a re-created cluster. A failed run keeps its `error` and has no samples.
    """

    run_id: str
    probe: str
    purpose: Purpose
    study: str
    repeat: int = Field(ge=1)
    scenario_id: str | None
    backend: Backend
    status: RunStatus
    error: str | None = None
    started_at: AwareDatetime
    ended_at: AwareDatetime
    host_id: str
    host: Mapping[str, str]
    software: Mapping[str, str]
    config: Mapping[str, str | int | float | bool | None]
    cost_usd: float | None = None

    @property
    def took_s(self) -> float:
        """Seconds from its start to its end."""
        return (self.ended_at - self.started_at).total_seconds()


class Prediction(Record):
    """One system's forecast of one metric of one subject, as the ledger keeps it.

    `value` is None where a system can only say how little or much it may be: then `low` and `high`
    are there. `price_snapshot` names the prices it used, `code_version` the Stepcast that made it.
    What was merely asked for belongs to no study and round, and no board of a study has it.
    """

    system: str
    model_version: str
    fit_id: str
    subject_kind: SubjectKind = "scenario"
    subject_id: str
    backend: Backend
    host_id: str
    study: str | None
    repeat: int | None
    metric: str
    unit: str
    value: FiniteFloat | None
    low: FiniteFloat | None
    high: FiniteFloat | None
    price_snapshot: str | None = None
    code_version: str
    made_at: AwareDatetime

    @model_validator(mode="after")
    def _says_something(self) -> "Prediction":
        if self.value is None and (self.low is None or self.high is None):
            raise ValueError("expected a value, or both ends of an interval")
        if (self.study is None) != (self.repeat is None):
            raise ValueError("expected a study and its round, or neither")
        return self


class Recommendation(Record):
    """The configuration a system recommends for a job, as the ledger keeps it.

    `choice` is None where nothing meets the constraints.
    """

    system: str
    backend: Backend
    job: Mapping[str, JsonValue]
    objective: str
    constraints: Mapping[str, JsonValue]
    choice: Mapping[str, JsonValue] | None
    alternatives: tuple[Mapping[str, JsonValue], ...]
    price_snapshot: str | None
    fit_ids: tuple[str, ...]
    code_version: str
    made_at: AwareDatetime


class Price(Record):
    """What one node of a type costs, US dollars per hour."""

    provider: str
    node_type: str
    region: str | None = None
    zone: str | None = None
    market: Market
    usd_per_hour: FiniteFloat = Field(ge=0)
    observed_at: AwareDatetime | None = None
    source: str


def on_images(dnn: str, image_size: int) -> str:
    """Return a network and the side of its images in words; of one that takes none, its name."""
    return f"{dnn} {image_size}px" if image_size else dnn


@lru_cache(maxsize=10_000)
def _scenario_id(scenario: Scenario) -> str:
    # Rounds compare every part with every run: without this they take a second of a large study.
    return content_hash(scenario.canonical_json())


def content_hash(text: str) -> str:
    """First 16 hex digits of the SHA-256 of `text`."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
