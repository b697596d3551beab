"""`stepcast profile`: passes of the user's own model on one node, so that more systems can tell."""

from typing import Annotated

import typer

from profilers.clusters import BackendChoice

_PASSES = {"torch_compute": {"interval": 0.04, "most_s": 60}}
_EXCHANGE: dict[str, dict[str, object]] = {"links": {}, "allreduce": {}}
_LINK_MBPS = "1000"
"""One node has nobody to talk to: no run knows of it."""


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
    given = {"batch_size": batch_size, "worker": worker, "workers": workers}
    own = asked_of(target, {**given, "link_mbps": link_mbps or _LINK_MBPS})
    probes = _PASSES | (_EXCHANGE if link_mbps else {})
    study = Study.model_validate(
        {
            "name": f"profile.{own.graph.dnn}",
            "description": f"Passes of {target}.",
            "probes": probes,
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
        for probe in probes:
            round_ = measured(round_, probe, warehouse.landing, progress)
    warehouse.load()
    typer.echo(f"Its passes on {worker} have landed; `stepcast predict {target} …` rests on them.")
