"""What is asked about training: one record, whose parts commands, Python and sweeps take.

A field with a description is an option of the command line too; the others are for Python alone
(`stepcast.recommend(overheads={"checkpoint_s": 30})`).
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from models.choice.limits import Minimize
from models.choice.overheads import Overheads
from profilers.record_file import fault
from studies.curve import LAYOUT
from warehouse import limits
from warehouse.fields import compiled_mode, spelled_out
from warehouse.records import WHAT_IF, Backend, BadInput, Record

Value = str | int | float
O = TypeVar("O", bound=Record)  # noqa: E741
_ALL = "-true"
"""Of a precision that weights have, too (Lightning's word)."""
_OF_WEIGHTS = ("float32", "bfloat16", "float16")
"""Types that `-true` may have before it."""
_NODES = r"[^=\s]+(=[1-9]\d{0,4})?"


def _values(given: object) -> object:
    """Return the values that commas tell apart, numbers as numbers; one needs no comma."""
    if not isinstance(given, str):
        return given
    values = tuple(_value(text) for text in given.split(","))
    return values if len(values) > 1 else values[0]


def _value(text: str) -> Value:
    """Return a whole number or a text, as YAML would."""
    return int(text) if text.strip().isdecimal() else text.strip()


def _names(given: object) -> object:
    return [name.strip() for name in given.split(",")] if isinstance(given, str) else given


def _counts(given: object) -> object:
    """Return how many nodes there are of each type, of texts such as g5.xlarge=2."""
    if isinstance(given, Mapping):
        return given
    counts: dict[str, int] = {}
    for text in [given] if isinstance(given, str) else list(given or ()):  # type: ignore[call-overload]
        node_type, _, count = str(text).partition("=")
        if not node_type or not count.isdecimal() or not int(count):
            raise ValueError(f"expected TYPE=COUNT, e.g. g4dn.8xlarge=16, found {text!r}")
        if node_type in counts:
            raise ValueError(f"expected each node type once, found {node_type} twice")
        counts[node_type] = int(count)
    return counts


def _utc(when: datetime) -> datetime:
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when


def _is_of_weights(precision: str) -> bool:
    return precision.lower().endswith(_ALL)


def _of_weights(precision: str) -> object:
    """Return the type of weights of a precision such as bf16-true."""
    return spelled_out(precision.lower().removesuffix(_ALL))


Several = Annotated[Value | tuple[Value, ...] | None, BeforeValidator(_values)]
"""A value, or several of a grid: in text told apart by commas."""
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Mode = Annotated[
    Literal["default", "reduce-overhead"] | None,
    BeforeValidator(lambda given: compiled_mode(given) or None),
]
Counts = Annotated[Mapping[str, int], BeforeValidator(_counts)]
Amount = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Time = Annotated[datetime, AfterValidator(_utc)]
_TRAINING = (
    *("dnn", "framework", "strategy", "image_size", "batch_size", "precision", "optimizer"),
    *("accumulate", "memory_format", "compiled", "what_if"),
    *("workers", "worker", *LAYOUT, "link_mbps"),
)
"""Fields that are those of a template of a study."""


class TrainingOptions(Record):
    """What is trained and how; every command that asks about training takes these."""

    dnn: Several = Field(
        default=None,
        description="The network, or several: a,b; `stepcast support` lists them. Or a model of "
        "your own: package.module:function, or hf:CONFIG of Hugging Face.",
    )
    batch_size: Several = Field(default=None, description="Samples of a pass of each device.")
    precision: Several = Field(
        default=None,
        description="float32 (TF32 in cuDNN alone, as PyTorch has it), tf32, bfloat16 or float16 "
        "(autocast); also fp32, bf16, fp16. Of hf:CONFIG bf16-true, fp16-true: weights are, too.",
    )
    optimizer: Several = Field(
        default=None,
        description="sgd (no momentum), momentum, adam, adamw or adamw_8bit (bitsandbytes').",
    )
    accumulate: Several = Field(
        default=None, description="Passes of --batch-size whose gradients a step adds up; 1."
    )
    memory_format: Several = Field(default=None, description="contiguous or channels_last.")
    compiled: Mode = Field(
        default=None,
        description="Mode of torch.compile, default or reduce-overhead; of GPUs. Alone: default.",
    )
    sequence_length: Count | None = Field(
        default=None, description="Words of a sample, of hf:CONFIG; 128 if not given."
    )
    head: str | None = Field(
        default=None,
        description="What hf:CONFIG is trained as: a task such as text-generation, fill-mask, "
        "text-classification, image-classification, causal-lm, seq2seq-lm; none: no head. If not "
        "given, the class that the config names, else what its type is trained as.",
    )
    lora: Count | None = Field(
        default=None,
        description="Rank of adapters of hf:CONFIG, which alone are trained (LoRA); frozen weights "
        "have the half precision that is asked for.",
    )
    lora_targets: str | None = Field(
        default=None,
        description="Names of layers that --lora adapts, a,b; else projections of queries and "
        "values; all-linear: all but the head.",
    )
    checkpoint_activations: bool = Field(
        default=False, description="Compute activations of hf:CONFIG's layers again in backward."
    )
    server: str | None = Field(
        default=None, pattern=_NODES, description="Parameter servers, as TYPE or TYPE=COUNT."
    )
    link_mbps: Several = Field(
        default=None,
        description="Speed of links, 10^6 bits/s; needed where several processors train.",
    )

    @model_validator(mode="after")
    def _weights_have_one_type(self) -> Self:
        given = self.precision if isinstance(self.precision, tuple) else (self.precision,)
        of_weights = [each for each in given if isinstance(each, str) and _is_of_weights(each)]
        for each in of_weights:
            if _of_weights(each) not in _OF_WEIGHTS:
                raise ValueError(
                    f"precision: expected bf16-true or fp16-true of weights, found {each}"
                )
        if of_weights and len(given) > 1:
            raise ValueError(f"precision: {of_weights[0]} is asked about alone, one precision")
        if self.lora and len(given) > 1:
            raise ValueError("precision: give one precision with --lora: frozen weights are in it")
        if self.lora and of_weights and _of_weights(of_weights[0]) != "float32":
            raise ValueError(
                f"precision: adapters of --lora are in float32; give "
                f"{of_weights[0].lower().removesuffix(_ALL)}, which frozen weights are in, too"
            )
        if self.lora_targets is not None and not self.lora:
            raise ValueError("lora_targets: give lora, the rank of adapters, too")
        if isinstance(self.dnn, tuple) and self.of_hugging_face:
            asked = [str(each) for each in self.dnn if ":" in str(each)]
            if asked:
                raise ValueError(f"dnn: one model at a time is asked about, such as {asked[0]}")
        return self

    @property
    def training(self) -> dict[str, Any]:
        """Fields of a template, those that are given."""
        given = {name: getattr(self, name, None) for name in _TRAINING}
        if isinstance(self.precision, str):
            given["precision"] = self.precision.lower().removesuffix(_ALL)
        if self.server is not None:
            given["server"], _, count = self.server.partition("=")
            given["servers"] = int(count) if count else None
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in given.items()
            if value is not None
        }

    @property
    def of_hugging_face(self) -> dict[str, object]:
        """Fields of `networks.own_huggingface.Target`, those that are given."""
        precision = self.precision if isinstance(self.precision, str) else ""
        weights = _of_weights(precision)
        given = {
            "head": self.head,
            "lora": self.lora,
            "lora_targets": self.lora_targets,
            "checkpointed": int(self.checkpoint_activations) or None,
            "weights": weights if _is_of_weights(precision) else None,
        }
        if self.lora and weights in ("bfloat16", "float16"):
            given["weights"] = weights
        return {name: value for name, value in given.items() if value is not None}


