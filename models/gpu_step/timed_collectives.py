"""Collectives of NCCL that others timed, as `collectives.fit` takes them."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from models.gpu_step.collectives import TIMED
from models.gpu_step.device import devices
from models.gpu_step.public_rows import RowsBySet

_LEAST_BYTES = 4096
_LEAST_BPS = 1e9
"""Bandwidths that are printed with two digits behind the point of GB/s tell no time below it."""
_ALONE_BPS = 1e9
"""Of the network of what stays within a node: any."""


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
