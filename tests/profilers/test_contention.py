"""The contention probe, for real: it needs shaped links."""

from pathlib import Path

import polars as pl
import pytest

from profilers.probe import RequestedScenarios
from tests.profilers.training import LINK_MBPS, measured, with_server


@pytest.mark.measuring
@pytest.mark.cluster
def test_two_workers_share_what_the_link_carries(tmp_path: Path) -> None:
    """Each would have a whole link alone; in a slow moment of the host both get less."""
    pair = with_server(2).model_copy(update={"link_mbps": LINK_MBPS})
    asked = RequestedScenarios(cluster=(pair,))
    (result,) = measured("contention", tmp_path, asked, flows=(1, 2), seconds=2, trials=1)
    config = result.run.config
    assert (config["flows"], config["network"]) == ("2", "softmax_regression 161px")
    assert not list(tmp_path.glob("*.pcap"))
    assert all(0.3 < mbps / LINK_MBPS < 1.05 for mbps in shared_mbps(result.tables["contention"]))


def shared_mbps(rows: pl.DataFrame) -> list[float]:
    """Return what two flows carried together: down, and up."""
    shared = rows.filter(pl.col("flows") == 2).group_by("direction", "place")
    each = shared.agg(mbps=pl.sum("bytes") / pl.sum("seconds") * 8e-6)
    together = each.group_by("direction").agg(pl.sum("mbps")).sort("direction")
    assert together["direction"].to_list() == ["downlink", "uplink"]
    return list(together["mbps"])
