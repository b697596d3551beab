"""Collectives and links of one's own clusters: `stepcast import nccl-tests | iperf3 --worker`."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

import polars as pl

from models.gpu_step.collectives import TIMED, Topology
from models.gpu_step.device import device_of_node
from models.gpu_step.timed_collectives import thinned
from models.system import Tables
from profilers.clusters.node_types import node_types

TCP_BPS = 5e9 / 8
"""Of a connection between instances of EC2 without the Elastic Fabric Adapter (AWS, EC2 User Guide,
network bandwidth: 5 Gb/s a flow)."""
PROBES = ("nccl-tests", "iperf3")
TABLES = ("allreduce", "link")


@dataclass(frozen=True)
class OwnClusters:
    """What was measured on clusters of node types, and who says so.

    `timed` has the columns `collectives.TIMED`; their clusters are node types. `network_bps` is
    what a node sends over TCP.
    """

    timed: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=TIMED))
    network_bps: Mapping[str, float] = field(default_factory=dict)
    sources: Mapping[str, Sequence[str]] = field(default_factory=dict)


def rated(node_type: str, gpus: int, nodes: int) -> Topology:
    """Return links of GPUs of a node type as they are rated; its name is that of the cluster."""
    kind, device = node_types()[node_type], device_of_node(node_type)
    assert device is not None
    link_bps, network_bps = device.link_bps(kind.gpu_link), kind.bandwidth_mbps * 1e6 / 8
    return Topology(gpus, nodes, link_bps, network_bps, node_type)


def connections_bps(nodes: int) -> float:
    """Return what a node of EC2 sends over TCP: to its neighbours in a ring, which are one or two.

    NCCL has rings both ways. That those are two connections is what `ddp_step_time_sia` suggests:
    three nodes exchange faster there than two.
    """
    return TCP_BPS * min(2, nodes - 1)


def tcp_bps(node_type: str, network_bps: float, nodes: int, own: Mapping[str, float]) -> float:
    """Return what NCCL has of a network: TCP as it was measured, or as connections of EC2 have."""
    kind, device = node_types()[node_type], device_of_node(node_type)
    if kind.efa or device is None:
        return network_bps
    is_rented = node_type.partition(".")[0] in device.instances
    return min(
        network_bps, own.get(node_type, connections_bps(nodes) if is_rented else network_bps)
    )


def read_clusters(tables: Tables) -> OwnClusters:
    """Return what runs of `PROBES` tell whose node type is known.

    Args:
        tables: rows of `run`, `source` and `TABLES`; runs of other probes are ignored.
    """
    setting = pl.col("config").str.json_path_match
    runs = (
        tables["run"]
        .filter(pl.col("probe").is_in(PROBES))
        .select("run_id", worker=setting("$.worker"), nodes=setting("$.nodes").cast(pl.Int64))
        .drop_nulls("worker")
        .join(tables["source"].select("run_id", "source"), on="run_id")
        .sort("run_id")
    )
    runs_Bps: dict[str, list[float]] = defaultdict(list)
    sources: dict[str, list[str]] = defaultdict(list)
    parts = [pl.DataFrame(schema=TIMED)]
    for run_id, node_type, nodes, source in runs.iter_rows():
        if device_of_node(node_type) is None:
            continue
        if len(rows := tables["link"].filter(run_id=run_id)):
            if node_types()[node_type].efa:
                continue
            trials = rows.group_by("direction", "flows", "trial").agg(pl.col("bandwidth_Bps").sum())
            best_Bps = trials.group_by("direction").agg(pl.col("bandwidth_Bps").max())
            runs_Bps[node_type].append(float(str(best_Bps["bandwidth_Bps"].min())))
        elif len(rows := tables["allreduce"].filter(run_id=run_id)):
            columns = vars(rated(node_type, rows["world_size"][0] // nodes, nodes))
            of_run = rows.with_columns(collective=pl.lit("all_reduce"), **_literals(columns))
            parts.append(of_run.select(*TIMED).cast(pl.Schema(TIMED)))
        sources[node_type].append(source)
    own_Bps = {node_type: median(each) for node_type, each in runs_Bps.items()}
    timed = thinned(pl.concat(parts))
    networks = [
        tcp_bps(node_type, network_bps, nodes, own_Bps) if nodes > 1 else network_bps
        for node_type, network_bps, nodes in timed.select(
            "cluster", "network_bps", "nodes"
        ).iter_rows()
    ]
    return OwnClusters(
        timed.with_columns(network_bps=pl.Series(networks, dtype=pl.Float64)), own_Bps, sources
    )


def _literals(columns: Mapping[str, object]) -> Mapping[str, pl.Expr]:
    return {name: pl.lit(value) for name, value in columns.items()}
