"""`stepcast profile`: the user's own model on nodes of this machine, for more systems to tell."""

from typing import Annotated

import typer

from forecasting.options import ProfileOptions
from pipelines.cli.options import takes
from profilers.clusters import BackendChoice


@takes(ProfileOptions, without=("dnn", "memory_format"))
def profile(
    options: ProfileOptions,
    target: Annotated[
        str,
        typer.Argument(help="What builds your model: package.module:function, or hf:CONFIG."),
    ],
    backend: Annotated[
        BackendChoice,
        typer.Option(help="Nodes of this host; auto: emulated if it permits. Others are refused."),
    ] = "auto",
) -> None:
    """Time the passes of your own model on one node of this machine.

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
    from pipelines.cli.workload import target_as_trained

    asked = target_as_trained(target, options.of_hugging_face) or target
    profile_job.profile(asked, options, backend)
