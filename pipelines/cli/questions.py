"""Questions of the command line and of Python: options in, an answer out."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from forecasting.options import ForecastOptions, RentalOptions, read_options
from pipelines.cli import own_workload, templates
from pipelines.cli.own_workload import OwnWorkload
from pipelines.cli.query import warehouse_here
from warehouse.records import BadInput

if TYPE_CHECKING:
    from forecasting.decisions.answer import DecisionAnswer, Predict
    from forecasting.decisions.question import JobQuestion
    from forecasting.forecast import ForecastAnswer
    from studies.curve import Curve
    from warehouse.warehouse import Warehouse

Say = Callable[[str], None]
NETWORK = "a network (`stepcast support` lists them)"
_MAX_NODES = 64


@dataclass(frozen=True)
class AnsweredForecasts:
    """What all systems say, of a model of the user's own or of templates."""

    answer: "ForecastAnswer"
    own: OwnWorkload | None
    templates: Sequence[Mapping[str, object]]


def forecast(
    options: ForecastOptions, say: Say = lambda _: None, history: "Warehouse | None" = None
) -> AnsweredForecasts:
    """Forecast what options say, by every system that does not refuse.

    Args:
        options: what is asked about.
        say: told what takes long.
        history: what forecasts rest on; None: that of this home.

    Raises:
        BadInput: an option is wrong, nothing has been measured, or the model has no graph.
    """
    training, length = options.training, options.sequence_length
    own, listed = None, list[Mapping[str, object]]()
    with ExitStack() as stack:
        # While a child process traces the user's model, this one gets ready to forecast.
        model = None
        if (target := _target(options)) is not None:
            warehouse = history or warehouse_here(dry_run=options.dry_run)
            del training["dnn"]
            traced = own_workload.tracing_own_workload(target, training, length)
            model = stack.enter_context(traced)
        from forecasting.calibration import corrected, with_measured, write_corrected
        from forecasting.forecast import predict_curves
        from forecasting.inputs import systems_named
        from pipelines.cli.device_answer import bounded_by_loader

        systems = systems_named(options.systems)
        if model is not None:
            own = model()
            curves: Sequence[Curve] = own.curves
        else:
            own_workload.check_length(length)
            file = options.file
            listed = (
                templates.of_options(training)
                if file is None
                else templates.of_file(file, training)
            )
            curves = templates.curves_of(listed, file)
            warehouse = history or warehouse_here(dry_run=options.dry_run)
    if options.what_if is not None:
        curves = [*(curve.model_copy(update={"what_if": None}) for curve in curves), *curves]
    _check_devices(curves)
    text = options.calibrate
    step = None if text is None else templates.parse_measured_step(text, curves)
    answer = predict_curves(
        warehouse,
        curves if step is None else with_measured(curves, step),
        systems,
        backend=options.backend,
        host=options.host,
        dry_run=options.dry_run,
        far_out=options.far_out,
        say=say,
    )
    if step is not None:
        answer = corrected(answer, curves, step)
        answer = answer if options.dry_run else write_corrected(answer, warehouse)
    if (speed := options.loader_samples_per_s) is not None:
        bounded = tuple(bounded_by_loader(forecast, speed) for forecast in answer.forecasts)
        answer = replace(answer, forecasts=bounded)
    return AnsweredForecasts(answer, own, listed)


def _target(options: ForecastOptions | RentalOptions) -> str | None:
    """Return what builds the user's own model, as it is trained; None: a network is asked about.

    Raises:
        BadInput: something is said of how it is trained that only models of Hugging Face have.
    """
    dnn = options.dnn
    is_own = isinstance(dnn, str) and own_workload.is_target(dnn, NETWORK)
    return own_workload.target_as_trained(str(dnn) if is_own else None, options.of_hugging_face)


def _check_devices(curves: "Sequence[Curve]") -> None:
    """Refuse more GPUs of a node than it has, if that is so of all that is asked about.

    Raises:
        BadInput: naming a node type.
    """
    from profilers.clusters.node_types import gpus

    lacking = [
        next((name for name in curve.worker if 0 < gpus(name) < curve.devices_per_node), None)
        for curve in curves
    ]
    if lacking and (name := lacking[0]) is not None and all(lacking):
        devices = curves[0].devices_per_node
        raise BadInput(f"devices_per_node: {devices} of each node, but {name} has {gpus(name)}")


