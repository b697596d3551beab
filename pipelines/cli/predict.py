"""`stepcast predict`: how fast training would be on nodes that nobody has tried."""

from pathlib import Path
from typing import Annotated

import typer

from forecasting.options import ForecastOptions
from pipelines.cli.options import takes
from pipelines.cli.tables import tell
from warehouse.records import BadInput


@takes(ForecastOptions, without=("memory_format", "backend"))
def predict(
    options: ForecastOptions,
    asked: Annotated[
        str | None,
        typer.Argument(
            help="A YAML list of templates, as under test: of a study; or a function that builds "
            "your own PyTorch or Keras model: package.module:function; or hf:CONFIG, a model of "
            "Hugging Face."
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Of one GPU: costliest and unknown operators; refusals."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Forecast training that nobody has measured, by every system.

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
    from pipelines.cli.own_workload import is_target
    from pipelines.cli.questions import forecast

    if asked is not None:
        is_own = is_target(asked)
        if is_own and options.dnn is not None:
            raise BadInput(f"--dnn and {asked}: the model is the network; leave out --dnn")
        what = {"dnn": asked} if is_own else {"file": Path(asked)}
        options = options.model_copy(update=what)
    answered = forecast(options, say=tell)
    samples = options.dataset_samples
    if as_json:
        from pipelines.cli.answers import PredictAnswer

        model = None if answered.own is None else answered.own.as_json()
        typer.echo(PredictAnswer.of(answered.answer, model, samples).model_dump_json())
    else:
        from pipelines.cli.predict_output import print_answer

        print_answer(answered, samples, named=bool(options.systems), explain=explain)
    if not answered.answer.forecasts:
        raise typer.Exit(2)
