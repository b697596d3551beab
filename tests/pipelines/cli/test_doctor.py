"""`stepcast doctor` looks at the machine as it is, leaves nothing behind, and says what mends."""

import os
import sys
from pathlib import Path

import pytest
import yaml

from pipelines.cli.doctor import HostFinding, examine, exit_code
from profilers import commands
from profilers.clusters import cgroups, netns, owner, reap
from profilers.steady.hostlock import host_lock
from tests.pipelines.ran import Stepcast, leave_dead_run
from tests.profilers.clusters.killed import made_by_a_killed_process


def by_name(findings: list[HostFinding]) -> dict[str, HostFinding]:
    named = {finding.name: finding for finding in findings}
    assert len(named) == len(findings)
    return named


def ours() -> set[str]:
    """Return the namespaces and control groups that this process made."""
    names = {*netns.namespaces(), *cgroups.names(owner.PREFIX)}
    return {name for name in names if name.startswith(owner.new_prefix().rpartition("-")[0])}


def test_every_finding_says_what_it_is_for_and_how_to_mend_it() -> None:
    before = ours()
    findings = examine()
    assert ours() == before
    assert all(finding.found and finding.needed_for for finding in findings)
    assert all(finding.mend for finding in findings if not finding.ok)
    named = by_name(findings)
    assert named["CPU cores"].found == str(len(os.sched_getaffinity(0)))


def test_without_any_tool_the_cluster_is_loopback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    findings = by_name(examine())
    assert not findings["network namespaces"].ok
    assert not findings["shaped links"].ok
    assert "not installed" in findings["backend"].found
    assert findings["backend"].found.startswith("loopback: ")
    assert exit_code([findings["backend"], findings["tcpdump"]]) == 0
    assert exit_code([findings["backend"], findings["setpriv"]]) == 1


def test_a_running_measurement_is_told() -> None:
    with host_lock():
        finding = by_name(examine())["measuring"]
    assert not finding.ok
    assert str(os.getpid()) in finding.found


@pytest.mark.cluster
def test_an_emulating_host_is_seen_and_leftovers_are_named(home: Path) -> None:
    leftover = f"{made_by_a_killed_process()}-worker0"
    foreign = f"{owner.PREFIX}-0123456789ab-0123456789ab-0-worker0"
    with host_lock():
        for name in (leftover, foreign):
            commands.run(["ip", "netns", "add", name])
        try:
            findings = by_name(examine())
            reap()
            left = netns.namespaces()
        finally:
            for name in (leftover, foreign):
                netns.delete(name)
    assert leftover in findings["leftovers"].found
    assert foreign not in findings["leftovers"].found
    assert leftover not in left
    assert foreign in left
    assert findings["leftovers"].mend == "stepcast reap"
    for name in ("network namespaces", "shaped links", "cpu control group"):
        assert findings[name].ok
    assert findings["backend"].found.startswith("emulated: ")


def test_gpus_that_pytorch_does_not_see_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    monkeypatch.setattr("profilers.steady.host.gpu_models", list)
    monkeypatch.setattr("profilers.steady.host.gpus", lambda: 0)
    assert by_name(examine())["GPUs"].found == "none; processors train"
    monkeypatch.setattr("profilers.steady.host.gpu_models", lambda: ["NVIDIA H100 80GB HBM3"])
    gpus = by_name(examine())["GPUs"]
    assert not gpus.ok
    assert gpus.found.startswith("NVIDIA H100 80GB HBM3; PyTorch ")
    assert gpus.found.endswith(" sees 0")
    assert not gpus.essential


def test_credentials_of_aws_are_told_by_where_they_come_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    assert by_name(examine())["AWS credentials"].found.startswith("none")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA" + "X" * 16)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "made-up")
    credentials = by_name(examine())["AWS credentials"]
    assert (credentials.ok, credentials.found) == (True, "from env")


def test_reap_ends_runs_without_a_process(stepcast: Stepcast, home: Path) -> None:
    dead = leave_dead_run(home)
    assert f"marked run {dead} as failed" in stepcast("reap").out
    assert f"marked run {dead}" not in stepcast("reap").out


def test_the_web_interface_shows_the_history_of_this_home(
    stepcast: Stepcast, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []

    def start(program: str, arguments: list[str]) -> None:
        started.append([program, *arguments])
        assert os.environ["DAGSTER_HOME"] == os.environ["STEPCAST_HOME"] == str(home)

    monkeypatch.chdir(home)  # put back where the command goes
    monkeypatch.setattr("os.execv", start)
    assert stepcast("ui", "--port", "3456").code == 0
    ((program, *arguments),) = started
    assert program == arguments[0] == sys.executable
    assert arguments[3:8] == ["-m", "dagster", "dev", "-m", "pipelines.definitions"]
    assert arguments[-4:] == ["--host", "127.0.0.1", "--port", "3456"]
    assert (home / "dagster.yaml").exists()


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("code", ["dagster", "code-server", "start", "-m", "pipelines.definitions"]),
        ("daemon", ["dagster._daemon", "run", "-w"]),
        ("web", ["dagster_webserver", "-w"]),
    ],
)
def test_each_of_its_services_starts_alone(
    part: str, words: list[str], stepcast: Stepcast, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    monkeypatch.chdir(home)  # put back where the command goes
    monkeypatch.setattr("os.execv", lambda _, arguments: started.append(arguments))
    assert stepcast("ui", "--only", part, "--code", "code:99").code == 0
    ((_, module, *arguments),) = started
    assert (module, arguments[: len(words)]) == ("-m", words)
    if part == "code":
        assert arguments[-4:] == ["--host", "127.0.0.1", "--port", "99"]
    else:
        workspace = yaml.safe_load((home / "workspace.yaml").read_text())
        server = {"host": "code", "port": 99, "location_name": "pipelines.definitions"}
        assert workspace == {"load_from": [{"grpc_server": server}]}
    assert stepcast("ui", "--only", part, "--code", "99").code == 2
