"""Collectives of NCCL that were timed, as `collectives.fit` takes them, and links of own clusters.

Others timed those of `data/public`; one's own are from `stepcast import nccl-tests | iperf3
--worker`.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import polars as pl

from models.gpu_step.collectives import TIMED, Topology
from models.gpu_step.device import device_of_node, devices
from models.gpu_step.public_rows import RowsBySet
from models.system import Tables
from profilers.clusters.node_types import node_types

_LEAST_BYTES = 4096
_LEAST_BPS = 1e9
"""Bandwidths that are printed with two digits behind the point of GB/s tell no time below it."""
_ALONE_BPS = 1e9
"""Of the network of what stays within a node: any."""
TCP_BPS = 5e9 / 8
"""Of a connection between instances of EC2 without the Elastic Fabric Adapter (AWS, EC2 User Guide,
network bandwidth: 5 Gb/s a flow)."""
PROBES = ("nccl-tests", "iperf3")
TABLES = ("allreduce", "link")


def read_collectives(rows: RowsBySet) -> pl.DataFrame:
    """Return timed collectives; of sizes within the same doubling their mean.

    Columns: collective, cluster (who timed it, then what), devices, nodes, link_bps, network_bps,
    size_bytes of the whole buffer, seconds. Messages below 4 KiB take as long as these.
    """
    timed = [*_estimate_train_time(rows), *_aws(rows), *_aiconfigurator(rows), *_azure(rows)]
    return thinned(pl.DataFrame(timed, TIMED, orient="row"))


def thinned(timed: pl.DataFrame) -> pl.DataFrame:
    """Return one row for all sizes of the same doubling, of 4 KiB and more."""
    keys = [name for name in TIMED if name not in ("size_bytes", "seconds")]
    doubling = pl.col("size_bytes").log(2).round().alias("doubling")
    return (
        timed.filter(pl.col("size_bytes") >= _LEAST_BYTES)
        .group_by(*keys, doubling)
        .agg(pl.col("size_bytes", "seconds").log().mean().exp())
        .drop("doubling")
        .sort(*keys, "size_bytes")
    )


def _estimate_train_time(rows: RowsBySet) -> Iterator[tuple[Any, ...]]:
    for mapping in (
        "nccl_allreduce_fp16",
        "nccl_allreduce_large_fp16",
        "nccl_allgather_large_fp16",
    ):
        for row in rows.get(("transformers", mapping), ()):
            devices, nodes = int(row["gpus_per_node"]), int(row["nodes"])
            gathers = row["collective"] == "all_gather"
            size = 2 * row["elements"] * (devices * nodes if gathers else 1)
            link = 100e9 if devices == 2 else 300e9  # four of twelve links join a pair of four
            # Between nodes it is TCP: 10 Gb/s for the card of each GPU.
            where = ("estimate-train-time", devices, nodes, link, 1.25e9 * devices)
            yield (row["collective"], *where, size, row["value"])


def _aws(rows: RowsBySet) -> Iterator[tuple[Any, ...]]:
    for row in rows.get(("nccl_tests_aws", "allreduce_nccl_tests"), ()):
        where = ("aws p4de", int(row["gpus_per_node"]), int(row["nodes"]), 300e9, 50e9)
        yield (row["collective"], *where, row["size_bytes"], row["value"])
    for row in rows.get(("efa", "efa_all_reduce"), ()):
        cluster = "aws p5 on Kubernetes" if row["software"] else "aws p5"
        where = (cluster, row["gpus"] // row["nodes"], row["nodes"], 450e9, 400e9)
        yield (row["collective"], *where, row["size_bytes"], row["value"])


def _aiconfigurator(rows: RowsBySet) -> Iterator[tuple[Any, ...]]:
    for row in rows.get(("aiconfigurator", "nccl_half"), ()):
        where = _within("aiconfigurator", row["board"], row["gpus"])
        yield (row["collective"], *where, 2.0 * row["elements"], row["value"])


def _azure(rows: RowsBySet) -> Iterator[tuple[Any, ...]]:
    labels = sorted(
        {row["size"] for row in rows.get(("azure", "all_reduce"), ())},
        key=lambda label: float(label[:-1]) * 1024 ** "KMG".index(label[-1]),
    )
    for row in rows.get(("azure", "all_reduce"), ()):
        if row["value"] >= _LEAST_BPS:
            size, gpus = 1024 * 2.0 ** labels.index(row["size"]), row["gpus"]
            where = _within("azure", row["gpu"].partition("-")[0].partition(" ")[0], gpus)
            seconds = 2 * size * (gpus - 1) / gpus / row["value"]
            yield (row["collective"], *where, size, seconds)


def _within(source: str, board: str, gpus: int) -> tuple[Any, ...]:
    """Return where collectives are of GPUs of one node that NVSwitch joins."""
    chip = board.lower()
    link_bps = devices()[chip].link_bps("NVSwitch")
    return f"{source} {chip}", gpus, 1, link_bps, _ALONE_BPS


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
