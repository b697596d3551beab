"""A model of the user's own: what is asked about it, what is known of it, how to measure it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from networks.extraction import register_own_model
from networks.own_huggingface import PREFIX, Target, as_trained
from networks.own_model import NoGraph, OwnModel, tracing
from pipelines.cli.templates import Options, curves_of, of_options
from profilers.clusters.node_types import fleet_types
from studies.curve import Curve, gpu_precisions
from studies.messages import count, name_some
from warehouse.records import BadInput

if TYPE_CHECKING:
    from forecasting.forecast import ForecastAnswer

LEARNING = (
    "What learns from other networks needs a study that lists some under train:, such as "
    "studies/reference_ceer_pytorch.yaml; `stepcast plan` says how long it takes."
)
INVENTORY = (
    "An inventory of these nodes takes a minute each: list them in a copy of "
    "studies/inventory.yaml, or with six runs of studies/few.yaml, and `stepcast run` it there."
)
_NOT_ASKED = {"dnn": "the model is the network", "image_size": "the example batch has the images"}
_MUCH_BYTES = 2**30
_OPTIONS = {"checkpointed": "checkpoint_activations", "weights": "precision"}
"""Of fields of a target that have other names."""
_OF_SERVERS = ("server", "servers")
_FRAMEWORKS = {"pytorch": "PyTorch", "tensorflow": "Keras"}


@dataclass(frozen=True)
class OwnWorkload:
    """A user's model, what builds it, and the curves that are asked about where there are any.

    `sequence_length` is what the user gave of a model of Hugging Face.
    """

    target: str
    model: OwnModel
    curves: Sequence[Curve] = ()
    sequence_length: int | None = None

    @property
    def in_words(self) -> str:
        """A line about it, and one about each doubt that its graph raises."""
        model = self.model
        if model.graph is None:
            parts = f"a model of {_FRAMEWORKS[model.framework]}"
        else:
            parts = count(len(model.graph.nodes), "primitive operation")
        parameters = f"{model.parameter_count:,} parameters"
        if model.frozen_count:
            of_all = model.parameter_count + model.frozen_count
            parameters = f"trains {model.parameter_count:,} of {of_all:,} parameters"
        # A side of one pixel makes no image.
        seen = "no images"
        if model.image_size > 1:
            seen = f"images of {model.image_size} px"
        elif model.image_size:
            seen = f"no images (samples of {' × '.join(map(str, model.sample))})"
        trained = f", trained as {model.trained_class}" if model.trained_class else ""
        known = f"{model.dnn}: {parameters}, {parts}, {seen}{trained}"
        return "\n".join([f"{as_asked(self.target)} is {known}.", *_doubts(model)])

    def as_json(self) -> Mapping[str, object]:
        """Return the same for programs."""
        model = self.model
        return {
            "target": self.target,
            "dnn": model.dnn,
            "framework": model.framework,
            "trained_class": model.trained_class or None,
            "parameters": model.parameter_count + model.frozen_count,
            "trained_parameters": model.parameter_count,
            "primitives": None if model.graph is None else len(model.graph.nodes),
            "image_size": model.image_size,
            "unknown_work": dict(model.unknown_work),
            "unmeasured_operators": list(model.unmeasured),
            "inputs_without_batch": list(model.not_batched),
        }


def _doubts(model: OwnModel) -> Iterator[str]:
    """Yield lines about operators of unknown work, and such as no judged network has."""
    if model.not_batched:
        yield (
            f"The first dimension of {name_some(model.not_batched)} is not the batch: inputs are "
            "taken as the function gives them for the batch that is asked about."
        )
    if model.altered:
        yield f"It has {', '.join(model.altered)}: only forecasts of GPUs count that."
    if model.half:
        yield f"Its trained weights are {model.half}: it trains in that, without autocast."
    if model.weights_bytes > _MUCH_BYTES:
        yield (
            "It asks for values while it is built, so its weights took "
            f"{model.weights_bytes / 2**30:.0f} GiB of memory here; built without asking, or on "
            "the meta device, they take none."
        )
    if model.unmeasured:
        yield (
            f"{name_some(model.unmeasured)}: counted by the products that they consist of. "
            "Forecasts have not been judged on such operators: past errors are of other networks."
        )
    if model.unknown_work:
        most = 100 * sum(model.unknown_work.values())
        operators = name_some(list(model.unknown_work))
        yield f"{operators}: of unknown work, at most {most:.2g} % of all."


def is_target(text: str, instead: str = "a YAML file of templates") -> bool:
    """Tell whether a word names a function, and nothing that may be given `instead`.

    Raises:
        BadInput: it is neither, but looks as if a function was meant.
    """
    path = Path(text)
    if path.exists() and path.suffix != ".py":
        return False
    if ":" in text:
        return True
    if path.suffix not in ("", ".yaml", ".yml"):
        name = text.removesuffix(".py").replace("/", ".")
        function = "build_model" if path.suffix == ".py" else name.rpartition(".")[2]
        module = name if path.suffix == ".py" else name.rpartition(".")[0]
        raise BadInput(
            f"{text}: expected {instead}, or a function that builds your model, "
            f"such as {module}:{function}; docs/my-model.md says how to write one"
        )
    return False


@contextmanager
def tracing_own_workload(
    target: str, options: Options, sequence_length: int | None = None
) -> Iterator[Callable[[], OwnWorkload]]:
    """Trace the model that a target builds while the block does other things.

    Yields what waits for it; the model is known as a network as long as this process lives. What
    waits raises `BadInput` where the model has no graph; one line says why.

    Args:
        target: what builds it.
        options: of the command, by name.
        sequence_length: words of a sample, of models of Hugging Face.

    Raises:
        BadInput: an option is wrong.
    """
    check_options(target, options, sequence_length)
    # Wrong options are told before the model is built, which takes seconds.
    served = any(options.get(name) is not None for name in _OF_SERVERS)
    expected_curves = _curves(
        options, options.get("framework") or ("tensorflow" if served else "pytorch")
    )
    batch_sizes = tuple(dict.fromkeys(curve.batch_size for curve in expected_curves))

    def workload() -> OwnWorkload:
        model = model_traced()
        fields = model.workload_fields
        curves = [curve.model_copy(update=fields) for curve in _curves(options, model.framework)]
        return OwnWorkload(target, model, curves, sequence_length)

    asked = (target, batch_sizes, options, sequence_length, gpu_precisions(expected_curves))
    with tracing_model(*asked) as model_traced:
        yield workload


@contextmanager
def tracing_model(
    target: str,
    batch_sizes: Sequence[int],
    options: Options,
    sequence_length: int | None,
    gpu_precisions: Sequence[str] = (),
) -> Iterator[Callable[[], OwnModel]]:
    """Trace the model that a target builds while the block does other things.

    Yields what waits for it; it is known as a network as long as this process lives.

    Args:
        target: what builds it.
        batch_sizes: samples of a step on each device, all that are asked about.
        options: of the command, by name.
        sequence_length: words of a sample, of models of Hugging Face.
        gpu_precisions: of autocast, at which GPUs are asked for its step.

    Raises:
        BadInput: an option is of another framework, or the model has no graph; one line says why.
    """
    source, folder = as_trained(target, sequence_length=sequence_length), Path.cwd()

    def model() -> OwnModel:
        try:
            made = traced()
        except NoGraph as error:
            raise BadInput(str(error)) from None
        _check_framework(target, made.framework, options)
        if options.get("memory_format") == "channels_last" and made.image_size <= 1:
            raise BadInput(
                f"--memory-format channels_last and {target}: it sees no images; leave it out"
            )
        register_own_model(made, (source, str(folder)))
        return made

    with tracing(source, batch_sizes, folder, gpu_precisions=gpu_precisions) as traced:
        yield model


def check_options(target: str, options: Options, sequence_length: int | None) -> None:
    """Refuse options that say what the model says itself.

    Raises:
        BadInput: naming the option.
    """
    for name, why in _NOT_ASKED.items():
        if options.get(name) is not None:
            option = name.replace("_", "-")
            raise BadInput(f"--{option} and {target}: {why}; leave out --{option}")
    if not target.startswith(PREFIX):
        check_length(sequence_length)


def check_length(sequence_length: int | None) -> None:
    """Refuse a number of words where no config of Hugging Face is asked about.

    Raises:
        BadInput: it is given.
    """
    if sequence_length is not None:
        raise BadInput(
            "--sequence-length: only models by a config, hf:CONFIG, have one; the example batch of "
            "your own has the words, so leave it out"
        )


def target_as_trained(target: str | None, said: Mapping[str, object]) -> str | None:
    """Return what is asked about, with how it is trained.

    Args:
        target: what builds the user's own model; None: a network is asked about.
        said: as `forecasting.options.TrainingOptions.of_hugging_face`.

    Raises:
        BadInput: something is said where no config of Hugging Face is asked about, or targets of
            adapters without a rank.
    """
    if not said:
        return target
    if target is not None and target.startswith(PREFIX):
        return as_trained(target, **said)
    name = next(iter(said))
    if name == "weights":
        instead = (
            f"give --precision {said[name]}, which is autocast"
            if target is None
            else f"return yours in {said[name]}, without --precision"
        )
        raise BadInput(
            f"--precision {said[name]}-true: only models by a config, hf:CONFIG, are made with "
            f"such weights; {instead}"
        )
    option = _OPTIONS.get(name, name).replace("_", "-")
    raise BadInput(f"--{option}: only models by a config, hf:CONFIG, have that to choose")


def as_asked(target: str) -> str:
    """Return a target as it is written on the command line."""
    if not target.startswith(PREFIX):
        return target
    asked = Target.of(target)
    given = {name: getattr(asked, name) or None for name in ("head", "lora", "lora_targets")}
    again = " --checkpoint-activations" if asked.checkpointed else ""
    return f"{PREFIX}{asked.config}{_words(given)}{again}"


def _curves(options: Options, framework: str) -> list[Curve]:
    """Return what is asked about a model, whatever it is; Keras's is replicated, or has servers."""
    completed = {**options, "dnn": "own", "image_size": 0, "framework": framework}
    if framework == "tensorflow" and all(completed.get(name) is None for name in _OF_SERVERS):
        completed["strategy"] = completed.get("strategy") or "all_reduce"
        completed["workers"] = completed.get("workers") or 1
    return curves_of(of_options(completed), None)


