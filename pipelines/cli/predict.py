"""`stepcast predict`: how fast training would be on nodes that nobody has tried."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from pipelines.cli.options import (
    Accumulate,
    Head,
    MemoryFormat,
    Optimizer,
    Precision,
    SequenceLength,
)
from pipelines.cli.tables import print_text
from warehouse.home import MAIN, home
from warehouse.records import Backend, BadInput

if TYPE_CHECKING:
    from forecasting.calibration import MeasuredSteps
    from studies.curve import Curve
    from warehouse.warehouse import Warehouse


def predict(
    asked: Annotated[
        str | None,
        typer.Argument(
            help="A YAML list of templates, as under test: of a study; or a function that builds "
            "your own PyTorch or Keras model: package.module:function; or hf:CONFIG, a model of "
            "Hugging Face."
        ),
    ] = None,
    dnn: Annotated[str | None, typer.Option(help="The network; or several: a,b.")] = None,
    framework: Annotated[
        str | None,
        typer.Option(
            help="tensorflow, which also needs --server, or pytorch (all-reduce); tensorflow if "
            "not given. A model of your own decides itself."
        ),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            help="async_parameter_server, all_reduce (DistributedDataParallel, also of one "
            "worker), sharded (FullyShardedDataParallel, of GPUs) or single (one device without "
            "either): of PyTorch where nothing is said of workers, devices and links."
        ),
    ] = None,
    image_size: Annotated[str | None, typer.Option(help="Side of images, pixels.")] = None,
    batch_size: Annotated[
        str | None, typer.Option(help="Samples of a pass of each device.")
    ] = None,
    precision: Precision = None,
    optimizer: Optimizer = None,
    accumulate: Accumulate = None,
    memory_format: MemoryFormat = None,
    compiled: Annotated[
        bool, typer.Option("--compiled", help="By torch.compile: refused, nothing knows it yet.")
    ] = False,
    workers: Annotated[str | None, typer.Option(help="Numbers of workers: 1,2,4.")] = None,
    worker: Annotated[
        str | None, typer.Option(help="Their node type; 'a + b': a mixed cluster; a,b: either.")
    ] = None,
    server: Annotated[str | None, typer.Option(help="Node type of parameter servers.")] = None,
    servers: Annotated[str | None, typer.Option(help="Number of parameter servers.")] = None,
    devices_per_node: Annotated[str | None, typer.Option(help="Devices of a worker.")] = None,
    link_mbps: Annotated[
        str | None,
        typer.Option(help="Speed of links, 10^6 bits/s; needed where several devices train."),
    ] = None,
    sequence_length: SequenceLength = None,
    head: Head = None,
    dataset_samples: Annotated[
        int | None, typer.Option(help="Samples of an epoch: shows the time of an epoch, too.")
    ] = None,
    systems: Annotated[
        str | None, typer.Option(help="Systems that are asked, a,b; all if not given.")
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(
            help="Use only profiles of this backend: emulated, loopback, ssh or ec2; if not given, "
            "that of the host that answers."
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            help="Use only profiles of this host, as answers name it; if not given, of the hosts "
            "with runs of most of the node types asked about this one, else one with runs on such "
            "links, else that with the newest."
        ),
    ] = None,
    calibrate: Annotated[
        str | None,
        typer.Option(
            help="Correct forecasts by a measured step: workers=1,step_s=0.41 (or steps_per_s); or "
            "one-node: measure one node now, about 30 seconds for each node type and batch."
        ),
    ] = None,
    loader_samples_per_s: Annotated[
        float | None,
        typer.Option(help="Samples a second that loading brings all devices together."),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Of one GPU: costliest and unknown operators; refusals."),
    ] = False,
    far_out: Annotated[
        bool,
        typer.Option("--far-out", help="Show forecasts farther out than any that was judged."),
    ] = False,
    chrome_trace: Annotated[
        Path | None,
        typer.Option(
            help="Write steps that async_sgd simulated of the one scenario, for ui.perfetto.dev."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False,
) -> None:
    """Forecast training that nobody has measured, by every system that does not refuse.

    Shows each forecast with its interval, the age of the runs that its fit saw, how far the
    scenario is from those (split), and how wrong the system has been at that distance and of the
    scenarios nearest to this one. Beneath: who refuses and why, and what to measure first.
    Forecasts are written to the ledger, marked as merely asked for. Where all systems refuse, the
    exit code is 2.

    Example: stepcast predict --dnn resnet50 --framework pytorch --image-size 64 --batch-size 8
    --workers 1,2,4,8 --worker emu.avx512.s15 --link-mbps 500

    Example: stepcast predict --dnn small_cnn --image-size 24 --batch-size 1 --workers 8
    --worker emu.native.s25 --server emu.server --link-mbps 200 --systems async_sgd,linear

    Example: stepcast predict hf:bert --batch-size 64 --sequence-length 128 --precision bf16
    --optimizer adamw --worker gpu.h100,gpu.a100 --dataset-samples 1000000 --explain

    Example: stepcast predict templates.yaml --json

    Example: stepcast predict my_package.my_module:build_model --batch-size 8 --workers 1,2,4
    --worker emu.avx512.s15 --link-mbps 500

    Example: stepcast predict --dnn small_cnn --framework pytorch --image-size 32 --batch-size 12
    --workers 2,4,8 --worker emu.avx512.s15 --link-mbps 200 --calibrate workers=2,step_s=0.41
    """
    from pipelines.cli.workload import (
        check_length,
        curves_of,
        is_target,
        of_file,
        of_options,
        target_with_head,
        tracing_own_workload,
    )

    options = {
        "dnn": dnn,
        "framework": framework,
        "strategy": strategy,
        "image_size": image_size,
        "batch_size": batch_size,
        "precision": precision,
        "optimizer": optimizer,
        "accumulate": accumulate,
        "memory_format": memory_format,
        "compiled": "true" if compiled else None,
        "workers": workers,
        "worker": worker,
        "server": server,
        "servers": servers,
        "devices_per_node": devices_per_node,
        "link_mbps": link_mbps,
    }
    asked = target_with_head(asked, head)
    own, listed = None, []
    with ExitStack() as stack:
        # While a child process traces the user's model, this one gets ready to forecast.
        model = None
        if asked is not None and is_target(asked):
            warehouse = _history(calibrate, dry_run=dry_run)
            model = stack.enter_context(tracing_own_workload(asked, options, sequence_length))
        from forecasting.calibration import predict_corrected
        from forecasting.inputs import systems_named
        from pipelines.cli.calibrate import check_writes
        from pipelines.cli.device_answer import bounded_by_loader
        from pipelines.cli.predict_output import check_samples, print_answer, print_json

        check_samples(dataset_samples)
        if loader_samples_per_s is not None and not 0 < loader_samples_per_s < float("inf"):
            raise BadInput(
                f"--loader-samples-per-s: expected a number above 0, found {loader_samples_per_s:g}"
            )
        check_writes(calibrate, dry_run)
        chosen = systems_named(_names(systems))
        if model is not None:
            own = model()
            curves = own.curves
        else:
            check_length(sequence_length)
            file = None if asked is None else Path(asked)
            listed = of_options(options) if file is None else of_file(file, options)
            curves = curves_of(listed, file)
            warehouse = _history(calibrate, dry_run=dry_run)
    _check_devices(curves)
    steps = _steps(calibrate, curves, _backend(backend), host, warehouse)
    answer = predict_corrected(
        warehouse,
        curves,
        chosen,
        steps,
        backend=_backend(backend),
        host=host,
        dry_run=dry_run,
        far_out=far_out,
        say=lambda text: print_text(text, err=True),
    )
    if chrome_trace is not None:
        from forecasting.async_sgd import trace_of
        from pipelines.cli.options import write

        write(chrome_trace, trace_of(answer).encode(), told=not as_json)
    if loader_samples_per_s is not None:
        answer = replace(
            answer,
            forecasts=tuple(
                bounded_by_loader(forecast, loader_samples_per_s) for forecast in answer.forecasts
            ),
        )
    if as_json:
        print_json(answer, own, dataset_samples)
    else:
        print_answer(
            answer,
            listed,
            named=systems is not None,
            own=own,
            dataset_samples=dataset_samples,
            explain=explain,
        )
    if not answer.forecasts:
        raise typer.Exit(2)


def _check_devices(curves: Sequence["Curve"]) -> None:
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


def _steps(
    calibrate: str | None,
    curves: Sequence["Curve"],
    backend: Backend | None,
    host: str | None,
    warehouse: "Warehouse",
) -> "MeasuredSteps":
    """Return the measured steps that correct forecasts: none, one that is told, or measured now."""
    from forecasting.calibration import MeasuredSteps
    from pipelines.cli.calibrate import ONE_NODE, parse_measured_step

    if calibrate is None:
        return MeasuredSteps()
    if calibrate != ONE_NODE:
        return parse_measured_step(calibrate, curves)
    from forecasting.history_scope import select_host, visible_runs
    from pipelines.cli.calibrate_job import measure_steps

    place = select_host(visible_runs(warehouse), curves, backend, host)
    steps = measure_steps(curves, backend, place, warehouse.landing)
    warehouse.load()
    return steps


def _history(calibrate: str | None, *, dry_run: bool) -> "Warehouse":
    """Return what forecasts rest on: the warehouse where they are to be written to its ledger.

    Raises:
        BadInput: nothing has been measured in this home.
    """
    from networks.kept_graphs import keep_beside
    from pipelines.cli.calibrate import ONE_NODE
    from pipelines.cli.query import history_here, warehouse_here
    from warehouse.warehouse import Warehouse

    if not (home() / MAIN).exists():
        raise BadInput(
            f"nothing has been measured in {home()} yet; run a study first: `make demo` or "
            "`stepcast run STUDY.yaml`; for GPUs, `stepcast load public` brings what others "
            "measured"
        )
    keep_beside(home())
    if calibrate == ONE_NODE:
        return Warehouse(home())  # what is measured now is loaded
    return history_here() if dry_run else warehouse_here()


def _names(text: str | None) -> list[str]:
    return [] if text is None else [part.strip() for part in text.split(",")]


def _backend(text: str | None) -> Backend | None:
    """Return the backend of a name.

    Raises:
        BadInput: no nodes have it.
    """
    known: tuple[Backend, ...] = get_args(Backend)
    choices = [choice for choice in known if choice != "imported"]
    if text is None:
        return None
    for choice in choices:
        if choice == text:
            return choice
    raise BadInput(f"--backend: no backend {text!r}; the choices are {', '.join(choices)}")
