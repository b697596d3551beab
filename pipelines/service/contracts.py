"""What is asked of the service, and what it answers: checked where it enters."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from models.predictddl.observed import Capabilities
from networks.primitives import MOST_NODES
from warehouse.names import PATTERN
from warehouse.records import Record

Name = Annotated[str, StringConstraints(pattern=PATTERN)]
Amount = Annotated[float, Field(ge=0, le=1e18, allow_inf_nan=False)]
MOST_WORKLOADS = 100


class Dataset(Record):
    """What a network is trained on: the type of its images, and how many there are."""

    type: Name = "digits"
    images: int = Field(default=50_000, ge=1, le=10**12)


class Node(Record):
    """A primitive of a graph: `networks.primitives.Primitive`."""

    type: Name
    parameters: int = Field(default=0, ge=0, le=10**12)
    flops: Amount = 0.0
    output_elements: int = Field(default=0, ge=0, le=10**12)
    kernel: int = Field(default=0, ge=0, le=10**6)


class Graph(Record):
    """A network that nobody has a name for: its primitives, and which reads which."""

    nodes: list[Node] = Field(min_length=1, max_length=MOST_NODES)
    edges: list[tuple[int, int]] = Field(max_length=10 * MOST_NODES)
    parameter_count: int = Field(ge=0, le=10**12)


class Workload(Record):
    """What is to be trained: a network by name, or as a graph."""

    dnn: Name | None = None
    graph: Graph | None = None
    image_size: int = Field(default=64, ge=8, le=4096)
    batch_size: int = Field(default=8, ge=1, le=10**6)
    dataset: Dataset = Dataset()

    @model_validator(mode="after")
    def _is_one_network(self) -> Self:
        if (self.dnn is None) == (self.graph is None):
            raise ValueError("name a network (dnn), or give its graph; one of them")
        return self


class Nodes(Record):
    """So many nodes of a type that was profiled."""

    node_type: Name
    count: int = Field(ge=1, le=10_000)


class Question(Record):
    """Workloads, and where they train: nodes that are named, else those that have registered."""

    workloads: list[Workload] = Field(min_length=1, max_length=MOST_WORKLOADS)
    nodes: list[Nodes] = Field(default=[], max_length=100)
    link_mbps: float | None = Field(default=None, gt=0, le=1e7, allow_inf_nan=False)


class Forecast(Record):
    """What is known of one workload.

    Attributes:
        status: forecast: there is one. refused: `reason` says why there is none. retraining: the
            type of dataset is new, and `retraining` names what was begun.
        step_time_s: seconds of a step of all nodes.
        low: lower end of the interval that nine of ten were in.
        high: its upper end.
        epoch_s: seconds of an epoch.
        answered_by: the system whose answer it is, and why, where that is not predictddl.
        nearest: the most alike network that was measured.
        distance: cosine distance to it.
        reason: why there is no forecast.
        retraining: where to ask how far it is.
    """

    status: Literal["forecast", "refused", "retraining"]
    step_time_s: float | None = None
    low: float | None = None
    high: float | None = None
    epoch_s: float | None = None
    answered_by: str | None = None
    nearest: str | None = None
    distance: float | None = None
    reason: str | None = None
    retraining: str | None = None


class Answer(Record):
    """Forecasts in the order of their workloads, and the nodes that they are for."""

    forecasts: list[Forecast]
    nodes: dict[str, int]


class Report(Record):
    """What a node tells of itself.

    Attributes:
        node_type: what it is called in the history; nodes of one type are alike.
        cores: of its processors.
        memory_bytes: of its memory.
        dense_flops: floating-point operations a second in convolutions, of all its cores.
        depthwise_flops: the same, in convolutions of single channels.
        memory_Bps: bytes a second through memory.
        disk_Bps: bytes a second to its disk.
        utilisation: part of its processor time that others use now.
        gpus: how many it has.
        link_mbps: speed of its link; none: not known.
    """

    node_type: Name
    cores: float = Field(gt=0, le=1e5, allow_inf_nan=False)
    memory_bytes: int = Field(ge=0, le=10**16)
    dense_flops: float = Field(gt=0, le=1e18, allow_inf_nan=False)
    depthwise_flops: float = Field(gt=0, le=1e18, allow_inf_nan=False)
    memory_Bps: float = Field(gt=0, le=1e15, allow_inf_nan=False)
    disk_Bps: float = Field(gt=0, le=1e15, allow_inf_nan=False)
    utilisation: float = Field(default=0.0, ge=0, le=1, allow_inf_nan=False)
    gpus: int = Field(default=0, ge=0, le=1024)
    link_mbps: float | None = Field(default=None, gt=0, le=1e7, allow_inf_nan=False)

    @property
    def available(self) -> Capabilities:
        """What is free of it: what each core has, times the cores that are free (eq. 1 and 2)."""
        free = max(self.cores * (1 - self.utilisation), 0.01)
        part = free / self.cores
        return Capabilities(
            cores=free,
            dense_flops=self.dense_flops * part,
            depthwise_flops=self.depthwise_flops * part,
            memory_Bps=self.memory_Bps * part,
            disk_Bps=self.disk_Bps * part,
            memory_bytes=self.memory_bytes * part,
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
    """How far the training of an embedder for a type of dataset is."""

    dataset: str
    status: Literal["running", "done", "failed"]
    told: str = ""


Problem = dict[str, Any]
