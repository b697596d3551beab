"""Small training that the probes' tests measure, and probes run on it as studies run them."""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from profilers.clusters import open_cluster
from profilers.clusters.node_types import node_group
from profilers.probe import ProbeResult, RequestedScenarios, Session, measure_planned_runs
from profilers.probes import PROBES
from studies.planned_runs import group_by_start, nodes_of
from warehouse import tables
from warehouse.records import Backend, NodeGroup, Scenario, Strategy, TrainingWorkload

LINK_MBPS = 100
RECIPE: Mapping[str, object] = {
    "precision": "bfloat16",
    "optimizer": "adamw",
    "accumulate": 2,
    "memory_format": "channels_last",
}
"""Of everything something else than by default, as far as processors can."""
TF_LINK_MBPS = 200
SHARE_BESIDE_SERVER = 0.6
SMALL_CNN_PARAMETERS = (
    (3 * 3 * 3 * 64 + 64) + 2 * (3 * 3 * 64 * 64 + 64) + (4 * 4 * 64 * 320 + 320) + (320 * 10 + 10)
)
"""Of small_cnn at 16 px: three convolutions, a dense layer on a 4 × 4 map, ten logits."""


def workers_of(count: int, isa: str = "avx2", cpu_share: float = 0.8) -> NodeGroup:
    """Return nodes of so much of a core: the smaller it is, the longer their programs start."""
    group = node_group("worker", f"emu.{isa}.c40", count)
    return group.model_copy(update={"cpu_share": cpu_share})


def scenario(
    *groups: NodeGroup, image_size: int = 16, batch_size: int = 1, **workload: object
) -> Scenario:
    """All nodes of the groups train together, small_cnn of PyTorch unless told otherwise."""
    fields = {"dnn": "small_cnn", "framework": "pytorch", **workload}
    sizes = {"image_size": image_size, "batch_size": batch_size}
    return Scenario(
        workload=TrainingWorkload.model_validate({**fields, **sizes}),
        strategy=Strategy(kind="all_reduce", workers=sum(group.count for group in groups)),
        nodes=groups,
        link_mbps=LINK_MBPS,
    )


def single(group: NodeGroup, **workload: object) -> Scenario:
    """Return what one node of the group trains alone, by `RECIPE` unless told otherwise."""
    replica = scenario(group.one, image_size=16, batch_size=2, **(dict(RECIPE) | workload))
    return replica.model_copy(
        update={"strategy": Strategy(kind="single", workers=1), "link_mbps": None}
    )


def with_server(workers: int) -> Scenario:
    """Return training of TensorFlow with a parameter server."""
    return Scenario(
        workload=TrainingWorkload(dnn="small_cnn", image_size=16, batch_size=2),
        strategy=Strategy(workers=workers),
        nodes=(
            workers_of(workers, cpu_share=SHARE_BESIDE_SERVER),
            node_group("server", "emu.server", 1),
        ),
        link_mbps=TF_LINK_MBPS,
    )


def synchronous(workers: int, cpu_share: float = 0.8) -> Scenario:
    """Return training of TensorFlow whose nodes average their gradients."""
    return Scenario(
        workload=TrainingWorkload(dnn="small_cnn", image_size=16, batch_size=2),
        strategy=Strategy(kind="all_reduce", workers=workers),
        nodes=(workers_of(workers, cpu_share=cpu_share),),
        link_mbps=TF_LINK_MBPS,
    )


def measured(
    name: str,
    folder: Path,
    requested: RequestedScenarios,
    backend: Backend = "emulated",
    **settings: object,
) -> list[ProbeResult]:
    """Run a probe for real on all that is asked of it; return what it measured, in order.

    Each run is what was planned, is ok, and fits the tables that it lands in.
    """
    probe, results = PROBES[name], list[ProbeResult]()
    needs = probe.needs(requested, probe.settings.model_validate(settings))
    for start in group_by_start(list(needs)):
        with open_cluster(backend, nodes_of(start), start[0].subject.link_mbps) as cluster:
            session = Session(cluster, folder, print, "test", 1)
            for need, result in measure_planned_runs(probe, session, start):
                assert result.run.status == "ok", result.run.error
                assert need.is_done_by(result.run)
                assert result.tables.keys() <= set(probe.tables)
                for table, rows in result.tables.items():
                    of_run = rows.with_columns(pl.lit("run").alias("run_id"))
                    tables.conform(tables.SCHEMAS[table], of_run.to_arrow(), table)
                results.append(result)
    return results


def samples(result: ProbeResult) -> dict[str, float]:
    """Return the samples of a run by metric, the last of several windows."""
    return dict(result.tables["sample"].select("metric", "value").iter_rows())
