"""`stepcast profile`: passes of the user's own model on one node, so that more systems can tell."""

from typing import Annotated

import typer

from profilers.clusters import BackendChoice


def profile(
    target: Annotated[
        str, typer.Argument(help="What builds your PyTorch model: package.module:function.")
    ],
    worker: Annotated[str, typer.Option(help="The node type.")],
    batch_size: Annotated[str, typer.Option(help="The largest batch of a device.")],
    workers: Annotated[
        str, typer.Option(help="Numbers of workers to be asked about: 1,2,4.")
    ] = "1",
    link_mbps: Annotated[
        str | None, typer.Option(help="Speed of links: times links and all-reduces, too.")
    ] = None,
    backend: Annotated[
        BackendChoice, typer.Option(help="Where: this host's nodes; emulated if it permits these.")
    ] = "auto",
) -> None:
    """Time the passes of your own model on one node of this machine, about a minute or two.

    They land like the runs of a study that only profiles, and srift and ideal_scaling rest on them.
    With --link-mbps, links and all-reduces of such nodes are timed as well, which srift needs where
    nobody has measured them.

    Example: stepcast profile my_package.my_module:build_model --worker emu.avx512.s15
    --batch-size 8 --workers 1,2,4 --link-mbps 500
    """
    from pipelines.cli import profile_job

    options = {"batch_size": batch_size, "worker": worker, "workers": workers}
    profile_job.profile(target, options, link_mbps, backend)
