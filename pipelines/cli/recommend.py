"""`stepcast recommend`: which nodes to rent for a job, what that takes and costs, how surely."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pipelines.cli.options import Head, MemoryFormat, Optimizer, SequenceLength
from pipelines.cli.tables import print_text
from warehouse import limits
from warehouse.home import home
from warehouse.records import Backend, BadInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from forecasting.decisions.question import JobQuestion
    from models.choice.overheads import Overheads
    from networks.own_model import OwnModel

Choice = Literal["cost", "time"]
Markets = Literal["spot", "on_demand", "any"]
Framework = Literal["tensorflow", "pytorch"]
Job = tuple[int | None, int | None, float | None, int | None]
"""Samples, steps, epochs, and samples of an epoch."""
_UNSURE = 0.1
_MAX_NODES = 64
_NETWORK = "a network (`stepcast networks` lists them)"


@dataclass(frozen=True)
class RentalOptions:
    """What can be rented, and as of when, None: now; on which backend, None: any.

    Without capacity: every GPU that has a price, up to `max_nodes` nodes of a type.
    """

    capacity: Mapping[str, int]
    max_nodes: int
    market: Markets
    as_of: datetime | None
    backend: Backend | None


@dataclass(frozen=True)
class OutputOptions:
    """How an answer is shown: as JSON or in words, with the Pareto front, and drawn to a file."""

    as_json: bool
    front: bool
    picture: Path | None


def recommend(
    dnn: Annotated[
        str,
        typer.Option(
            help="The network; `stepcast networks` lists them. Or your own model: "
            "package.module:function, or hf:CONFIG of Hugging Face."
        ),
    ],
    capacity: Annotated[
        list[str] | None,
        typer.Option(
            help="Nodes there are, as TYPE=COUNT; may be repeated. If not given: every node type "
            "with GPUs that has a data sheet and an observed price (`stepcast node-types`)."
        ),
    ] = None,
    max_nodes: Annotated[
        int | None,
        typer.Option(help="Nodes of a type at most, where no --capacity is given; 64.", min=1),
    ] = None,
    systems: Annotated[
        str | None, typer.Option(help="Systems that are asked, a,b; all if not given.")
    ] = None,
    samples: Annotated[int | None, typer.Option(help="Samples of the job.")] = None,
    iterations: Annotated[
        int | None, typer.Option(help="Or steps of the job, each of --global-batch samples.")
    ] = None,
    epochs: Annotated[float | None, typer.Option(help="Or its epochs.")] = None,
    dataset_samples: Annotated[int | None, typer.Option(help="Samples of an epoch.")] = None,
    global_batch: Annotated[
        int | None, typer.Option(help="Samples of a step of all nodes together.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Or of each device, however many devices there are.")
    ] = None,
    minimize: Annotated[
        Choice, typer.Option(help="What is to be least within the limits: dollars or hours.")
    ] = "cost",
    max_hours: Annotated[float | None, typer.Option(help="Deadline; none if not given.")] = None,
    budget_usd: Annotated[float | None, typer.Option(help="Budget; none if not given.")] = None,
    max_usd_per_hour: Annotated[
        float | None, typer.Option(help="What all nodes may cost an hour; any price if not given.")
    ] = None,
    late: Annotated[
        float | None,
        typer.Option(help="Largest probability of being late or over budget; 0.1 if not given."),
    ] = None,
    framework: Annotated[
        Framework | None, typer.Option(help="Either, where the network has both.")
    ] = None,
    server: Annotated[
        str | None, typer.Option(help="Parameter servers there are, as TYPE or TYPE=COUNT.")
    ] = None,
    devices_per_node: Annotated[
        int | None,
        typer.Option(help="Devices of a worker; if not given, all GPUs of its node, else 1."),
    ] = None,
    launch_min: Annotated[
        float | None, typer.Option(help="Minutes until nodes train; 2.5, as Srift expects.")
    ] = None,
    load_min: Annotated[float | None, typer.Option(help="Minutes of loading data; 0.")] = None,
    checkpoint_s: Annotated[
        float | None, typer.Option(help="Seconds that a checkpoint takes; 10.")
    ] = None,
    checkpoint_every: Annotated[
        float | None, typer.Option(help="Minutes between two; Young's optimum on spot nodes.")
    ] = None,
    preemptions: Annotated[
        float | None, typer.Option(help="How often an hour a spot node is lost; as prices say.")
    ] = None,
    market: Annotated[
        Markets | None,
        typer.Option(
            help="Whose prices count; any: both markets are on offer. If not given, on_demand with "
            "--capacity, else any."
        ),
    ] = None,
    as_of: Annotated[
        datetime | None, typer.Option(help="As of this date, UTC; now if not given.")
    ] = None,
    image_size: Annotated[
        int | None, typer.Option(help="Side of images, pixels; if several were profiled.")
    ] = None,
    link_mbps: Annotated[
        float | None, typer.Option(help="Speed of links; if several were probed.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="As of `stepcast predict`: fp32, tf32, bf16 or fp16.")
    ] = None,
    optimizer: Optimizer = None,
    accumulate: Annotated[
        int | None, typer.Option(help="Passes whose gradients a step adds up; 1.", min=1)
    ] = None,
    memory_format: MemoryFormat = None,
    sequence_length: SequenceLength = None,
    head: Head = None,
    backend: Annotated[
        Backend | None, typer.Option(help="Use only profiles of this backend; as --host else.")
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            help="Use only profiles of this host, as answers name it; if not given, of the hosts "
            "with runs of most of the node types on offer this one, else that with the newest."
        ),
    ] = None,
    front: Annotated[
        bool, typer.Option("--front", help="Show what more money buys, up to the fastest.")
    ] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Draw time against cost, to a .png or .svg.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Recommend nodes for a job, and write the recommendation to the ledger.

    Without --capacity the choice is among all GPUs that EC2 rents: nodes of one type, each with all
    of its GPUs. With it, it is among the nodes that it names.

    Every system that can tell is asked about each type and number of nodes, and about mixes of
    types that srift proposes for a --global-batch. For each of them, the forecast of the system
    that has erred least counts. Prints the choice, two alternatives, rules
    of thumb, how surely limits are kept, whether the systems agree, and which measurement might
    change the answer. Nothing feasible: what to relax, and by how much.

    Example: stepcast recommend --dnn hf:gpt2 --batch-size 8 --sequence-length 1024 --precision
    bf16 --optimizer adamw --epochs 3 --dataset-samples 100000 --max-hours 24 --picture front.svg

    Example: stepcast recommend --dnn small_cnn --batch-size 8 --epochs 10 --dataset-samples
    50000 --max-hours 2 --late 0.1 --capacity emu.avx512.s15=8 --capacity emu.sse41.s15=8

    Example: stepcast recommend --dnn squeezenet --batch-size 8 --samples 1000000 --capacity
    emu.native.s25=8 --server emu.server=2 --minimize time --budget-usd 3

    Example: stepcast recommend --dnn my_package.my_module:build_model --batch-size 8 --samples
    1000000 --capacity emu.avx512.s15=8 --budget-usd 3 --picture front.svg

    Example: stepcast recommend --systems srift --dnn small_cnn --image-size 32 --global-batch 64
    --iterations 10000 --max-hours 20 --minimize time --capacity emu.avx512.s15=2 --capacity
    emu.sse41.s15=8 --link-mbps 500 --front --picture front.svg
    """
    from pipelines.cli.workload import target_with_head

    amounts: dict[str, float | None] = {
        "--global-batch": global_batch,
        "--batch-size": batch_size,
        "--samples": samples,
        "--iterations": iterations,
        "--epochs": epochs,
        "--dataset-samples": dataset_samples,
        "--max-hours": max_hours,
        "--budget-usd": budget_usd,
        "--max-usd-per-hour": max_usd_per_hour,
        "--link-mbps": link_mbps,
        "--devices-per-node": devices_per_node,
        "--checkpoint-every": checkpoint_every,
    }
    of_answers: dict[str, str | float | None] = {
        "--systems": systems,
        "--batch-size": batch_size,
        "--late": late,
        "--framework": framework,
        "--server": server,
        "--devices-per-node": devices_per_node,
        "--launch-min": launch_min,
        "--load-min": load_min,
        "--checkpoint-s": checkpoint_s,
        "--checkpoint-every": checkpoint_every,
        "--preemptions": preemptions,
        "--sequence-length": sequence_length,
        "--host": host,
    }
    _check_amounts(amounts, of_answers)
    recipe = {
        "precision": precision,
        "optimizer": optimizer,
        "accumulate": accumulate,
        "memory_format": memory_format,
    }
    options = {
        "dnn": target_with_head(dnn, head),
        "image_size": image_size,
        "global_batch": global_batch,
        "minimize": minimize,
        "max_hours": max_hours,
        "budget_usd": budget_usd,
        "max_usd_per_hour": max_usd_per_hour,
        "link_mbps": link_mbps,
        **{name: value for name, value in recipe.items() if value is not None},
    }
    job = (samples, iterations, epochs, dataset_samples)
    when = None if as_of is None else as_of.replace(tzinfo=UTC)
    named = _capacity(capacity or [])
    if named and max_nodes is not None:
        raise BadInput("--max-nodes: --capacity says how many nodes there are; leave one out")
    rented = RentalOptions(
        capacity=named,
        max_nodes=_MAX_NODES if max_nodes is None else max_nodes,
        market=market or ("on_demand" if named else "any"),
        as_of=when,
        backend=backend,
    )
    shown = OutputOptions(as_json, front, picture)
    _answer(options, of_answers, job, rented, shown)


