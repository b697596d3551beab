import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from profilers.clusters import choose_backend, open_cluster
from profilers.clusters.node_types import node_group
from tests.profilers.clusters.machines import has_ended, is_running
from warehouse.records import MissingTool, ProbeFailed

NODES = (node_group("server", "emu.server", 1), node_group("worker", "emu.native.c25", 2))


def test_runs_a_program_and_reports_its_failure() -> None:
    with open_cluster("loopback", NODES, None) as cluster:
        node = cluster.nodes[0]
        assert cluster.run(node, ["echo", "hello"]) == "hello\n"
        with pytest.raises(ProbeFailed, match="exited with 1"):
            cluster.run(node, ["false"])
        with pytest.raises(MissingTool, match="no-such-program is not installed"):
            cluster.run(node, ["no-such-program"])


def test_down_kills_what_runs_and_may_be_repeated() -> None:
    with open_cluster("loopback", NODES, None) as cluster:
        process = cluster.popen(cluster.nodes[0], ["sleep", "1000"])
        cluster.down()
        assert process.returncode is not None
        cluster.down()


def test_a_process_dies_with_its_owner() -> None:
    with owning_a_sleeper() as (owning, sleeper):
        assert is_running(sleeper)
        owning.kill()
    assert has_ended(sleeper)


def test_a_process_that_starts_up_later_than_its_owner_dies_does_too(tmp_path: Path) -> None:
    slow, orphaned = tmp_path / "setpriv", tmp_path / "orphaned"
    slow.write_text(
        f'#!/bin/sh\nuntil test -e {orphaned}; do :; done; exec {shutil.which("setpriv")} "$@"'
    )
    slow.chmod(0o755)
    with owning_a_sleeper(PATH=f"{tmp_path}:{os.environ['PATH']}") as (owning, sleeper):
        owning.kill()
    orphaned.touch()
    assert has_ended(sleeper)


def test_nodes_come_and_go() -> None:
    with open_cluster("loopback", NODES, None) as cluster:
        (added,) = cluster.add(node_group("worker", "emu.native.c25", 1))
        assert added.name == "worker2"
        process, other = (cluster.popen(node, ["sleep", "1000"]) for node in cluster.nodes[-2:])
        cluster.remove(added)
        assert other.returncode is not None
        assert process.poll() is None
        assert [node.name for node in cluster.nodes] == ["server0", "worker0", "worker1"]


def test_auto_falls_back_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profilers.clusters.obstacles", lambda: ["not installed: tc"])
    assert choose_backend("auto") == ("loopback", "no emulated cluster here: not installed: tc")
    with pytest.raises(MissingTool, match="not installed: tc"):
        choose_backend("emulated")


@contextmanager
def owning_a_sleeper(**env: str) -> "Iterator[tuple[subprocess.Popen[str], int]]":
    """A process whose cluster runs `sleep`, and the pid of that; waited for at the end."""
    with subprocess.Popen(
        [sys.executable, "-c", OWN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | env,
    ) as owning:
        assert owning.stdout is not None
        yield owning, int(owning.stdout.readline())


OWN = """
import sys
from profilers.clusters import open_cluster
from profilers.clusters.node_types import node_group
with open_cluster("loopback", [node_group("worker", "emu.native.c25", 1)], None) as cluster:
    print(cluster.popen(cluster.nodes[0], ["sleep", "1000"]).pid, flush=True)
    sys.stdin.read()
"""
