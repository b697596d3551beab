"""A scaling curve of a study: what is trained, on which nodes, and with how many of them."""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from networks.gpu_steps import StepPrecision, step_precision
from networks.own_huggingface import PREFIX
from profilers.clusters.node_types import gpus, lacks_precision, node_group
from profilers.probe import Metric
from profilers.probes import measuring_probe
from profilers.scenarios import take_turns
from warehouse import limits
from warehouse.fields import (
    Batch,
    Compiled,
    Mbps,
    Nodes,
    Optimizer,
    Passes,
    PixelsOrNone,
    Precision,
    Words,
)
from warehouse.records import (
    WHAT_IF,
    Backend,
    BadInput,
    MemoryFormat,
    NodeGroup,
    Placement,
    Record,
    Scenario,
    Strategy,
    StrategyKind,
    TrainingWorkload,
)


class MixPart(Record):
    """So many nodes of a type in a mix, and the batch of each of their devices."""

    count: Nodes
    node_type: str
    batch_size: Batch


RECIPE = ("precision", "optimizer", "accumulate", "memory_format", "compiled")
"""Fields that say how a network is trained, whatever it is."""
_OF_GPUS = {"compiled": ("default", "reduce-overhead"), "optimizer": ("adamw_8bit",)}
"""Values of a recipe with which no processor trains."""
LAYOUT = ("devices_per_node", "tensor_parallel", "pipeline_parallel", "virtual_stages")
"""Fields that say which devices train what."""
OF_SEVERAL = {"strategy", "workers", "mix", "link_mbps", *LAYOUT}
"""Fields of which any says that devices exchange gradients, or how they do."""
_SEVERAL_IN_WORDS = {
    "devices_per_node": "a number of devices per node",
    **dict.fromkeys(LAYOUT[1:], "a layout"),
    "link_mbps": "a speed of links",
    "strategy": "a strategy",
}
_KIND = re.compile(r"\s*(?P<count>\d+)\s+(?P<node_type>\S+)@(?P<batch_size>\d+)\s*")


