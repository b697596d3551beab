"""`stepcast profile`: the user's own model on nodes of this machine, for more systems to tell."""

from typing import Annotated

import typer

from pipelines.cli.options import (
    Accumulate,
    Head,
    MemoryFormat,
    Optimizer,
    Precision,
    SequenceLength,
)
from profilers.clusters import BackendChoice


def profile(
    target: Annotated[
        str,
        typer.Argument(help="What builds your model: package.module:function, or hf:CONFIG."),
    ],
    worker: Annotated[str, typer.Option(help="The node type.")],
    batch_size: Annotated[str, typer.Option(help="The largest batch of a device.")],
    workers: Annotated[
        str | None,
        typer.Option(
            help="Numbers of workers to be asked about: 1,2,4. Without it and --link-mbps: one "
            "device by itself, strategy single of `stepcast predict`."
        ),
    ] = None,
    link_mbps: Annotated[
        str | None, typer.Option(help="Speed of links: times links and all-reduces, too.")
    ] = None,
    server: Annotated[
        str | None, typer.Option(help="Node type of parameter servers, of Keras models.")
    ] = None,
    servers: Annotated[str | None, typer.Option(help="Number of parameter servers.")] = None,
    sequence_length: SequenceLength = None,
    head: Head = None,
    precision: Precision = None,
    optimizer: Optimizer = None,
    accumulate: Accumulate = None,
    memory_format: MemoryFormat = None,
    backend: Annotated[
        BackendChoice,
        typer.Option(help="Nodes of this host; auto: emulated if it permits. Others are refused."),
    ] = "auto",
) -> None:
    """Time the passes of your own model on one node of this machine, about a minute or two.

    They land like the runs of a study that only profiles, and srift and ideal_scaling rest on them.
    With --link-mbps, links and all-reduces of such nodes are timed as well, which srift needs where
    nobody has measured them.

    Of a Keras model, with --server and --link-mbps, 70 steps of one worker with its parameter
    servers are run, 40 of them traced: async_sgd and other systems of such training rest on them.

    Example: stepcast profile my_package.my_module:build_model --worker emu.avx512.s15
    --batch-size 8 --workers 1,2,4 --link-mbps 500

    Example: stepcast profile my_package.my_module:build_keras --worker emu.avx512.s15
    --batch-size 8 --server emu.server --link-mbps 500
    """
    from pipelines.cli import profile_job
    from pipelines.cli.workload import target_with_head

    options = {
        "batch_size": batch_size,
        "worker": worker,
        "workers": workers,
        "server": server,
        "servers": servers,
        "precision": precision,
        "optimizer": optimizer,
        "accumulate": accumulate,
        "memory_format": memory_format,
    }
    asked = target_with_head(target, head) or target
    profile_job.profile(asked, options, link_mbps, backend, sequence_length)