class AskingOptions(TrainingOptions):
    """Who is asked, and whose runs count."""

    framework: Several = Field(
        default=None,
        description="tensorflow or pytorch, where the network has both; tensorflow has --server.",
    )
    image_size: Several = Field(default=None, description="Side of images, pixels.")
    devices_per_node: Several = Field(default=None, description="Devices of a worker.")
    dataset_samples: Count | None = Field(default=None, description="Samples of an epoch.")
    what_if: str | None = Field(
        default=None,
        pattern=WHAT_IF,
        description="lost-node (halfway; the others go on), slow-gpu=0.8 (one has that part of its "
        "speed) or slow-link=0.5 (one has that part of its bandwidth); of several GPUs.",
    )
    systems: Names = Field(default=(), description="Systems that are asked, a,b; else all.")
    backend: Backend | None = Field(
        default=None, description="Use only profiles of this backend; as --host else."
    )
    host: str | None = Field(
        default=None,
        description="Use only profiles of this host, as answers name it; if not given, of the "
        "hosts with runs of most of the node types asked about this one, else one with runs on "
        "such links, else that with the newest.",
    )


class ForecastOptions(AskingOptions):
    """What `stepcast predict` takes.

    Attributes:
        file: a YAML list of templates, in place of options that say what is trained.
    """

    file: Path | None = None
    strategy: Several = Field(
        default=None,
        description="async_parameter_server, all_reduce (DistributedDataParallel, also of one "
        "worker), single (one device without it); of GPUs sharded (FullyShardedDataParallel, "
        "ZeRO-3), hsdp (among those of a node), zero1, zero2. PyTorch's default is single where "
        "nothing is said of workers, devices and links, else all_reduce.",
    )
    tensor_parallel: Several = Field(
        default=None,
        description="GPUs of a node that divide each layer, and words between layers; 1.",
    )
    pipeline_parallel: Several = Field(
        default=None,
        description="Stages of layers (1F1B); their micro batches are --accumulate passes; 1.",
    )
    virtual_stages: Several = Field(
        default=None, description="Stages that each GPU takes in turn (interleaved 1F1B); 1."
    )
    workers: Several = Field(default=None, description="Numbers of workers: 1,2,4.")
    worker: Several = Field(
        default=None, description="Their node type; 'a + b': a mixed cluster; a,b: either."
    )
    calibrate: str | None = Field(
        default=None,
        description="Correct forecasts by a step that you measured: workers=1,step_s=0.41, or "
        "steps_per_s of all workers.",
    )
    loader_samples_per_s: Amount | None = Field(
        default=None, description="Samples a second that loading brings all devices together."
    )
    far_out: bool = Field(
        default=False, description="Show forecasts farther out than any that was judged."
    )
    dry_run: bool = Field(default=False, description="Write no forecast.")