class Curve(Record):
    """What is trained on nodes of some types, and the numbers of workers to train it with.

    `worker` may join several node types by " + ", which are then taken in turn; it is profiled on
    each of them. Profiles are on links of `link_mbps` unless `profiled_at_mbps` names another
    speed, with one server also if there are several. `cross_traffic` is the fraction of the
    servers' links that others use while it trains, not while it is profiled.

    An all-reduce may have a `mix` instead of worker, workers and batch_size: nodes and batches as
    optimisers choose them, "4 emu.avx512.s15@16 + 2 emu.sse41.s15@8".

    A curve of PyTorch that names neither strategy nor workers, devices_per_node and link_mbps is of
    one device by itself (single).
    """

    dnn: str
    framework: Literal["tensorflow", "pytorch"] = "tensorflow"
    strategy: StrategyKind = "async_parameter_server"
    image_size: PixelsOrNone
    batch_size: Batch
    worker: tuple[str, ...] = Field(min_length=1, max_length=limits.LISTED)
    devices_per_node: Nodes = 1
    tensor_parallel: Nodes = 1
    pipeline_parallel: Nodes = 1
    virtual_stages: Nodes = 1
    server: str | None = None
    servers: Nodes = 1
    placement: Placement = "round_robin"
    order: Literal["framework", "tic"] = "framework"
    link_mbps: Mbps | None = None
    profiled_at_mbps: Mbps | None = None
    cross_traffic: float | None = Field(default=None, gt=0, lt=1, allow_inf_nan=False)
    workers: tuple[Nodes, ...] = Field(min_length=1, max_length=limits.LISTED)
    mix: tuple[MixPart, ...] = Field(default=(), max_length=limits.LISTED)
    precision: Precision = "float32"
    optimizer: Optimizer = "sgd"
    accumulate: Passes = 1
    memory_format: MemoryFormat = "contiguous"
    compiled: Compiled = False
    sequence_length: Words | None = None
    what_if: str | None = Field(default=None, pattern=WHAT_IF)
    is_judged: bool = Field(default=True, exclude=True)
    """Whether it is hidden from fits and judges forecasts: a `test` scenario of the study."""

    @model_validator(mode="before")
    @classmethod
    def _defaults_depend_on_others(cls, fields: object) -> object:
        if not isinstance(fields, Mapping):
            return fields
        if str(fields.get("dnn")).startswith(PREFIX):
            if fields.get("image_size"):
                raise ValueError("image_size: a model by its config has its own; leave it out")
            fields = {"framework": "pytorch", "image_size": 0, **fields}
        if fields.get("strategy") == "single":
            return {"framework": "pytorch", "workers": 1, **fields}
        if fields.get("framework") == "pytorch" and not OF_SEVERAL & fields.keys():
            return {**fields, "strategy": "single", "workers": 1}
        if fields.get("framework") == "pytorch" and not {"workers", "mix"} & fields.keys():
            given = next(words for name, words in _SEVERAL_IN_WORDS.items() if name in fields)
            raise ValueError(
                f"workers: missing, and it has no default where {given} is given; say how many "
                "nodes train together (1: one alone), or leave both out for a single device"
            )
        return fields

    @model_validator(mode="before")
    @classmethod
    def _mix_has_nodes_and_batches(cls, fields: object) -> object:
        if not isinstance(fields, Mapping) or not isinstance(text := fields.get("mix"), str):
            return fields
        if twice := {"worker", "workers", "batch_size"} & fields.keys():
            raise ValueError(f"mix: it has {' and '.join(sorted(twice))} already; leave them out")
        matches = [_KIND.fullmatch(part) for part in text.split("+")]
        kinds = [MixPart.model_validate(match.groupdict()) for match in matches if match]
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
    def _types_are_joined(cls, worker: object) -> object:
        if not isinstance(worker, str):
            return worker
        return tuple(name.strip() for name in worker.split("+"))

    @field_validator("worker", "server")
    @classmethod
    def _types_are_known(cls, given: tuple[str, ...] | str | None) -> tuple[str, ...] | str | None:
        names = (given,) if isinstance(given, str) else given or ()
        if len(set(names)) < len(names):
            raise ValueError(f"should name each node type once, found {list(names)}")
        for name in names:
            try:
                node_group("worker", name, 1)
            except BadInput as error:
                raise ValueError(str(error)) from None
        return given

    @field_validator("workers", mode="before")
    @classmethod
    def _one_needs_no_list(cls, workers: object) -> object:
        return (workers,) if isinstance(workers, int) else workers

    @field_validator("workers")
    @classmethod
    def _each_once(cls, workers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(workers)))

    @model_validator(mode="after")
    def _strategy_has_its_own(self) -> Self:
        if self.mix and (self.framework, self.strategy) != ("pytorch", "all_reduce"):
            raise ValueError("mix: only framework pytorch, strategy all_reduce has one")
        alone = {*self.workers, self.devices_per_node} == {1}
        if self.strategy == "single":
            self._check_single(alone)
        try:
            *_, strategy = (self.strategy_of(workers) for workers in self.workers)
        except ValidationError as error:
            raise ValueError(error.errors()[0]["msg"].removeprefix("Value error, ")) from None
        if strategy.casts_once and self.framework != "pytorch":
            divided = strategy.layout or self.strategy
            raise ValueError(f"strategy: {divided} is of PyTorch; TensorFlow's replicas are whole")
        serverless = self.strategy != "async_parameter_server"
        rated = all(map(gpus, self.worker))  # the catalogue says which network such nodes have
        if self.link_mbps is None and not (serverless and (alone or rated)):
            raise ValueError(
                "link_mbps: missing, and it has no default where devices exchange gradients"
            )
        if self.strategy != "async_parameter_server":
            if self.server is not None or self.servers > 1 or self.cross_traffic is not None:
                kind = f"{'an' if self.strategy == 'all_reduce' else 'strategy'} {self.strategy}"
                raise ValueError(
                    f"{kind} has no parameter servers; leave out server, servers and cross_traffic"
                )
        elif self.framework != "tensorflow":
            raise ValueError("strategy: PyTorch trains by all_reduce; write strategy: all_reduce")
        elif self.server is None:
            raise ValueError("server: missing; name the node type of the parameter servers")
        return self

    def _check_single(self, alone: bool) -> None:
        if self.framework != "pytorch":
            raise ValueError(
                "strategy: single is of PyTorch; one worker of TensorFlow trains by all_reduce"
            )
        if not alone or len(self.worker) > 1:
            raise ValueError(
                "strategy: single is one device of one node type; several train by all_reduce"
            )
        if self.link_mbps is not None or self.profiled_at_mbps is not None:
            raise ValueError("link_mbps: a single device has no link; leave it out")

    def lacking_precision(self) -> str | None:
        """Return why its nodes do not train in its precision; None: they do."""
        reasons = (lacks_precision(name, self.precision) for name in self.worker)
        return next(filter(None, reasons), None)

    @model_validator(mode="after")
    def _recipe_is_possible(self) -> Self:
        if self.framework != "pytorch":
            for name, value in self.recipe.items():
                raise ValueError(
                    f"{name}: TensorFlow's networks train in float32 by plain SGD here, found "
                    f"{value!r}; leave it out, or ask framework pytorch"
                )
        if lacks := self.lacking_precision():
            raise ValueError(f"precision: {lacks}")
        for name in self.worker:
            for field, value in self.recipe.items():
                if field in _OF_GPUS and value in _OF_GPUS[field] and not gpus(name):
                    raise ValueError(f"{field}: {value} is of GPUs, and {name} has none")
        if self.sequence_length is not None and self.image_size:
            raise ValueError(
                f"sequence_length: {self.dnn} sees images of {self.image_size} px, and no words; "
                "leave it out"
            )
        return self

    @property
    def recipe(self) -> dict[str, Any]:
        """How it is trained, as far as that is not as by default: fields of its workload."""
        recipe = {name: getattr(self, name) for name in RECIPE}
        return {
            name: value
            for name, value in recipe.items()
            if value != self.__pydantic_fields__[name].default
        }

    @property
    def casts_once(self) -> bool:
        """Whether half precision is of a copy of all parameters (`Strategy.casts_once`)."""
        return self.strategy_of(self.workers[-1]).casts_once

    @property
    def metric(self) -> Metric:
        """What is predicted and measured of it."""
        metric = measuring_probe(self.scenario(self.workers[0], "loopback")).metric
        assert metric is not None
        return metric

    def nodes(self, workers: int) -> tuple[NodeGroup, ...]:
        """Return the groups of workers and servers for a number of workers, its types in turn."""
        groups = [node_group("worker", name, 1) for name in self.worker]
        if self.server is not None:
            groups.append(node_group("server", self.server, self.servers))
        return take_turns(groups, workers)

    def scenario(self, workers: int, backend: Backend) -> Scenario:
        """Return the scenario with a number of workers.

        Only emulated links are shaped. Of several nodes with GPUs that are merely asked about, on
        no cluster, the speed is what their network is taken to have.
        """
        shaped, is_mixed = backend == "emulated", self.mix and workers in self.workers
        assumed = backend == "loopback" and all(map(gpus, self.worker)) and workers > 1
        workload = TrainingWorkload(
            dnn=self.dnn,
            framework=self.framework,
            image_size=self.image_size,
            batch_size=self.batch_size,
            sequence_length=self.sequence_length,
            **self.recipe,
        )
        return Scenario(
            workload=workload,
            strategy=self.strategy_of(workers),
            nodes=self._mixed() if is_mixed else self.nodes(workers),
            link_mbps=self.link_mbps if shaped or assumed else None,
            cross_traffic=self.cross_traffic if shaped else None,
            what_if=self.what_if,
        )

    def scenarios(self, backend: Backend) -> tuple[Scenario, ...]:
        """Return what is predicted and measured, by number of workers."""
        return tuple(self.scenario(workers, backend) for workers in self.workers)

    def link_speeds(self, backend: Backend) -> tuple[float | None, ...]:
        """Return the speeds of the links it is profiled on and trains on; once if they agree.

        Without servers one worker has nobody to talk to, and is profiled on no links.
        """
        trains = self.link_mbps if backend == "emulated" else None
        if self.server is None or trains is None:
            return (trains,)
        return tuple(dict.fromkeys((self.profiled_at_mbps or trains, trains)))

    def profiled(self, backend: Backend) -> Scenario:
        """Return what is profiled: one worker of its first type, on the links of the profile.

        Without servers one worker has nobody to talk to, and its links are not shaped.
        """
        whole = self.model_copy(update=dict.fromkeys(LAYOUT[1:], 1))
        alone = whole.scenario(1, backend).model_copy(update={"cross_traffic": None})
        if self.strategy != "async_parameter_server":
            return alone.model_copy(update={"link_mbps": None})
        return self.on_profiled_link(alone, backend)

    def on_profiled_link(self, scenario: Scenario, backend: Backend) -> Scenario:
        """Return a scenario of one worker on the links that it is profiled on."""
        if scenario.link_mbps is None:
            return scenario
        return scenario.model_copy(update={"link_mbps": self.link_speeds(backend)[0]})

    def _mixed(self) -> tuple[NodeGroup, ...]:
        groups = [node_group("worker", part.node_type, part.count) for part in self.mix]
        return tuple(
            group
            if kind.batch_size == self.batch_size
            else group.model_copy(update={"batch_size": kind.batch_size})
            for group, kind in zip(groups, self.mix, strict=True)
        )

    def strategy_of(self, workers: int) -> Strategy:
        """Return how a number of workers trains."""
        if self.strategy == "async_parameter_server":
            return Strategy(
                workers=workers, servers=self.servers, placement=self.placement, order=self.order
            )
        layout = {name: getattr(self, name) for name in LAYOUT}
        return Strategy(kind=self.strategy, workers=workers, **layout)


