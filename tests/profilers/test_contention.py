"""The contention probe, for real: it needs shaped links."""

from pathlib import Path

import polars as pl
import pytest

from profilers.clusters import open_cluster
from profilers.clusters.node_types import node_group
from profilers.contention import probe as contention
from profilers.probe import ProbeResult, RunContext
from warehouse.records import Backend

SERVER, WORKERS = node_group("server", "emu.server", 1), node_group("worker", "emu.native.c25", 2)
LINK_MBPS = 100


def probed(tmp_path: Path, flows: tuple[int, ...], *, backend: Backend = "emulated") -> ProbeResult:
    context = RunContext("demo", 1, "profile", tmp_path)
    link_mbps = LINK_MBPS if backend == "emulated" else None
    with open_cluster(backend, (SERVER, WORKERS), link_mbps) as cluster:
        return contention.measure(cluster, context, flows=flows, seconds=2, trials=1)


@pytest.mark.cluster
def test_two_workers_share_what_the_link_carries(tmp_path: Path) -> None:
    """In a slow moment of the host they get less, never more: the best of three counts."""
    expected = pytest.approx([0.95 * LINK_MBPS] * 2, rel=0.1)
    together: list[float] = []
    while together != expected and len(list(tmp_path.iterdir())) < 3:
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        result = probed(folder, (1, 2))
        assert result.run.status == "ok", result.run.error
        assert (result.run.config["flows"], result.run.config["network"]) == (
            "2",
            "softmax_regression 161px",
        )
        assert not list(folder.glob("*.pcap"))
        together = shared_mbps(result.tables["contention"])
        assert max(together) < 1.05 * LINK_MBPS
    assert together == expected


def shared_mbps(rows: pl.DataFrame) -> list[float]:
    """Return what two flows carried together: down, and up."""
    shared = rows.filter(pl.col("flows") == 2).group_by("direction", "place")
    each = shared.agg(mbps=pl.sum("bytes") / pl.sum("seconds") * 8e-6)
    together = each.group_by("direction").agg(pl.sum("mbps")).sort("direction")
    assert together["direction"].to_list() == ["downlink", "uplink"]
    return list(together["mbps"])
