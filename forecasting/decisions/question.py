"""A job that is to be trained somewhere, and every way to run it within what can be rented."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from forecasting.history_scope import VisibleRun
from models.choice.choice import Objective
from models.choice.limits import Limits, Minimize
from models.choice.overheads import Overheads
from networks import check
from profilers.clusters.node_types import gpus
from profilers.record_file import fault
from studies.curve import RECIPE, Curve
from warehouse.fields import Compiled, Optimizer, Passes, Precision, Words
from warehouse.records import WHAT_IF, Backend, BadInput, MemoryFormat, Record, Scenario

MICRO_BATCHES = (1, 2, 4)
"""Samples of a pass of each layout that is looked at."""
_RECIPE = (*RECIPE, "sequence_length")
_LATER = (*_RECIPE, "all_gpus", "layouts", "what_if")
"""Fields that questions have not always had."""


class JobQuestion(Record):
    """A job with its limits, and how sure they have to be; None: no such limit, or what is known.

    Attributes:
        dnn: the network.
        samples: how many are trained, all epochs together.
        framework: None: either.
        image_size: pixels, 0: it takes no images; None: the size at which it was profiled.
        global_batch: samples of a synchronous step of all devices together.
        batch_size: samples of a step of each device, however many there are.
        devices_per_node: of each worker, unless `all_gpus`.
        server: the node type of parameter servers; None: no asynchronous training.
        servers: how many there may be, from 1.
        minimize: time or cost.
        late: the largest probability of exceeding the deadline or the budget; None: forecasts count
            as they are.
        overheads: what comes to training.
        preemptions_per_node_hour: of spot nodes; None: a fifth of all within a month.
        precision: it and the four below say how PyTorch trains, as in `TrainingWorkload`.
        sequence_length: words of a sample of text.
        all_gpus: every worker trains on all GPUs that its node type has.
        what_if: what befalls one node, GPU or link, as in `Scenario`.
        layouts: GPUs divide the network in whichever way is fastest; needs a global batch.
    """

    dnn: str
    samples: int = Field(ge=1, le=10**15)
    framework: Literal["tensorflow", "pytorch"] | None = None
    image_size: int | None = Field(default=None, ge=0)
    global_batch: int | None = Field(default=None, ge=1)
    batch_size: int | None = Field(default=None, ge=1)
    devices_per_node: int = Field(default=1, ge=1)
    server: str | None = None
    servers: int = Field(default=1, ge=1)
    link_mbps: float | None = Field(default=None, gt=0)
    minimize: Minimize = "cost"
    max_hours: float | None = Field(default=None, gt=0)
    budget_usd: float | None = Field(default=None, gt=0)
    max_usd_per_hour: float | None = Field(default=None, gt=0)
    late: float | None = Field(default=0.1, gt=0, lt=1)
    overheads: Overheads = Overheads()
    preemptions_per_node_hour: float | None = Field(default=None, ge=0)
    precision: Precision = "float32"
    optimizer: Optimizer = "sgd"
    accumulate: Passes = 1
    memory_format: MemoryFormat = "contiguous"
    compiled: Compiled = False
    sequence_length: Words | None = None
    all_gpus: bool = False
    layouts: bool = False
    what_if: str | None = Field(default=None, pattern=WHAT_IF)

    @model_validator(mode="after")
    def _layouts_divide_a_batch(self) -> Self:
        if self.layouts and self.global_batch is None:
            raise ValueError("layouts: give --global-batch, which they divide, not --batch-size")
        return self

    @model_serializer(mode="wrap")
    def _without_default(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # What was asked before there was a choice keeps its id.
        fields: dict[str, Any] = handler(self)
        return {
            name: value
            for name, value in fields.items()
            if name not in _LATER or value != type(self).model_fields[name].default
        }

    def devices_of(self, node_type: str) -> int:
        """Return on how many devices a worker of a type trains."""
        return max(gpus(node_type), 1) if self.all_gpus else self.devices_per_node

    @property
    def recipe(self) -> dict[str, Any]:
        """How PyTorch trains, as far as that is not as by default: fields of curves."""
        values = {name: getattr(self, name) for name in _RECIPE}
        fields = type(self).model_fields
        return {name: value for name, value in values.items() if value != fields[name].default}

    @property
    def objective(self) -> Objective:
        """What is wanted, with limits in seconds and dollars."""
        limits = Limits(
            deadline_s=None if self.max_hours is None else 3600 * self.max_hours,
            budget_usd=self.budget_usd,
            usd_per_hour=self.max_usd_per_hour,
        )
        return Objective(self.minimize, limits, self.late)


# Every way to run a job within what can be rented, as scenarios that systems are asked about.


_ALL_UP_TO = 16
"""Up to so many nodes of a type every number of them is asked about, beyond only powers of two."""

_OPTIONS = {"worker": "--capacity", "image_size": "--image-size", "link_mbps": "--link-mbps"}
"""What says a field of a scenario."""
Framework = Literal["tensorflow", "pytorch"]


@dataclass(frozen=True)
class ProfileFacts:
    """What profiles say about a question that does not: sizes of images, speeds of links."""

    image_size: int
    link_mbps: float
    frameworks: tuple[Framework, ...]


def curves_of(
    question: JobQuestion, known: ProfileFacts, capacity: Mapping[str, int]
) -> list[Curve]:
    """Return the curves to ask about: each node type, and number of workers and servers.

    Raises:
        BadInput: nothing can be trained this way, there is no such node type, or servers are
            offered to frameworks that train without.
    """
    if question.server is not None and "tensorflow" not in known.frameworks:
        raise BadInput(
            f"--server: only TensorFlow trains with parameter servers, not {question.dnn} of "
            f"{', '.join(known.frameworks)}; leave --server out"
        )
    curves = [
        curve
        for node_type, most in capacity.items()
        for fields in (
            *_fields(question, known, node_type, most),
            *_alone(question, known, node_type),
        )
        for curve in [_curve(fields | {"worker": node_type})]
    ]
    if curves:
        return curves
    raise _undivided(question)


def sharded_curves(
    curves: Sequence[Curve], crowded: Collection[Scenario], backend: Backend
) -> list[Curve]:
    """Return curves of replicas for which several GPUs have no room, as sharded among them.

    Args:
        curves: that were asked about.
        crowded: scenarios that lack the memory for a step.
        backend: that scenarios are of.
    """
    lacking, types = set(crowded), {each.node_type for of in crowded for each in of.nodes}
    return [
        curve.model_copy(update={"strategy": "sharded"})
        for curve in curves
        if curve.strategy == "all_reduce"
        and not types.isdisjoint(curve.worker)
        and not lacking.isdisjoint(curve.scenarios(backend))
    ]


def _undivided(question: JobQuestion) -> BadInput:
    return BadInput(
        f"{question.dnn}: nothing on offer divides a global batch of {question.global_batch}; "
        "change --global-batch or --capacity, or give --batch-size, that of each device"
    )


def _fields(
    question: JobQuestion, known: ProfileFacts, node_type: str, most: int
) -> Iterator[dict[str, Any]]:
    """Yield what curves of up to so many workers have, but for the type of these."""
    common = {
        "dnn": question.dnn,
        "image_size": known.image_size,
        # Of nodes with GPUs the catalogue knows how fast their network is.
        "link_mbps": question.link_mbps if gpus(node_type) else known.link_mbps,
        **question.recipe,
        "what_if": question.what_if,
    }
    each = question.devices_of(node_type)
    # Of a whole node with one GPU `_alone` is the one way to train.
    counts = [n for n in node_counts(most) if not (question.all_gpus and n * each == 1)]
    # TensorFlow knows one recipe, and refuses others where there is nothing else to ask about.
    able = [name for name in known.frameworks if name == "pytorch" or not question.recipe]
    for framework in able or known.frameworks:
        kind = "sharded" if question.layouts else "all_reduce"
        step = {**common, "framework": framework, "strategy": kind}
        for batch_size, workers in _divided(question, counts, each):
            size = {"batch_size": batch_size, "workers": workers, "devices_per_node": each}
            yield step | size
    if question.server and question.batch_size and "tensorflow" in known.frameworks:
        for servers in range(1, question.servers + 1):
            workers = node_counts(most)
            yield {**common, "batch_size": question.batch_size, "workers": workers} | {
                "server": question.server,
                "servers": servers,
            }


def _alone(question: JobQuestion, known: ProfileFacts, node_type: str) -> Iterator[dict[str, Any]]:
    """Yield one GPU by itself beside it as the only replica: other systems know each of them."""
    is_one = question.devices_of(node_type) == 1 and gpus(node_type)
    # What befalls one of several GPUs says nothing of one.
    if not is_one or "pytorch" not in known.frameworks or question.what_if is not None:
        return
    for batch_size, _ in _divided(question, (1,), 1):
        yield {
            "dnn": question.dnn,
            "image_size": known.image_size,
            "framework": "pytorch",
            "strategy": "single",
            "batch_size": batch_size,
            **question.recipe,
        }


def _divided(
    question: JobQuestion, workers: Sequence[int], each: int
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield batch sizes of a device, each with the numbers of workers that have it."""
    if question.layouts:
        yield from ((size, (1,)) for size in MICRO_BATCHES)
        return
    if question.global_batch is None:
        if question.batch_size is not None and workers:
            yield question.batch_size, tuple(workers)
        return
    for count in workers:
        if question.global_batch % (count * each) == 0:
            yield question.global_batch // (count * each), (count,)