def _answer(
    options: Mapping[str, Any],
    of_answers: Mapping[str, Any],
    job: Job,
    rented: RentalOptions,
    shown: OutputOptions,
) -> None:
    """Ask all systems about every way to run the job, and print the answer.

    Raises:
        BadInput: as `forecasting.decisions.answer.answer`, or options contradict each other.
    """
    from forecasting.decisions.answer import answer
    from forecasting.decisions.offers import read_gpu_offers
    from forecasting.inputs import systems_named
    from networks.kept_graphs import keep_beside
    from pipelines.cli.options import check_picture, write_picture
    from pipelines.cli.query import warehouse_here
    from pipelines.cli.recommend_output import print_decision, print_json
    from pipelines.cli.workload import as_asked, as_json, in_words

    check_picture(shown.picture)
    if of_answers["--preemptions"] is not None and rented.market == "on_demand":
        raise BadInput("--preemptions: nodes on demand are not taken away; give --market spot, any")
    names = of_answers["--systems"]
    systems = systems_named([] if names is None else [name.strip() for name in names.split(",")])
    question, catalogue = _question(options, of_answers, job), None
    warehouse = warehouse_here()
    if not rented.capacity:
        _check_gpus_alone(question)
        when = rented.as_of or datetime.now(UTC)
        catalogue = read_gpu_offers(warehouse, rented.market, when, rented.max_nodes)
        question = question.model_copy(update={"framework": "pytorch"})
    capacity = rented.capacity if catalogue is None else catalogue.capacity
    _check_capacity(capacity)
    if of_answers["--devices-per-node"] is None and (catalogue or _have_several_gpus(capacity)):
        question = question.model_copy(update={"all_gpus": True})
    keep_beside(home())
    question, model = _with_model(question, capacity, of_answers)
    recommendation = answer(
        warehouse,
        question,
        capacity,
        rented.market,
        systems,
        as_of=rented.as_of,
        # What is measured of GPUs is measured on the machines themselves.
        backend=rented.backend or ("loopback" if catalogue else None),
        host=of_answers["--host"],
        catalogue=catalogue,
        say=_say,
    )
    target = options["dnn"]
    if shown.as_json:
        print_json(recommendation, None if model is None else as_json(target, model))
    else:
        if model is not None:
            print_text(in_words(target, model))
        print_decision(recommendation, with_front=shown.front, target=target if model else None)

    def drawn() -> "Figure":
        from reports.recommendation_plot import of_all_systems

        return of_all_systems(recommendation, None if model is None else as_asked(target))

    write_picture(shown.picture, drawn, told=not shown.as_json)


