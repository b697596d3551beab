"""`stepcast profile`: the user's own model on nodes of this machine, for more systems to tell."""

from collections.abc import Mapping
from typing import Annotated

import typer

from forecasting.inputs import inputs_of_study
from forecasting.options import ProfileOptions
from forecasting.study_checks import chosen_backend
from pipelines.cli.errors import interruptible
from pipelines.cli.options import takes
from pipelines.cli.own_workload import (
    OwnWorkload,
    is_target,
    target_as_trained,
    tracing_own_workload,
)
from pipelines.cli.progress import LineProgress
from pipelines.cli.tables import print_text, tell
from profilers.clusters import BackendChoice, host_id
from profilers.clusters.fleet import BACKENDS
from profilers.clusters.node_types import check_host, fleet_types, node_group
from studies import measurement
from studies.plan import tasks
from studies.rounds import open_round
from studies.study import Study
from warehouse.home import home
from warehouse.landing import landed_runs
from warehouse.records import BadInput
from warehouse.warehouse import Warehouse

Probes = Mapping[str, Mapping[str, object]]
_PASSES: Probes = {"torch_compute": {"interval": 0.04, "most_s": 60}}
_EXCHANGE: Probes = {"links": {}, "allreduce": {}}
_TRACES: Probes = {"links": {}, "tf_trace": {}}
_LINK_MBPS = 1000
"""One node has nobody to talk to: no run knows of it."""


@takes(ProfileOptions, without=("dnn", "memory_format"))
def profile(
    asked: ProfileOptions,
    target: Annotated[
        str, typer.Argument(help="What builds your model: package.module:function, or hf:CONFIG.")
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
    target = target_as_trained(target, asked.of_hugging_face) or target
    options, worker = asked.training, asked.worker
    link_mbps = options.get("link_mbps")
    if not is_target(target):
        raise BadInput(f"{target}: expected package.module:function; docs/my-model.md has one")
    elsewhere = f"--backend {backend}" if backend in BACKENDS else f"--worker {worker}"
    if backend in BACKENDS or worker in fleet_types():
        raise BadInput(
            f"{elsewhere}: machines of a fleet do not see the files of your model; profile it on "
            "nodes of this machine, `stepcast node-types`"
        )
    if not options.keys().isdisjoint({"workers", "server", "link_mbps"}):
        # Replicas have a number of workers and a speed of links.
        options = {"workers": 1, "link_mbps": _LINK_MBPS, **options}
    with tracing_own_workload(target, options, asked.sequence_length) as traced:
        own = traced()
    for name in {name for curve in own.curves for name in curve.worker}:
        check_host(node_group("worker", name, 1))
    probes = probes_of(own, link_mbps)
    chosen, why = chosen_backend(backend)
    warehouse = Warehouse(home())
    landed, host = landed_runs(warehouse.landing), host_id(chosen)
    study = Study.model_validate(
        {
            "name": f"profile.{own.model.dnn}",
            "description": f"Passes of {target}.",
            "probes": probes,
            "train": [curve.model_copy(update={"is_judged": False}) for curve in own.curves],
        }
    )
    round_ = open_round(study, inputs_of_study(study), chosen, host, landed)
    print_text(own.in_words)
    tell(f"backend {chosen}: {why}")
    progress = LineProgress(tasks(round_))
    with interruptible("stopped, and everything torn down; the same command goes on"):
        for probe in probes:
            round_ = measurement.profile(round_, probe, warehouse.landing, progress)
    warehouse.load()
    what = "steps" if "tf_trace" in probes else "passes"
    print_text(f"Its {what} on {worker} have landed; `stepcast predict {target} …` rests on them.")


def probes_of(own: OwnWorkload, link_mbps: float | None) -> Probes:
    """Return what is measured of a model.

    Raises:
        BadInput: a Keras model without parameter servers, or without the speed of their links.
    """
    if own.model.framework == "pytorch":
        return {**_PASSES, **(_EXCHANGE if link_mbps else {})}
    if own.curves[0].server is None or link_mbps is None:
        raise BadInput(
            f"{own.target}: a Keras model is profiled with its parameter servers; give --server "
            "and --link-mbps (without servers Ceer alone knows such training, and needs no profile)"
        )
    return _TRACES
