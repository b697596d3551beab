"""`stepcast profile`: passes of the user's own model on one node, so that more systems can tell."""

from typing import Annotated

import typer

from profilers.clusters import BackendChoice

_PROBE = "torch_compute"
_SETTINGS = {"interval": 0.04, "most_s": 60}
_LINK_MBPS = 1000
"""One node has nobody to talk to: no run knows of it."""


def profile(
    target: Annotated[
        str, typer.Argument(help="What builds your PyTorch model: package.module:function.")
    ],
    worker: Annotated[str, typer.Option(help="The node type.")],
    batch_size: Annotated[str, typer.Option(help="The largest batch of a device.")],
    backend: Annotated[
        BackendChoice, typer.Option(help="Where: this host's nodes; emulated if it permits these.")
    ] = "auto",
) -> None:
    """Time the passes of your own model on one node of this machine, about a minute or two.

    They land like the runs of a study that only profiles: `stepcast predict` then has srift, too,
    where all-reduces of such nodes have been measured.

    Example: stepcast profile my_package.my_module:build_model --worker emu.avx512.s15
    --batch-size 8
    """
    from forecasting.chosen import asking_of
    from forecasting.ready import chosen_backend
    from pipelines.cli.own import asked_of, is_target
    from pipelines.cli.progress import shown
    from profilers.clusters import host_id
    from profilers.clusters.fleet import BACKENDS
    from studies.measuring import profile as measured
    from studies.plan import tasks
    from studies.rounds import open_round
    from studies.study import Study
    from studies.taken import Taken
    from warehouse.home import home
    from warehouse.landing import landed_runs
    from warehouse.records import BadInput
    from warehouse.warehouse import Warehouse

    if not is_target(target):
        raise BadInput(f"{target}: expected package.module:function; docs/my-model.md has one")
    if backend in BACKENDS:
        raise BadInput(f"--backend {backend}: your model is on this machine; leave --backend out")
    given = {"batch_size": batch_size, "worker": worker, "workers": "1"}
    own = asked_of(target, {**given, "link_mbps": str(_LINK_MBPS)})
    study = Study.model_validate(
        {
            "name": f"profile.{own.graph.dnn}",
            "description": f"Passes of {target}.",
            "probes": {_PROBE: _SETTINGS},
            "train": [one.model_copy(update={"is_judged": False}) for one in own.curves],
        }
    )
    chosen, why = chosen_backend(backend)
    warehouse = Warehouse(home())
    landed, here = landed_runs(warehouse.landing), host_id(chosen)
    round_ = open_round(study, asking_of(study), chosen, here, landed)
    typer.echo(own.in_words)
    typer.echo(f"backend {chosen}: {why}", err=True)
    with shown(tasks(round_, Taken(landed, here, warehouse.landing))) as progress:
        measured(round_, _PROBE, warehouse.landing, progress)
    warehouse.load()
    typer.echo(
        f"Its passes on {worker} have landed; ask again with `stepcast predict {target} "
        f"--batch-size {batch_size} --worker {worker} …`."
    )