def _check_gpus_alone(question: "JobQuestion") -> None:
    """Refuse what no GPU of the catalogue is asked about.

    Raises:
        BadInput: naming the option.
    """
    if question.framework == "tensorflow" or question.server is not None:
        given = "--server" if question.server is not None else "--framework tensorflow"
        raise BadInput(f"{given}: of GPUs only PyTorch is known; say with --capacity what there is")


def _have_several_gpus(capacity: Mapping[str, int]) -> bool:
    from profilers.clusters.node_types import gpus

    return any(gpus(name) > 1 for name in capacity)


def _question(options: Mapping[str, Any], of_answers: Mapping[str, Any], job: Job) -> "JobQuestion":
    from pydantic import ValidationError

    from forecasting.decisions.question import JobQuestion, samples_of
    from profilers.record_file import fault

    global_batch, batch_size = options["global_batch"], of_answers["--batch-size"]
    if (global_batch is None) == (batch_size is None):
        raise BadInput("expected --global-batch (of all nodes together) or --batch-size (of each)")
    server, servers = _server(of_answers["--server"])
    if server is not None and batch_size is None:
        raise BadInput("--server: asynchronous workers have batches of their own; --batch-size")
    late = of_answers["--late"]
    fields = dict(
        **options,
        samples=samples_of(*job, per_step=global_batch),
        framework=of_answers["--framework"],
        batch_size=batch_size,
        devices_per_node=of_answers["--devices-per-node"] or 1,
        server=server,
        servers=servers,
        late=_UNSURE if late is None else late,
        overheads=_overheads(of_answers),
        preemptions_per_node_hour=of_answers["--preemptions"],
    )
    try:
        return JobQuestion.model_validate(fields)
    except ValidationError as error:
        raise BadInput(f"--{fault(error, JobQuestion).replace('_', '-', 1)}") from None


