"""Nodes over ssh, for real: sshd's of this host."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from pipelines.cli import doctor
from profilers.clusters import Cluster, fleet, host_id, open_cluster, owner
from profilers.clusters.fleet import VARIABLE
from profilers.clusters.node_types import node_group
from profilers.probe import RequestedScenarios
from tests.profilers.clusters.machines import (
    NODE_TYPE,
    has_ended,
    is_running,
    machine,
    machines,
    write_fleet,
)
from tests.profilers.training import measured
from warehouse.records import BadInput, NodeGroup, ProbeFailed, Scenario, Strategy, TrainingWorkload

pytestmark = pytest.mark.sshd


@pytest.fixture
def fleet_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Two machines that answer, and a fleet file that lists them."""
    with machines(tmp_path, 2) as file:
        monkeypatch.setenv(VARIABLE, str(file))
        yield file


def two() -> tuple[NodeGroup, NodeGroup]:
    """A server and a worker."""
    return node_group("server", NODE_TYPE, 1), node_group("worker", NODE_TYPE, 1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server and a worker that stay up."""
    with pytest.MonkeyPatch.context() as patch, machines(tmp_path_factory.mktemp("up"), 2) as file:
        patch.setenv(VARIABLE, str(file))
        with open_cluster("ssh", two(), None) as opened:
            yield opened


def test_nodes_are_machines_of_the_fleet(cluster: Cluster) -> None:
    assert [node.address for node in cluster.nodes] == ["127.0.0.2", "127.0.0.3"]
    places = [cluster.run(node, ["pwd"]).strip() for node in cluster.nodes]
    assert places == [str(fleet.fleet_file().parent / name) for name in ("m0", "m1")]
    assert cluster.run(cluster.nodes[0], ["echo", "a  b", "$HOME"]) == "a  b $HOME\n"
    assert cluster.software()["python"] == ".".join(map(str, sys.version_info[:3]))
    assert f"{NODE_TYPE} cpu" in cluster.host()
    assert cluster.host_id() == host_id("ssh")
    before = cluster.cpu_times()
    time.sleep(0.3)
    assert cluster.cpu_times().total_s > before.total_s + 0.3
    with pytest.raises(ProbeFailed, match="exited with 3"):
        cluster.run(cluster.nodes[0], ["sh", "-c", "exit 3"])


def test_machines_are_locked_and_left_as_they_were(fleet_file: Path) -> None:
    sent = fleet_file.parent / "m0/.cache/stepcast"  # of all machines here
    before = set(sent.glob(f"{owner.PREFIX}*"))
    with open_cluster("ssh", two(), None):
        with (
            pytest.raises(ProbeFailed, match="another Stepcast measures there"),
            open_cluster("ssh", two(), None),
        ):
            pass
    with open_cluster("ssh", two(), None):
        pass
    assert set(sent.glob(f"{owner.PREFIX}*")) == before


def test_users_of_one_machine_exclude_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a home of their own."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "fleet.yaml"))
    with (
        machines(tmp_path, 0),
        machine(tmp_path, "127.0.0.2", "anna", NODE_TYPE, "lab") as annas,
        machine(tmp_path, "127.0.0.3", "bert", NODE_TYPE, "lab") as berts,
    ):
        write_fleet(tmp_path, [annas, berts])
        with (
            pytest.raises(ProbeFailed, match="another Stepcast measures there"),
            open_cluster("ssh", two(), None),
        ):
            pass
        with open_cluster("ssh", two()[:1], None):
            pass


def test_machines_with_a_common_home_are_used_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a folder in it, which goes with the machine."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "fleet.yaml"))
    with (
        machines(tmp_path, 0),
        machine(tmp_path, "127.0.0.2", "home", NODE_TYPE, "m0") as m0,
        machine(tmp_path, "127.0.0.3", "home", NODE_TYPE, "m1") as m1,
    ):
        write_fleet(tmp_path, [m0, m1])
        with open_cluster("ssh", two(), None) as cluster:
            first, second = cluster.nodes
            places = [cluster.folder(node, tmp_path / "job") for node in (first, second)]
            for node, place in zip(cluster.nodes, places, strict=True):
                cluster.write(node, place / "who", node.name.encode())
            cluster.remove(first)
            assert cluster.read(second, places[1] / "who") == second.name.encode()
            assert not places[0].exists()


def test_what_runs_there_ends_with_its_owner(fleet_file: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", OWN], stdout=subprocess.PIPE, text=True) as owning:
        assert owning.stdout is not None
        sleeper = int(owning.stdout.readline())
        assert is_running(sleeper)
        owning.kill()
    assert has_ended(sleeper)
    with open_cluster("ssh", two(), None):
        pass


def test_signals_reach_the_program(cluster: Cluster) -> None:
    process = cluster.popen(cluster.nodes[0], [sys.executable, "-c", INTERRUPTIBLE])
    assert process.stdout is not None
    assert process.stdout.readline() == "1\n"
    cluster.signal(process, signal.SIGINT)
    assert process.stdout.readline() == "2\n"
    assert process.wait(timeout=10) == 0


def test_a_shared_folder_is_copied_here(cluster: Cluster, tmp_path: Path) -> None:
    here, node = tmp_path / "here", cluster.nodes[0]
    here.mkdir()
    with cluster.shared(node, here) as there:
        cluster.run(node, ["dd", "if=/dev/zero", f"of={there}/a", "bs=1M", "count=3"])
    assert (here / "a").stat().st_size == 3 * 2**20
    assert not there.exists()


def test_a_shared_folder_that_is_not_sent_whole_is_an_error(
    cluster: Cluster, tmp_path: Path
) -> None:
    with (
        pytest.raises(ProbeFailed, match=r"127\.0\.0\.2 .*did not send all|sent no files"),
        cluster.shared(cluster.nodes[0], tmp_path / "here") as there,
    ):
        cluster.run(cluster.nodes[0], ["rm", "-r", str(there)])


def test_machines_that_cannot_be_used(fleet_file: Path) -> None:
    with pytest.raises(BadInput, match=r"3 machines .* but the fleet file has 2"):
        open_cluster("ssh", (node_group("worker", NODE_TYPE, 3),), None).__enter__()
    content = yaml.safe_load(fleet_file.read_text())
    content["machines"][1]["port"] = 1
    fleet_file.write_text(yaml.safe_dump(content))
    with (
        pytest.raises(ProbeFailed, match=r"machine 127.0.0.3 .*Connection refused"),
        open_cluster("ssh", two(), None),
    ):
        pass


def test_machines_of_other_versions_are_refused(fleet_file: Path) -> None:
    for name, version in (("m0", "1"), ("m1", "2")):
        python = fleet_file.parent / name / "python"
        about = json.dumps({"host": {}, "software": {"torch": version}})
        python.write_text(f"#!/bin/sh\necho '{about}'")
        python.chmod(0o755)
    content = yaml.safe_load(fleet_file.read_text())
    fleet_file.write_text(yaml.safe_dump(content | {"python": "./python"}))
    with (
        pytest.raises(ProbeFailed, match=r"127.0.0.3 .* has torch 2 instead of 1"),
        open_cluster("ssh", two(), None),
    ):
        pass


@pytest.mark.measuring
@pytest.mark.cluster
def test_probes_measure_over_ssh(fleet_file: Path, alone: None, tmp_path: Path) -> None:
    scenario = Scenario(
        workload=TrainingWorkload(dnn="small_cnn", image_size=16, batch_size=2),
        strategy=Strategy(workers=1),
        nodes=two()[::-1],
        link_mbps=None,
    )
    steps: dict[str, Any] = {"traced_steps": 4, "untraced_steps": 4, "capture": True}
    of = RequestedScenarios(own=(scenario,), cluster=(scenario,))
    judged = RequestedScenarios(test=(scenario,))
    (linked,) = measured("links", tmp_path, of, "ssh", flows=[1], seconds=1, trials=1)
    (profiled,) = measured("tf_trace", tmp_path, of, "ssh", **steps)
    (trained,) = measured("tf_throughput", tmp_path, judged, "ssh", windows=1, window_s=2)
    assert linked.tables["link"].filter(pl.col("bandwidth_Bps") < 1e6).is_empty()
    for result in (profiled, trained):
        assert (result.run.backend, result.run.host_id) == ("ssh", host_id("ssh"))
    (share,) = profiled.tables["sample"].filter(metric="captured_fraction")["value"]
    assert share >= 0.9
    (steps_per_s,) = trained.tables["sample"].filter(metric="throughput_steps_per_s")["value"]
    assert steps_per_s > 0


INTERRUPTIBLE = """
import time
print(1, flush=True)
try:
    time.sleep(1000)
except KeyboardInterrupt:
    print(2)
"""
OWN = f"""
import time
from profilers.clusters import open_cluster
from profilers.clusters.node_types import node_group
with open_cluster("ssh", [node_group("worker", {NODE_TYPE!r}, 1)], None) as cluster:
    process = cluster.popen(cluster.nodes[0], ["sh", "-c", "echo $$; exec sleep 1000"])
    print(process.stdout.readline(), end="", flush=True)
    time.sleep(1000)
"""


def test_doctor_connects_to_every_machine(fleet_file: Path) -> None:
    finding = doctor.fleet_finding()
    assert (finding.ok, finding.found) == (True, f"2 machines of {fleet_file} answer")
    fleet_file.write_text(fleet_file.read_text().replace("127.0.0.3", "127.0.0.4"))
    assert re.search(r"machine 127\.0\.0\.4 .*refused", doctor.fleet_finding().found)