class ProfileOptions(TrainingOptions):
    """What `stepcast profile` takes."""

    worker: str = Field(description="The node type.")
    workers: Several = Field(
        default=None,
        description="Numbers of workers to be asked about: 1,2,4. Without it and --link-mbps: one "
        "device by itself, strategy single of `stepcast predict`.",
    )


class RentalOptions(AskingOptions):
    """What `stepcast recommend` takes; a job with its limits, and what can be rented.

    Attributes:
        overheads: what comes to training.
        preemptions_per_node_hour: of spot nodes; None: a fifth of all within a month.
    """

    capacity: Counts = Field(
        default={},
        description="Nodes there are, as TYPE=COUNT; may be repeated. If not given: every node "
        "type with GPUs that has a data sheet and an observed price (`stepcast node-types`).",
    )
    samples: Count | None = Field(default=None, description="Samples of the job.")
    epochs: Amount | None = Field(
        default=None, description="Or its epochs, of --dataset-samples each."
    )
    global_batch: Count | None = Field(
        default=None,
        description="In place of --batch-size: samples of a step of all nodes together.",
    )
    layouts: bool = Field(
        default=False,
        description="Look at layouts of --global-batch: strategies, tensor and pipeline parallel, "
        "micro batches, activations kept or computed again; of models of Hugging Face.",
    )
    minimize: Minimize = Field(default="cost", description="What is to be least within the limits.")
    max_hours: Amount | None = Field(default=None, description="Deadline; none if not given.")
    budget_usd: Amount | None = Field(default=None, description="Budget; none if not given.")
    late: float = Field(
        default=0.1, ge=0.01, lt=1, description="Largest probability of being late or over budget."
    )
    market: Literal["spot", "on_demand", "any"] | None = Field(
        default=None,
        description="Whose prices count; any: both markets are on offer. If not given, on_demand "
        "with --capacity, else any.",
    )
    region: str | None = Field(
        default=None,
        description="Whose prices count; if not given, the region that has prices of most node "
        "types, of --capacity the one where it costs least.",
    )
    as_of: Time | None = Field(default=None, description="As of this date, UTC; now if not given.")
    max_nodes: Count | None = Field(
        default=None, description="Nodes of a type at most, where no --capacity is given; 64."
    )
    max_usd_per_hour: Amount | None = Field(
        default=None, description="What all nodes may cost an hour; any price if not given."
    )
    overheads: Overheads = Overheads()
    preemptions_per_node_hour: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _no_contradiction(self) -> Self:
        if self.capacity and self.max_nodes is not None:
            raise ValueError(
                "max_nodes: --capacity says how many nodes there are; leave one of them out"
            )
        if (most := max((*self.capacity.values(), self.max_nodes or 0))) > limits.NODES:
            raise ValueError(
                f"expected at most {limits.NODES:,} nodes of a type to rent, found {most:,}"
            )
        if self.preemptions_per_node_hour is not None and self.of_market == "on_demand":
            raise ValueError(
                "preemptions_per_node_hour: nodes on demand are not taken away; give market spot"
            )
        return self

    @property
    def of_market(self) -> Literal["spot", "on_demand", "any"]:
        """Whose prices count."""
        return self.market or ("on_demand" if self.capacity else "any")


def read_options(kind: type[O], given: Mapping[str, object]) -> O:
    """Return options as the command line has them.

    Raises:
        BadInput: naming the option.
    """
    try:
        return kind.model_validate({name: each for name, each in given.items() if each is not None})
    except ValidationError as error:
        raise BadInput(named_as_options(fault(error, kind), kind)) from None


def named_as_options(text: str, kind: type[Record]) -> str:
    """Return what is wrong with fields, these named as the options that they are."""
    names, colon, rest = text.partition(":")
    fields = [field.partition("[")[0] for field in names.split(", ")]
    if colon and all(field in kind.model_fields for field in fields):
        return f"{', '.join(f'--{field}' for field in fields).replace('_', '-')}:{rest}"
    return text
