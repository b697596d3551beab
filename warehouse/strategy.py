"""How training is distributed, as a part of a scenario; rooms have it from `warehouse.records`."""

from collections.abc import Mapping
from typing import Literal, get_args

from pydantic import (
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from warehouse.record import Record

Order = Literal["framework", "tic", "reverse", "random"]
"""The last two: of runs of early editions."""
Placement = Literal["round_robin", "greedy"]
StrategyKind = Literal[
    "async_parameter_server", "all_reduce", "zero1", "zero2", "sharded", "hsdp", "single"
]
_SERVERLESS = (True, "framework", "round_robin")
_OF_SERVERS = "async_parameter_server"
_LAYOUT = ("tensor_parallel", "pipeline_parallel", "virtual_stages")


class Strategy(Record):
    """How training is distributed over workers, and over parameter servers where it has them.

    `placement` says how variables are divided among several servers. An all-reduce has no servers,
    and nothing of what concerns them; each of its workers (nodes) has `devices_per_node` ranks, and
    PyTorch wraps the network of each in DistributedDataParallel, also where there is only one.
    `sharded` is the same with FullyShardedDataParallel, which divides parameters, gradients and the
    optimizer's state among all ranks (ZeRO-3), `hsdp` among those of a node, `zero1` the state
    alone, `zero2` gradients, too. `single` is one device without either wrapper.

    Attributes:
        tensor_parallel: ranks of a node that divide each layer, and words between layers (sequence
            parallelism).
        pipeline_parallel: stages, each of consecutive layers.
        virtual_stages: of each rank, which takes turns among them (interleaved 1F1B).
    """

    kind: StrategyKind = "async_parameter_server"
    workers: int = Field(ge=1)
    servers: int = Field(default=1, ge=0)
    flow_control: bool = True
    order: Order = "framework"
    placement: Placement = "round_robin"
    devices_per_node: int = Field(default=1, ge=1)
    tensor_parallel: int = Field(default=1, ge=1)
    pipeline_parallel: int = Field(default=1, ge=1)
    virtual_stages: int = Field(default=1, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _servers_by_kind(cls, fields: object) -> object:
        kind = fields.get("kind") if isinstance(fields, Mapping) else None
        if isinstance(fields, Mapping) and kind in {*get_args(StrategyKind)} - {_OF_SERVERS}:
            return {
                "servers": 0,
                **({"workers": 1} if fields["kind"] == "single" else {}),
                **fields,
            }
        return fields

    @model_validator(mode="after")
    def _kind_has_its_own(self) -> "Strategy":
        if self.kind == "single" and (self.workers, self.devices_per_node) != (1, 1):
            raise ValueError(
                f"single is one device, found {self.workers} workers of {self.devices_per_node}; "
                "several train by all_reduce"
            )
        if not self.has_servers:
            if self.servers or (self.flow_control, self.order, self.placement) != _SERVERLESS:
                raise ValueError(
                    f"{'an' if self.kind == 'all_reduce' else 'strategy'} {self.kind} has no "
                    "parameter servers; leave out servers, flow_control, order and placement"
                )
        elif not self.servers or self.devices_per_node > 1:
            raise ValueError(
                "async_parameter_server needs servers and one device per node, found "
                f"{self.servers} servers and {self.devices_per_node} devices"
            )
        if problem := self._layout_problem():
            raise ValueError(problem)
        return self

    def _layout_problem(self) -> str | None:
        """Return why ranks cannot be divided so; None: they can."""
        ranks, each = self.workers * self.devices_per_node, self.devices_per_node
        tensor, stages = self.tensor_parallel, self.pipeline_parallel
        if self.is_divided and self.kind in (_OF_SERVERS, "single"):
            return f"tensor_parallel, pipeline_parallel: {self.kind} divides no network; leave out"
        if each % tensor:
            return f"tensor_parallel: expected a divisor of a node's {each} devices, found {tensor}"
        if ranks % (tensor * stages):
            return f"pipeline_parallel: {tensor} x {stages} divides no {ranks} devices; change it"
        if self.virtual_stages > 1 and stages == 1:
            return "virtual_stages: one stage has no turns to take; give pipeline_parallel, too"
        if self.kind == "zero2" and stages > 1:
            return "pipeline_parallel: zero2 scatters gradients once a pass; take zero1 or sharded"
        return None

    @model_serializer(mode="wrap")
    def _without_default(self, handler: SerializerFunctionWrapHandler) -> dict[str, JsonValue]:
        fields: dict[str, JsonValue] = handler(self)  # sparse, as other records
        if not self.has_servers:
            for name in ("flow_control", "order", "placement"):
                fields.pop(name, None)
        elif self.placement == "round_robin":
            fields.pop("placement", None)
        for name in ("devices_per_node", *_LAYOUT):
            if fields.get(name) == 1:
                fields.pop(name)
        return fields

    @property
    def has_servers(self) -> bool:
        """Whether parameters are on servers."""
        return self.kind == _OF_SERVERS

    @property
    def is_divided(self) -> bool:
        """Whether layers, or what is in them, are divided among ranks."""
        return self.tensor_parallel * self.pipeline_parallel > 1

    @property
    def replicas(self) -> int:
        """Among how many ranks, or groups of them, a batch is divided."""
        ranks = self.workers * self.devices_per_node
        return ranks // (self.tensor_parallel * self.pipeline_parallel)

    @property
    def casts_once(self) -> bool:
        """Whether half precision is of a copy of all parameters, not cast operator by operator."""
        return self.is_divided or self.kind in ("zero1", "zero2", "sharded", "hsdp")

    @property
    def layout(self) -> str:
        """How a network is divided, in words; empty: it is whole."""
        words = {name: getattr(self, name) for name in _LAYOUT}
        return ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in words.items() if n > 1)