def gpu_precisions(curves: Sequence[Curve]) -> list[StepPrecision]:
    """Return at which precisions steps are traced for the GPUs of curves."""
    on_gpus = (curve for curve in curves if any(map(gpus, curve.worker)))
    asked = (step_precision(curve.precision, curve.casts_once) for curve in on_gpus)
    return list(dict.fromkeys(asked))


def expand(item: object, *, judged: bool) -> object:
    """Return the curves of a template: lists of its fields make a grid.

    `workers` is a list of each curve. What is no mapping, or of a kind that a field cannot have, is
    left for the record to refuse.

    Raises:
        ValueError: there are more than `limits.LISTED` of them, or it gives what is not its own.
    """
    if not isinstance(item, Mapping):
        return (Curve.model_validate(item),)
    if "is_judged" in item:
        raise ValueError("is_judged: not a field of a template; list it under train or test")
    lists = {
        name: value
        for name, value in item.items()
        if name != "workers" and isinstance(value, Sequence) and not isinstance(value, str)
    }
    count = 1
    for name, values in lists.items():
        if not values:
            raise ValueError(f"{name}: expected a value or a list of some, found an empty list")
        count *= len(values)
    if count > limits.LISTED:
        raise ValueError(f"its lists make {count} curves; {limits.LISTED} at most, so divide them")
    return tuple(
        Curve.model_validate({**item, **dict(zip(lists, values, strict=True)), "is_judged": judged})
        for values in itertools.product(*lists.values())
    )


def node_types(curves: Sequence[Curve]) -> list[str]:
    """Return the node types of curves in words, each combination once."""
    words = (" and ".join(filter(None, (*curve.worker, curve.server))) for curve in curves)
    return list(dict.fromkeys(words))