def recommend(
    options: RentalOptions,
    say: Say = lambda _: None,
    history: "Warehouse | None" = None,
    predict: "Predict | None" = None,
) -> "tuple[DecisionAnswer, OwnWorkload | None]":
    """Choose nodes for a job, and write that to the ledger; return that, and the user's model.

    Args:
        options: the job, and what can be rented.
        say: told what takes long.
        history: what the choice rests on; None: that of this home.
        predict: see `forecasting.decisions.answer.answer`; None: `predict_curves`.

    Raises:
        BadInput: as `forecasting.decisions.answer.answer`, or options contradict each other.
    """
    from forecasting.decisions.answer import answer
    from forecasting.decisions.offers import read_gpu_offers
    from forecasting.forecast import predict_curves
    from forecasting.inputs import systems_named
    from networks.own_huggingface import PREFIX
    from profilers.clusters.node_types import gpus

    if options.layouts:
        if not str(options.dnn).startswith(PREFIX):
            raise BadInput("--layouts: of models of Hugging Face alone, --dnn hf:CONFIG")
        # A step that computes activations again is traced with all kept, too.
        options = options.model_copy(update={"checkpoint_activations": True})
    systems, question, catalogue = systems_named(options.systems), question_of(options), None
    warehouse, market, capacity = history or warehouse_here(), options.of_market, options.capacity
    if not capacity:
        if question.framework == "tensorflow" or question.server is not None:
            given = "--server" if question.server is not None else "--framework tensorflow"
            raise BadInput(
                f"{given}: of GPUs only PyTorch is known; say with --capacity what there is"
            )
        when, most = options.as_of or datetime.now(UTC), options.max_nodes or _MAX_NODES
        catalogue = read_gpu_offers(warehouse, market, when, most, options.region)
        capacity = catalogue.capacity
        question = question.model_copy(update={"framework": "pytorch"})
    if options.devices_per_node is None and any(gpus(name) > 1 for name in capacity):
        question = question.model_copy(update={"all_gpus": True})
    question, own = _with_model(question, capacity, options)
    decided = answer(
        warehouse,
        question,
        capacity,
        market,
        systems,
        as_of=options.as_of,
        # What is measured of GPUs is measured on the machines themselves.
        backend=options.backend or ("loopback" if catalogue else None),
        host=options.host,
        region=options.region,
        catalogue=catalogue,
        say=say,
        predict=predict or predict_curves,
    )
    return decided, own


def question_of(options: RentalOptions) -> "JobQuestion":
    """Return the job that options tell, with its limits.

    Raises:
        BadInput: they tell none, or contradict each other.
    """
    from forecasting.decisions.question import JobQuestion

    if (options.global_batch is None) == (options.batch_size is None):
        raise BadInput("expected --global-batch (of all nodes together) or --batch-size (of each)")
    if options.server is not None and options.batch_size is None:
        raise BadInput("--server: asynchronous workers have batches of their own; --batch-size")
    limits = (
        "layouts",
        "global_batch",
        "minimize",
        "max_hours",
        "budget_usd",
        "max_usd_per_hour",
        "late",
    )
    target = _target(options)
    fields: dict[str, Any] = {
        **options.training,
        **({} if target is None else {"dnn": target}),
        **{name: getattr(options, name) for name in limits},
        "samples": _samples(options),
        "overheads": options.overheads,
        "preemptions_per_node_hour": options.preemptions_per_node_hour,
    }
    return read_options(JobQuestion, fields)


def _samples(options: RentalOptions) -> int:
    """Return how many samples a job trains.

    Raises:
        BadInput: it is told in no way, or in both.
    """
    epochs, of_each = options.epochs, options.dataset_samples
    if (epochs is None) == (options.samples is None):
        raise BadInput(
            "how long is the job? expected --samples, or --epochs with --dataset-samples, found "
            f"{'both' if epochs else 'neither'}"
        )
    if (of_each is None) != (epochs is None):
        raise BadInput("--epochs and --dataset-samples go together; give both or neither")
    return options.samples or max(round((epochs or 0) * (of_each or 0)), 1)


def _with_model(
    question: "JobQuestion", capacity: Mapping[str, int], options: RentalOptions
) -> "tuple[JobQuestion, OwnWorkload | None]":
    """Return the question about a network that is known by its name from now on.

    Raises:
        BadInput: an option is of no model like it, or it has no graph.
    """
    from forecasting.decisions.layouts import KEPT
    from forecasting.decisions.question import batch_sizes_of
    from models.gpu_step.device import device_of_node
    from networks.extraction import register_own_model
    from networks.gpu_steps import step_precision

    target, length = question.dnn, options.sequence_length
    if ":" not in target:
        own_workload.check_length(length)
        return question, None
    given = {name: value for name, value in options.training.items() if name != "dnn"}
    own_workload.check_options(target, given, length)
    # Replicas for which there is no room are sharded.
    ways = (True,) if question.layouts else (False, True)
    asked = {step_precision(question.precision, once): None for once in ways}
    on_gpus = any(device_of_node(name) is not None for name in capacity)
    precisions = list(asked) if on_gpus else []
    batch_sizes = batch_sizes_of(question, capacity)
    with own_workload.tracing_model(target, batch_sizes, given, length, precisions) as traced:
        model = traced()
    if question.layouts:
        steps = model.gpu_steps.items()
        kept = {name: of_all for name, step in steps if (of_all := getattr(step, "kept", None))}
        register_own_model(replace(model, dnn=f"{model.dnn}{KEPT}", gpu_steps=kept))
    own = OwnWorkload(target, model, sequence_length=length)
    return question.model_copy(update=model.workload_fields), own
