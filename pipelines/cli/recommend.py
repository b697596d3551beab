"""`stepcast recommend`: which nodes to rent for a job, what that takes and costs, how surely."""

from pathlib import Path
from typing import Annotated

import typer

from forecasting.options import RentalOptions
from pipelines.cli.options import takes
from pipelines.cli.tables import print_text, tell
from warehouse.records import error_context


@takes(RentalOptions, without=("memory_format", "backend"))
def recommend(
    options: RentalOptions,
    html: Annotated[
        Path | None, typer.Option(help="Write the answer as a page, one file to send.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Recommend nodes for a job.

    Without --capacity the choice is among all GPUs that EC2 rents: nodes of one type, each with all
    of its GPUs. With it, it is among the nodes that it names.

    Every system that can tell is asked about each type and number of nodes, and about mixes of
    types that srift proposes for a --global-batch. For each of them, the forecast of the system
    that has erred least counts. Prints the choice, two alternatives, how surely limits are kept,
    and which measurement might change the answer. Nothing feasible: what to relax, by how much.

    Example: stepcast recommend --dnn hf:gpt2 --batch-size 8 --sequence-length 1024 --precision
    bf16 --optimizer adamw --epochs 3 --dataset-samples 100000 --max-hours 24 --html answer.html

    Example: stepcast recommend --dnn small_cnn --batch-size 8 --epochs 10 --dataset-samples
    50000 --max-hours 2 --late 0.1 --capacity emu.avx512.s15=8 --capacity emu.sse41.s15=8

    Example: stepcast recommend --dnn squeezenet --batch-size 8 --samples 1000000 --capacity
    emu.native.s25=8 --server emu.server=2 --minimize time --budget-usd 3

    Example: stepcast recommend --dnn my_package.my_module:build_model --batch-size 8 --samples
    1000000 --capacity emu.avx512.s15=8 --budget-usd 3

    Example: stepcast recommend --systems srift --dnn small_cnn --image-size 32 --global-batch 64
    --samples 640000 --max-hours 20 --minimize time --capacity emu.avx512.s15=2 --capacity
    emu.sse41.s15=8 --link-mbps 500
    """
    from pipelines.cli.questions import recommend as asked

    answer, own = asked(options, say=tell)
    model = None if own is None else own.as_json()
    if as_json:
        from pipelines.cli.recommendation import RecommendAnswer

        typer.echo(RecommendAnswer.of(answer, model).model_dump_json())
    else:
        from pipelines.cli.recommend_output import print_decision

        if own is not None:
            print_text(own.in_words)
        print_decision(answer, None if own is None else own.target)

    if html is not None:
        from pipelines.cli.recommendation import answer_page
        from warehouse.durable_files import write_text

        with error_context(f"{html} cannot be written", OSError):
            page = answer_page(answer, model, options)
            if html.exists() and not html.is_file():
                html.write_text(page)  # into a pipe
            else:
                write_text(html.resolve(), page)
        if not as_json:
            typer.echo(html)