def batch_sizes_of(question: JobQuestion, capacity: Mapping[str, int]) -> tuple[int, ...]:
    """Return samples of a step of each device, of every way to run the job.

    Raises:
        BadInput: as `curves_of`: nothing divides the global batch.
    """
    batch_sizes = (
        size
        for node_type, most in capacity.items()
        for size, _ in _divided(question, node_counts(most), question.devices_of(node_type))
    )
    if sizes := tuple(dict.fromkeys(batch_sizes)):
        return sizes
    raise _undivided(question)


def node_counts(most: int) -> tuple[int, ...]:
    """Return the numbers of nodes that are asked about where there are so many."""
    if most <= _ALL_UP_TO:
        return tuple(range(1, most + 1))
    powers = (1 << place for place in range(most.bit_length()))
    return tuple(sorted({*powers, most}))


def _curve(fields: Mapping[str, Any]) -> Curve:
    try:
        return Curve.model_validate(fields)
    except ValidationError as error:
        message = fault(error, Curve)
        for field, option in _OPTIONS.items():
            if message.startswith(f"{field}:"):
                message = option + message.removeprefix(field)
        raise BadInput(message) from None


def profile_facts(question: JobQuestion, runs: Sequence[VisibleRun]) -> ProfileFacts:
    """Return what profiles say where a question does not.

    Raises:
        BadInput: they say nothing, or several things; or there is no such network.
    """
    about = [run.subject.scenario for run in runs if run.subject.scenario is not None]
    loads = [scenario.workload for scenario in about if scenario.workload.dnn == question.dnn]
    sizes = sorted({load.image_size for load in loads})
    image_size = question.image_size
    if image_size is None:
        if not sizes:
            raise BadInput(
                f"{question.dnn}: no run of it tells the side of its images; give --image-size"
            )
        fact = f"{question.dnn} was profiled at {_said(sizes, 'px')}"
        image_size = int(_only(sizes, fact, "--image-size"))
    speeds = sorted({run.subject.link_mbps for run in runs if run.subject.link_mbps is not None})
    link_mbps = question.link_mbps or (
        _only(speeds, f"links of {_said(speeds, 'Mb/s')} were probed", "--link-mbps")
        if speeds
        else _UNSHAPED
    )
    return ProfileFacts(image_size, link_mbps, _frameworks(question, image_size))


_UNSHAPED = 1000.0
"""A speed that a scenario on links which nobody shapes does not keep."""


def _only(values: Sequence[Any], fact: str, option: str) -> Any:
    if len(values) == 1:
        return values[0]
    raise BadInput(f"{fact}: say which with {option}")


def _said(values: Sequence[float], unit: str) -> str:
    return f"{' and '.join(f'{value:g}' for value in values)} {unit}"


def _frameworks(question: JobQuestion, image_size: int) -> tuple[Framework, ...]:
    """Return the frameworks that have the network.

    Raises:
        BadInput: none has.
    """
    frameworks: tuple[Framework, ...] = (
        ("pytorch", "tensorflow") if question.framework is None else (question.framework,)
    )
    supported: list[Framework] = []
    problem = ""
    for framework in frameworks:
        try:
            check(question.dnn, image_size, framework)
        except ValueError as error:
            problem = problem or str(error)
        else:
            supported.append(framework)
    if not supported:
        raise BadInput(problem)
    return tuple(supported)