def _with_model(
    question: "JobQuestion", capacity: Mapping[str, int], of_answers: Mapping[str, Any]
) -> "tuple[JobQuestion, OwnModel | None]":
    """Return the question about a network that is known by its name from now on.

    Raises:
        BadInput: as `pipelines.cli.workload.check_options` and `built`.
    """
    from forecasting.decisions.question import batch_sizes_of
    from models.gpu_step.device import device_of_node
    from models.gpu_step.step import step_precision
    from pipelines.cli.workload import build_own_model, check_length, check_options, is_target

    target, sequence_length = question.dnn, of_answers["--sequence-length"]
    if not is_target(target, _NETWORK):
        check_length(sequence_length)
        return question, None
    size = None if question.image_size is None else f"{question.image_size}"
    options = {"framework": question.framework, "server": question.server, "image_size": size}
    check_options(target, options, sequence_length)
    batch_sizes = batch_sizes_of(question, capacity)
    on_gpus = any(device_of_node(name) is not None for name in capacity)
    # Replicas for which there is no room are sharded.
    asked = {step_precision(question.precision, kind): None for kind in ("single", "sharded")}
    precisions = list(asked) if on_gpus else []
    model = build_own_model(target, batch_sizes, options, sequence_length, precisions)
    known = {
        "dnn": model.dnn,
        "image_size": model.image_size,
        "framework": model.framework,
        "sequence_length": model.sequence_length,
    }
    return question.model_copy(update=known), model


def _check_capacity(capacity: Mapping[str, int]) -> None:
    """Refuse more nodes than a scenario may have."""
    if (most := max(capacity.values())) > limits.NODES:
        raise BadInput(f"expected at most {limits.NODES:,} nodes of a type to rent, found {most:,}")


def _server(text: str | None) -> tuple[str | None, int]:
    if text is None:
        return None, 1
    name, equals, count = text.partition("=")
    if not name or (equals and (not count.isdecimal() or not 1 <= int(count) <= limits.NODES)):
        raise BadInput(f"--server {text!r}: expected TYPE or TYPE=COUNT, e.g. emu.server=2")
    return name, int(count) if equals else 1


def _overheads(of_answers: Mapping[str, Any]) -> "Overheads":
    from models.choice.overheads import Overheads

    units = {
        "launch_s": ("--launch-min", 60),
        "load_s": ("--load-min", 60),
        "checkpoint_s": ("--checkpoint-s", 1),
        "checkpoint_every_s": ("--checkpoint-every", 60),
    }
    given = {
        name: of_answers[option] * unit
        for name, (option, unit) in units.items()
        if of_answers[option] is not None
    }
    return Overheads(**given)


def _say(text: str) -> None:
    print_text(text, err=True)


def _check_amounts(amounts: Mapping[str, float | None], others: Mapping[str, object]) -> None:
    """Refuse amounts that cannot be."""
    for option, value in amounts.items():
        if value is not None and not 0 < value < float("inf"):
            raise BadInput(f"{option}: expected a number above 0, found {value:g}")
    for option, other in others.items():
        if isinstance(other, float) and not 0 <= other < float("inf"):
            raise BadInput(f"{option}: expected a number from 0, found {other:g}")
    late = others["--late"]
    if isinstance(late, float) and not 0.01 <= late < 1:
        raise BadInput(f"--late: expected a probability from 0.01 to below 1, found {late:g}")


def _capacity(texts: Sequence[str]) -> dict[str, int]:
    """Return how many nodes there are of each type; one that is given twice is refused."""
    capacity: dict[str, int] = {}
    for node_type, count in map(_counted, texts):
        if node_type in capacity:
            raise BadInput(f"--capacity {node_type}: expected each node type once, found it twice")
        capacity[node_type] = count
    return capacity


def _counted(text: str) -> tuple[str, int]:
    node_type, equals, count = text.partition("=")
    if not node_type or not equals or not count.isdecimal() or not int(count):
        raise BadInput(f"--capacity {text!r}: expected TYPE=COUNT, e.g. g4dn.8xlarge=16")
    return node_type, int(count)