def _check_framework(target: str, framework: str, options: Options) -> None:
    """Refuse options of another framework than that of the model.

    Raises:
        BadInput: naming the option.
    """
    of = _FRAMEWORKS[framework]
    given = options.get("framework")
    if given not in (None, framework):
        raise BadInput(
            f"--framework {given} and {target}: it makes a model of {of}; leave out --framework"
        )
    if framework == "pytorch" and any(options.get(name) is not None for name in _OF_SERVERS):
        raise BadInput(
            f"--server and {target}: it makes a model of {of}, which no parameter servers train; "
            "leave out --server"
        )


def profile_commands(answer: "ForecastAnswer", own: OwnWorkload) -> Iterator[str]:
    """Yield the command that measures what systems lack of the model and its nodes."""
    lacking = {needed.probe for refusal in answer.refused for needed in refusal.lacking}
    exchange = bool(lacking & {"links", "allreduce"}) or "tf_trace" in lacking
    # All-reduces of another host do not serve once this one has passes of its own.
    several = any(workers > 1 for curve in own.curves for workers in curve.workers)
    exchange |= several and not answer.chosen_host.is_here and "torch_compute" in lacking
    if lacking & {"torch_compute", "tf_trace"} or (exchange and own.model.framework == "pytorch"):
        first, largest = own.curves[0], max(curve.batch_size for curve in own.curves)
        is_replicated = first.strategy == "all_reduce"
        given = {
            "workers": ",".join(map(str, first.workers)) if is_replicated else None,
            "link_mbps": f"{first.link_mbps:g}" if exchange and first.link_mbps else None,
            "server": f"{first.server}={first.servers}" if first.server is not None else None,
            "sequence_length": own.sequence_length,
            **first.recipe,
        }
        types = dict.fromkeys(name for curve in own.curves for name in curve.worker)
        # Machines of a fleet do not see the files of a model.
        for worker in (name for name in types if name not in fleet_types()):
            command = profile_command(own.target, worker, largest, given)
            yield f"To measure that on this machine, `{command}`."
    yield from advice(answer)


def profile_command(
    target: str, node_type: str, batch_size: int, recipe: Mapping[str, object]
) -> str:
    """Return the command that times passes of one's own model on one device of a node."""
    given = {"worker": node_type, "batch_size": batch_size, **recipe}
    if target.startswith(PREFIX):
        asked = Target.of(target)
        if asked.weights and not asked.lora:
            given["precision"] = f"{asked.weights}-true"
    else:
        given.pop("sequence_length", None)  # its example batch has the words
    return f"stepcast profile {as_asked(target)}{_words(given)}"


def advice(answer: "ForecastAnswer") -> Iterator[str]:
    """Yield what to do about systems that learn from other networks, and about nodes."""
    if any(needed.of_train for refusal in answer.refused for needed in refusal.lacking):
        yield LEARNING
    probes = (
        needed.probe
        for refusal in answer.refused
        for needed in refusal.lacking
        if refusal.system.transfers_across_hosts
    )
    if "inventory" in probes:
        yield INVENTORY


def _words(options: Mapping[str, object]) -> str:
    """Return options as they are written, those that are given."""
    given = {name.replace("_", "-"): value for name, value in options.items() if value is not None}
    return "".join(f" --{name} {value}" for name, value in given.items())
