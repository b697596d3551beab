"""A training curve of a study: what is trained, on which nodes, and with how many of them."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from profilers.clusters.node_types import node_group
from warehouse import limits
from warehouse.amounts import Batch, Mbps, Nodes, Pixels
from warehouse.records import (
    Backend,
    NodeGroup,
    Order,
    Placement,
    Record,
    Scenario,
    Strategy,
    StrategyKind,
    Workload,
)

CurveKind = Literal["asynchronous", "ddp", "synchronous", "ddp_operations"]
"""TensorFlow with parameter servers, PyTorch's DistributedDataParallel, synchronous TensorFlow, or
DistributedDataParallel operation by operation: each has probes and predictors of its own."""
BY_OPERATIONS: frozenset[CurveKind] = frozenset({"synchronous", "ddp_operations"})
"""Kinds of which some curves are fitted, and the others predicted from their operations."""


class Kind(Record):
    """So many nodes of a type in a mix, and the batch of each of their devices."""

    count: Nodes
    node_type: str
    batch_size: Batch


_KIND = re.compile(r"\s*(?P<count>\d+)\s+(?P<node_type>\S+)@(?P<batch_size>\d+)\s*")


class Curve(Record):
    """One training curve, and the numbers of workers to predict and measure it with.

    `worker` may name several node types, which are then taken in turn; it is profiled on each of
    them. Profiles are on links of `link_mbps` unless `profiled_link_mbps` names another speed,
    with one server also if there are several. `cross_traffic` is the fraction of the servers' links
    that others use while it trains, not while it is profiled. An all-reduce of PyTorch is predicted
    from its passes, or, as TensorFlow's are, `by_operations`. Of a `fitted` curve predictors
    see all that was measured if it is by operations, else its slowdown by all-reduces.

    An all-reduce may have a `mix` instead of worker, workers and batch_size: nodes and batches as
    optimisers choose them, "4 emu.avx512.s15@16 + 2 emu.sse41.s15@8".
    """

    dnn: str
    framework: Literal["tensorflow", "pytorch"] = "tensorflow"
    strategy: StrategyKind = "async_parameter_server"
    image_size: Pixels
    batch_size: Batch
    worker: tuple[str, ...] = Field(min_length=1, max_length=limits.LISTED)
    devices_per_node: Nodes = 1
    server: str | None = None
    servers: Nodes = 1
    placement: Placement = "round_robin"
    order: Order = "framework"
    link_mbps: Mbps
    profiled_link_mbps: Mbps | None = None
    cross_traffic: float | None = Field(default=None, gt=0, lt=1, allow_inf_nan=False)
    workers: tuple[Nodes, ...] = Field(min_length=1, max_length=limits.LISTED)
    by_operations: bool = False
    fitted: bool = False
    mix: tuple[Kind, ...] = Field(default=(), max_length=limits.LISTED)

    @model_validator(mode="before")
    @classmethod
    def _mix_has_nodes_and_batches(cls, fields: object) -> object:
        if not isinstance(fields, Mapping) or not isinstance(text := fields.get("mix"), str):
            return fields
        if twice := {"worker", "workers", "batch_size"} & fields.keys():
            raise ValueError(f"mix: it has {' and '.join(sorted(twice))} already; leave them out")
        matches = [_KIND.fullmatch(part) for part in text.split("+")]
        kinds = [Kind.model_validate(one.groupdict()) for one in matches if one]
        if len(kinds) < len(matches):
            raise ValueError(f"mix: expected COUNT TYPE@BATCH + COUNT TYPE@BATCH, found {text!r}")
        # One order, so that a mix is the same however it is written.
        kinds.sort(key=lambda kind: kind.node_type)
        return {
            **fields,
            "mix": kinds,
            "worker": [kind.node_type for kind in kinds],
            "workers": [sum(kind.count for kind in kinds)],
            "batch_size": kinds[0].batch_size,
        }

    @field_validator("worker", mode="before")
    @classmethod
    def _one_type_needs_no_list(cls, worker: object) -> object:
        return (worker,) if isinstance(worker, str) else worker

    @field_validator("worker")
    @classmethod
    def _types_differ(cls, worker: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(worker)) < len(worker):
            raise ValueError(f"should name each node type once, found {list(worker)}")
        return worker

    @field_validator("workers")
    @classmethod
    def _each_once(cls, workers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(workers)))

    @model_validator(mode="after")
    def _strategy_has_its_own(self) -> Self:
        if self.by_operations and (self.framework, self.strategy) != ("pytorch", "all_reduce"):
            raise ValueError(
                "by_operations: only framework pytorch, strategy all_reduce has the choice"
            )
        if self.mix and self.kind != "ddp":
            raise ValueError("mix: only curves of framework pytorch, strategy all_reduce have one")
        if self.strategy == "all_reduce":
            if self.server is not None or self.servers > 1 or self.cross_traffic is not None:
                raise ValueError(
                    "an all_reduce has no parameter servers; leave out server, servers and "
                    "cross_traffic"
                )
        elif self.server is None:
            raise ValueError("server: missing; name the node type of the parameter servers")
        elif self.framework != "tensorflow" or self.fitted:
            raise ValueError(
                "async_parameter_server is TensorFlow's; framework and fitted are for strategy "
                "all_reduce"
            )
        return self

    @property
    def kind(self) -> CurveKind:
        """Which probes and predictors it concerns."""
        if self.strategy == "async_parameter_server":
            return "asynchronous"
        if self.framework == "tensorflow":
            return "synchronous"
        return "ddp_operations" if self.by_operations else "ddp"

    @property
    def is_judged(self) -> bool:
        """Whether it is predicted and then measured, not shown to predictors."""
        return not (self.fitted and self.kind in BY_OPERATIONS)

    @property
    def metric(self) -> str:
        """What is predicted and measured of it."""
        return "throughput_steps_per_s" if self.kind == "asynchronous" else "step_time_s"

    @property
    def unit(self) -> str:
        """The unit of `metric`."""
        return "step/s" if self.kind == "asynchronous" else "s"

    @property
    def metric_in_words(self) -> str:
        """What `metric` is, as figures and tables name it."""
        return "steps/s of all workers" if self.kind == "asynchronous" else "seconds per step"

    @property
    def baseline_in_words(self) -> str:
        """What predictions stand beside, as figures and tables name it."""
        return "Ceer as published" if self.kind in BY_OPERATIONS else "linear scaling"

    def nodes(self, workers: int) -> tuple[NodeGroup, ...]:
        """Return the groups of workers and servers for a number of workers, its types in turn."""
        counts = {
            name: len(range(place, workers, len(self.worker)))
            for place, name in enumerate(self.worker)
        }
        groups = [node_group("worker", name, count) for name, count in counts.items() if count]
        if self.server is not None:
            groups.append(node_group("server", self.server, self.servers))
        return tuple(groups)

    def cluster(self, workers: int) -> tuple[NodeGroup, ...]:
        """Return the groups of nodes to train on, with the neighbour that sends cross traffic."""
        if self.mix and workers == sum(kind.count for kind in self.mix):
            return self._mixed()
        if self.cross_traffic is None or self.server is None:
            return self.nodes(workers)
        return (*self.nodes(workers), node_group("neighbour", self.server, 1))

    def link_nodes(self, flows: int) -> tuple[NodeGroup, ...]:
        """Return the nodes between which links are probed: a server, and a worker for each flow."""
        if self.server is not None:
            return self.nodes(flows)
        return (*self.nodes(flows), node_group("server", self.worker[0], 1))

    def scenario(self, workers: int, backend: Backend) -> Scenario:
        """Return the scenario with a number of workers; only emulated links are shaped."""
        shaped = backend == "emulated"
        return Scenario(
            workload=Workload(
                dnn=self.dnn,
                framework=self.framework,
                image_size=self.image_size,
                batch_size=self.batch_size,
            ),
            strategy=self._strategy(workers),
            nodes=tuple(one for one in self.cluster(workers) if one.role != "neighbour"),
            link_mbps=self.link_mbps if shaped else None,
            cross_traffic=self.cross_traffic if shaped else None,
        )

    def scenarios(self, backend: Backend) -> tuple[Scenario, ...]:
        """Return what is predicted and measured, by number of workers."""
        return tuple(self.scenario(workers, backend) for workers in self.workers)

    def link_speeds(self, backend: Backend) -> tuple[float | None, ...]:
        """Return the speeds of the links it is profiled on and trains on; once if they agree."""
        trains = self.scenario(1, backend).link_mbps
        profiled = trains if self.server is None else self.profiled(backend).link_mbps
        return tuple(dict.fromkeys((profiled, trains)))

    def profiled(self, backend: Backend) -> Scenario:
        """Return what is profiled: one worker of its first type, on the links of the profile.

        Without servers one worker has nobody to talk to, and its links are not shaped.
        """
        one = self.scenario(1, backend).model_copy(update={"cross_traffic": None})
        if self.strategy == "all_reduce":
            return one.model_copy(update={"link_mbps": None})
        if self.profiled_link_mbps is None or one.link_mbps is None:
            return one
        return one.model_copy(update={"link_mbps": self.profiled_link_mbps})

    def on_one_server(self) -> "Curve":
        """Return this curve as it is with a single parameter server."""
        return self.model_copy(update={"servers": 1, "placement": "round_robin"})

    def of_each_type(self) -> tuple["Curve", ...]:
        """Return this curve with workers of one type only, for each of its types."""
        return tuple(self.model_copy(update={"worker": (name,), "mix": ()}) for name in self.worker)

    def as_profiled(self) -> tuple["Curve", ...]:
        """Return the curves of which it is profiled: each type, with one server also."""
        return tuple(
            dict.fromkeys(
                curve for one in self.of_each_type() for curve in (one, one.on_one_server())
            )
        )

    def _mixed(self) -> tuple[NodeGroup, ...]:
        groups = [node_group("worker", one.node_type, one.count) for one in self.mix]
        return tuple(
            group
            if kind.batch_size == self.batch_size
            else group.model_copy(update={"batch_size": kind.batch_size})
            for group, kind in zip(groups, self.mix, strict=True)
        )

    def _strategy(self, workers: int) -> Strategy:
        if self.strategy == "all_reduce":
            each = self.devices_per_node
            return Strategy(kind="all_reduce", workers=workers, devices_per_node=each)
        return Strategy(
            workers=workers, servers=self.servers, placement=self.placement, order=self.order
        )


def node_types(curves: Sequence[Curve]) -> list[str]:
    """Return the node types of curves in words, each combination once."""
    return list(
        dict.fromkeys(
            " and ".join([*curve.worker, *([curve.server] if curve.server else [])])
            for curve in curves
        )
    )
