"""Steps that were measured, and what nodes of each type can do, from raw tables.

A node type of another host is a type of its own: nodes called alike can do other things there.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import geometric_mean

import polars as pl
from threadpoolctl import threadpool_limits

from models.profiled_run import read_scenario
from models.system import Tables
from warehouse.records import NodeGroup, Record, Scenario

DENSE, DEPTHWISE = "inventory_dense_flops", "inventory_depthwise_flops"
POINTWISE = "inventory_pointwise_flops"
MEMORY, DISK = "inventory_memory_Bps", "inventory_disk_Bps"
"""Metrics of probe `inventory`: floating-point operations and bytes a second of a node's share."""
_USUAL = {DENSE: 2e10, DEPTHWISE: 2e9, MEMORY: 4e9, DISK: 2e8}
"""Of a whole core, where nobody measured: an order of magnitude."""
_USUAL_CORE_GFLOPS = 50.0
_RESULT_BYTES = 8 / 18
"""Of each operation of a convolution of single channels, 3 × 3 and of 32 bits: read and written."""
_HOST_LETTERS = 8
_LANES = {"SSE41": 1 / 8, "AVX": 1 / 4, "AVX2": 1 / 2}
"""Multiplications and additions of a cycle with these instructions, in parts of AVX-512's."""


@dataclass(frozen=True)
class ObservedStep:
    """A scenario of DistributedDataParallel and its mean step, over all its runs."""

    scenario: Scenario
    step_s: float


class Capabilities(Record):
    """What one node of a type can do, within its share.

    Attributes:
        cores: of processors, a share of one counts as that.
        dense_flops: floating-point operations a second in convolutions of all channels.
        depthwise_flops: the same, in those of single channels.
        pointwise_part: the same in those of single pixels, as a part of `dense_flops`; 1: nobody
            measured it.
        memory_Bps: bytes a second that pass through memory, read and written ones.
        results_Bps: the same of results and parameters, in operations that do little with each.
        disk_Bps: bytes a second that are written to its disk.
        memory_bytes: what it has; 0: nobody said.
    """

    cores: float
    dense_flops: float
    depthwise_flops: float
    memory_Bps: float
    results_Bps: float
    disk_Bps: float
    memory_bytes: float = 0.0
    pointwise_part: float = 1.0


def observed_steps(tables: Tables) -> list[ObservedStep]:
    """Return what probe `torch_throughput` measured, in the order of scenario ids.

    Several runs of a scenario on one host count as their geometric mean.
    """
    runs = tables["run"]
    steps = (
        tables["sample"]
        .filter(pl.col("metric") == "step_time_s")
        .join(
            runs.filter(pl.col("probe") == "torch_throughput", pl.col("status") == "ok").select(
                "run_id", "scenario_id", _host(runs)
            ),
            on="run_id",
        )
        .group_by("run_id", "scenario_id", "host")
        .agg(pl.col("value").mean())
        .group_by("scenario_id", "host")
        .agg(pl.col("value").log().mean().exp())
        .join(
            tables["scenario"].select("scenario_id", "canonical").unique("scenario_id"),
            on="scenario_id",
        )
        .sort("scenario_id", "host")
    )
    observed = []
    for _, host, step_s, text in steps.iter_rows():
        scenario = read_scenario(text)
        if host:
            nodes = [
                group.model_copy(update={"node_type": group.node_type + host})
                for group in scenario.nodes
            ]
            scenario = scenario.model_copy(update={"nodes": tuple(nodes)})
        observed.append(ObservedStep(scenario, float(step_s)))
    return observed


