"""What is asked of the service, and what it answers: checked where it enters."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from models.predictddl.observations import Capabilities, results_Bps
from networks.primitives import MOST_NODES
from warehouse import limits
from warehouse.fields import PATTERN, Compiled, Optimizer, Passes, Precision
from warehouse.records import MemoryFormat, Record

_MOST_FIELDS = 50
"""Of one object: each that is unknown would be told of."""
MOST_DEVICES = 1024
"""Of one node."""
Name = Annotated[str, StringConstraints(pattern=PATTERN)]
Amount = Annotated[float, Field(ge=0, le=1e18, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, le=1e18, allow_inf_nan=False)]
Mbps = Annotated[float, Field(gt=0, le=limits.MBPS, allow_inf_nan=False)]
_LEAST_FREE_CORES = 0.01
"""A node that is busy on all cores still trains, slowly."""


class Sent(Record, defer_build=False):
    """A record that comes over HTTP; FastAPI loses the aliases of one that is not built."""

    @model_validator(mode="before")
    @classmethod
    def _has_few_fields(cls, fields: object) -> object:
        if isinstance(fields, Mapping) and len(fields) > _MOST_FIELDS:
            raise ValueError(f"expected at most {_MOST_FIELDS} fields, found {len(fields):,}")
        return fields


class Dataset(Sent):
    """What a network is trained on: the type of its images, and how many there are."""

    type: Name = "digits"
    images: int = Field(default=50_000, ge=1, le=10**12)


class Node(Sent):
    """A primitive of a graph, of one image: `networks.primitives.Primitive`.

    Attributes:
        type: of `networks.primitives.PRIMITIVES`.
        parameters: trained ones that it reads.
        flops: multiplications and additions, each as one.
        output_elements: of its result.
        kernel: elements of the window of a convolution or pool.
    """

    type: Name
    parameters: int = Field(default=0, ge=0, le=10**12)
    flops: Amount = 0.0
    output_elements: int = Field(default=0, ge=0, le=10**12)
    kernel: int = Field(default=0, ge=0, le=10**6)


Place = Annotated[int, Field(ge=0, lt=MOST_NODES)]


class Graph(Sent):
    """A network that nobody has a name for: its primitives, and which reads which."""

    nodes: list[Node] = Field(min_length=1, max_length=MOST_NODES, fail_fast=True)
    edges: list[tuple[Place, Place]] = Field(max_length=10 * MOST_NODES, fail_fast=True)
    parameter_count: int = Field(ge=0, le=10**12)


def _no_words(value: object) -> object:
    if value is not None:
        raise ValueError("networks here see images, and no words; leave it out")
    return value


class Workload(Sent):
    """What is to be trained: a network by name, or as a graph; and how.

    Attributes:
        batch_size: samples of a pass of each device.
        strategy: all_reduce replicates it by DistributedDataParallel, also on one device; single is
            one device without that.
        precision: float32, tf32, bfloat16 or float16 (autocast), also fp32, bf16, fp16.
        accumulate: passes whose gradients a step adds up.
        compiled: default or reduce-overhead, modes of torch.compile; of GPUs.
        sequence_length: words of a sample of text; refused, for networks here see images.
    """

    dnn: Name | None = None
    graph: Graph | None = None
    image_size: int = Field(default=64, ge=8, le=limits.PIXELS)
    batch_size: int = Field(default=8, ge=1, le=limits.BATCH)
    dataset: Dataset = Dataset()
    strategy: Literal["all_reduce", "single"] = "all_reduce"
    precision: Precision = "float32"
    optimizer: Optimizer = "sgd"
    accumulate: Passes = 1
    memory_format: MemoryFormat = "contiguous"
    compiled: Compiled = False
    sequence_length: Annotated[None, BeforeValidator(_no_words)] = None

    @model_validator(mode="after")
    def _is_one_network(self) -> Self:
        if (self.dnn is None) == (self.graph is None):
            raise ValueError("name a network (dnn), or give its graph; one of them")
        return self


class Nodes(Sent):
    """So many nodes of a type that was profiled, and how many devices of each train."""

    node_type: Name
    count: int = Field(ge=1, le=limits.NODES)
    devices_per_node: int = Field(default=1, ge=1, le=MOST_DEVICES)


class Question(Sent):
    """Workloads, and where they train: nodes that are named, else those that have registered."""

    workloads: list[Workload] = Field(min_length=1, max_length=limits.WORKLOADS, fail_fast=True)
    nodes: list[Nodes] = Field(default=[], max_length=100, fail_fast=True)
    link_mbps: Mbps | None = None

    @model_validator(mode="after")
    def _is_no_larger_than_it_may_be(self) -> Self:
        count = sum(
            len(workload.graph.nodes) for workload in self.workloads if workload.graph is not None
        )
        if count > limits.ASKED_PRIMITIVES:
            raise ValueError(
                f"expected graphs of {limits.ASKED_PRIMITIVES:,} nodes together, found {count:,}"
            )
        return self


class Forecast(Record):
    """What is known of one workload.

    Attributes:
        status: forecast: there is one. refused: `reason` says why there is none. retraining: the
            type of dataset is new, and `retraining` names what was begun.
        step_time_s: seconds of a step of all nodes.
        low: lower end of the interval that nine of ten were in; none where nothing tells: all steps
            were measured on one type of node, and this is another.
        high: its upper end.
        epoch_s: seconds of an epoch.
        answered_by: the system whose forecast it is: the first that has one.
        systems: what each system forecasts, as `stepcast predict --json` has it.
        refused: why others forecast nothing, as there.
        reason: why there is no forecast.
        retraining: where to ask how far it is.
    """

    status: Literal["forecast", "refused", "retraining"]
    step_time_s: float | None = None
    low: float | None = None
    high: float | None = None
    epoch_s: float | None = None
    answered_by: str | None = None
    systems: list[dict[str, Any]] = Field(default=[])
    refused: list[dict[str, Any]] = Field(default=[])
    reason: str | None = None
    retraining: str | None = None


class Answer(Record):
    """Forecasts, what they are for, and whose runs they rest on.

    Attributes:
        forecasts: in the order of their workloads.
        nodes: how many there are of each type.
        devices_per_node: how many devices of each train.
        backend: of the runs that the forecasts rest on; none: nothing was forecast.
        host_id: the same, of hosts.
    """

    forecasts: list[Forecast]
    nodes: dict[str, int]
    devices_per_node: int
    backend: str | None = None
    host_id: str | None = None


class Report(Sent):
    """What a node tells of itself.

    Attributes:
        node_type: what it is called; nodes of one type are alike.
        cores: of its processors.
        memory_bytes: of its memory.
        free_memory_bytes: of it, that nobody uses now; none: not known.
        dense_flops: floating-point operations a second in convolutions, of all its cores.
        depthwise_flops: the same, in convolutions of single channels.
        pointwise_flops: the same, in those of single pixels; none: not known.
        memory_Bps: bytes a second through memory.
        disk_Bps: bytes a second to its disk.
        utilisation: part of its processor time that others use now.
        gpus: how many it has; all of them train, as was measured on nodes of its type.
        link_mbps: speed of its link; none: not known.
    """

    node_type: Name
    cores: float = Field(gt=0, le=1e5, allow_inf_nan=False)
    memory_bytes: int = Field(ge=0, le=10**16)
    free_memory_bytes: int | None = Field(default=None, ge=0, le=10**16)
    dense_flops: Rate
    depthwise_flops: Rate
    pointwise_flops: Rate | None = None
    memory_Bps: Rate
    disk_Bps: Rate
    utilisation: float = Field(default=0.0, ge=0, le=1, allow_inf_nan=False)
    gpus: int = Field(default=0, ge=0, le=MOST_DEVICES)
    link_mbps: Mbps | None = None

    @property
    def available(self) -> Capabilities:
        """What is free of it: what each core has (eq. 1), summed over the free cores (eq. 2).

        Of memory it is no more than nobody uses.
        """
        free = max(self.cores * (1 - self.utilisation), _LEAST_FREE_CORES)
        memory_bytes = self.memory_bytes / self.cores * free
        if self.free_memory_bytes is not None:
            memory_bytes = min(memory_bytes, float(self.free_memory_bytes))
        return Capabilities(
            cores=free,
            dense_flops=self.dense_flops / self.cores * free,
            depthwise_flops=self.depthwise_flops / self.cores * free,
            memory_Bps=self.memory_Bps / self.cores * free,
            results_Bps=results_Bps(self.depthwise_flops / self.cores * free),
            disk_Bps=self.disk_Bps / self.cores * free,
            memory_bytes=memory_bytes,
            pointwise_part=(self.pointwise_flops or self.dense_flops) / self.dense_flops,
        )


class Registered(Record):
    """A node of the cluster, and how long ago it told of itself."""

    name: str
    report: Report
    seconds_ago: float


class Cluster(Record):
    """The nodes that have registered and not fallen silent."""

    nodes: list[Registered]


class Retraining(Record):
    """How far the training of an embedder for a type of dataset is.

    Attributes:
        dataset: the type.
        status: of the training; done: forecasts can be made.
        told: the last line that it told.
    """

    dataset: str
    status: Literal["running", "done", "failed"]
    told: str = ""


class Case(Record):
    """A forecast beside what was measured: `judged` times; `left_out` of the fit, or the split."""

    label: str
    error_percent: float
    left_out: str
    judged: int = 1
    forecast_s: float | None = None
    measured_s: float | None = None


class Cell(Record):
    """Past errors of a system on a kind of network, a board or node type, and a precision."""

    kind: str
    board: str
    precision: str
    system: str
    n: int
    error_percent: float
    cases: list[Case]


class Coverage(Record):
    """Where forecasts were judged; what has no cell nobody measured."""

    cells: list[Cell]


class NetworkChoice(Record):
    """A network of the catalogue, its family, and the frameworks that have it."""

    name: str
    kind: str
    frameworks: list[str]


class ModelChoice(Record):
    """A model of Hugging Face that `hf:NAME` names: a type with its defaults, or a known config."""

    name: str
    words: str


class Support(Record):
    """What can be asked about: values of options of `/v1/recommendations`.

    `traced` are functions whose models were traced here before, from the service's folder.
    """

    networks: list[NetworkChoice]
    traced: list[str]
    models: list[ModelChoice]
    precisions: list[str]
    optimizers: list[str]
    regions: list[str]
    systems: list[str]
    sql: bool


class QueryChoice(Record):
    """A query that comes with Stepcast, as `stepcast query` runs it."""

    name: str
    question: str
    params: list[str]
    sql: str


class Queries(Record):
    """All of them."""

    queries: list[QueryChoice]


class Statement(Sent):
    """A SELECT on the history."""

    # It is one argument of a program: 128 KiB at most, and no NUL.
    sql: str = Field(max_length=30_000, pattern=r"^[^\x00]*$")


class Rows(Record):
    """Rows of a query: `columns` by name, and values of each row in their order."""

    columns: list[str]
    rows: list[list[Any]]
    left_out: int = 0


class Problem(Record):
    """Why a request was not answered, in one line."""

    detail: str
