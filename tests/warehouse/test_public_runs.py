"""Runs that are given to others: what they keep, and which names are found."""

from pathlib import Path

import polars as pl
import pytest

from tests.made_run import made_run
from warehouse.landing import land, landed_run, read_tables
from warehouse.public_runs import strip
from warehouse.records import BadInput


def landed(landing: Path, study: str) -> str:
    run = made_run(
        "a-run",
        "inventory",
        study=study,
        backend="ssh",
        host_id="abc",
        host={"cpu": "Xeon", "boot_id": "b-1", "kernel": "6.1-gpu-box"},
        config={"worker": "gpu.l4", "interface": "gpu-box-eth0", "mtu_bytes": 1500},
    )
    node = {"node": "gpu-box", "role": "worker", "node_type": "gpu.l4", "address": "gpu-box.lan"}
    more = {"cores": 4.0, "memory_bytes": 1, "device_count": 1, "device_name": "NVIDIA L4"}
    land(landing, run, None, {"cluster_node": pl.DataFrame({**node, **more})})
    return run.run_id


def test_nodes_and_settings_lose_their_names(tmp_path: Path) -> None:
    run_id = landed(tmp_path / "landing", "mine")
    strip(tmp_path / "landing", [run_id], tmp_path / "given", ["gpu-box", "gpu-box.lan"])
    run = landed_run(tmp_path / "given" / run_id)
    assert run.host == {"cpu": "Xeon"} and run.host_id != "abc"
    assert run.config == {"worker": "gpu.l4", "mtu_bytes": 1500}
    (node,) = read_tables(tmp_path / "given" / run_id)["cluster_node"].to_pylist()
    assert (node["node"], node["address"], node["device_name"]) == ("worker0", "", "NVIDIA L4")
    tables = read_tables(tmp_path / "given" / run_id)
    assert "gpu-box" not in repr({name: rows.to_pylist() for name, rows in tables.items()})


def test_a_name_in_what_has_to_stay_is_refused(tmp_path: Path) -> None:
    run_id = landed(tmp_path / "landing", "runs-of-gpu-box")
    with pytest.raises(BadInput, match=r"run\.study"):
        strip(tmp_path / "landing", [run_id], tmp_path / "given", ["GPU-box"])
    assert not (tmp_path / "given").exists()