def capabilities(tables: Tables) -> Mapping[str, Mapping[str, float]]:
    """Return what probe `inventory` found, by node type and metric: geometric means of all runs."""
    runs = tables["run"]
    worker = pl.col("config").str.json_path_match("$.worker").add(_host(runs)).alias("worker")
    rows = (
        tables["sample"]
        .filter(pl.col("metric").is_in([*_USUAL, POINTWISE]), pl.col("value") > 0)
        .join(
            runs.filter(pl.col("probe") == "inventory", pl.col("status") == "ok").select(
                "run_id", worker
            ),
            on="run_id",
        )
        .group_by("worker", "metric")
        .agg(pl.col("value").log().mean().exp())
        .sort("worker", "metric")
    )
    by_node_type: dict[str, dict[str, float]] = {}
    for node_type, metric, value in rows.iter_rows():
        by_node_type.setdefault(str(node_type), {})[metric] = float(value)
    return by_node_type


def of_node(group: NodeGroup, measured: Mapping[str, Mapping[str, float]]) -> Capabilities:
    """Return what one node of a group can do: as it was measured, else as its type declares.

    A type that nobody measured has the usual speed of a core times its share, and times the speed
    of its cores where that is known: eq. (1) and (2) of the paper.
    """
    cores = group.cpu_share or float(group.threads)
    speed = (group.core_gflops or _USUAL_CORE_GFLOPS) / _USUAL_CORE_GFLOPS
    lanes = _LANES.get(group.isa or "", 1.0)
    of_core = {DENSE: speed * lanes, DEPTHWISE: speed * lanes, MEMORY: speed, DISK: 1.0}
    known = measured.get(group.node_type, {})
    rates = {
        metric: known.get(metric) or usual * cores * of_core[metric]
        for metric, usual in _USUAL.items()
    }
    return Capabilities(
        cores=cores,
        dense_flops=rates[DENSE],
        depthwise_flops=rates[DEPTHWISE],
        memory_Bps=rates[MEMORY],
        results_Bps=results_Bps(known[DEPTHWISE]) if DEPTHWISE in known else rates[MEMORY],
        disk_Bps=rates[DISK],
        memory_bytes=float(group.memory_bytes or 0),
        pointwise_part=_pointwise_part(known, measured),
    )


def results_Bps(depthwise_flops: float) -> float:
    """Return bytes of results and parameters that operations read and write in a second.

    As convolutions of single channels do: these keep a core as busy as other operations that do
    little with each number. Copies of 96 MiB tell of main memory alone, which is twice as fast on
    one host as on another while such operations are not.
    """
    return _RESULT_BYTES * depthwise_flops


def _pointwise_part(
    known: Mapping[str, float], measured: Mapping[str, Mapping[str, float]]
) -> float:
    """Return the part of one type; where it was not measured, the mean of those where it was."""
    if POINTWISE in known and DENSE in known:
        return known[POINTWISE] / known[DENSE]
    parts = [
        figures[POINTWISE] / figures[DENSE]
        for figures in measured.values()
        if {POINTWISE, DENSE} <= figures.keys()
    ]
    return geometric_mean(parts) if parts else 1.0


def batch_of(scenario: Scenario, group: NodeGroup) -> int:
    """Return the batch of each device of a group."""
    return group.batch_size or scenario.workload.batch_size


def images_per_step(scenario: Scenario) -> int:
    """Return the images of all devices in a step, of all its passes."""
    strategy = scenario.strategy
    each = strategy.devices_per_node * scenario.workload.accumulate
    images = sum(
        worker_group.count * each * batch_of(scenario, worker_group)
        for worker_group in scenario.worker_groups
    )
    return images // (strategy.tensor_parallel * strategy.pipeline_parallel)


def host_of(node_type: str) -> str:
    """Return the host of a node type, "" for this one."""
    return node_type.partition("@")[2]


def _host(runs: pl.DataFrame) -> pl.Expr:
    """Return what tells node types of other hosts apart: nothing, or the host."""
    if "elsewhere" not in runs.columns:
        return pl.lit("").alias("host")
    named = pl.lit("@") + pl.col("host_id").str.head(_HOST_LETTERS)
    return pl.when("elsewhere").then(named).otherwise(pl.lit("")).alias("host")


# How many threads compute.


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread: on a busy host, several on small matrices take fifty times as long."""
    with threadpool_limits(1):
        yield
