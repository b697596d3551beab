from pathlib import Path

import pytest

from forecasting.inputs import inputs_of_study
from forecasting.study_checks import check_study
from profilers.clusters import choose_backend, host_id, open_cluster
from profilers.clusters.fleet import VARIABLE, read_fleet
from profilers.clusters.node_types import node_group
from studies.study import read_study
from warehouse.records import BadInput, MissingTool

TWO = """
node_types: {lab.xeon: {threads: 16}}
machines: [{node_type: lab.xeon, address: 10.0.0.1}, {node_type: lab.xeon, address: 10.0.0.2}]
"""
STUDY = """
name: lab
probes:
  links: {flows: [1], seconds: 1, trials: 1}
  tf_trace: {traced_steps: 2, untraced_steps: 2}
  tf_throughput: {windows: 1, window_s: 1}
test:
  - {dnn: small_cnn, image_size: 16, batch_size: 2, worker: WORKER, server: SERVER,
     link_mbps: 100, workers: [1, 2]}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "fleet.yaml"
    path.write_text(TWO)
    monkeypatch.setenv(VARIABLE, str(path))
    return path


def test_its_types_are_node_types(file: Path) -> None:
    group = node_group("worker", "lab.xeon", 2)
    assert (group.threads, group.cpu_share) == (16, None)
    assert choose_backend("ssh") == ("ssh", f"asked for; machines of {file}")


def test_other_machines_are_another_host(file: Path) -> None:
    before = host_id("ssh")
    assert before == host_id("ssh")
    file.write_text(TWO.replace("10.0.0.2", "10.0.0.3"))
    assert host_id("ssh") != before


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("node_types: [", " line 1: not valid YAML"),
        ("node_types: {a: {threads: 0}}", r": node_types\.a\.threads: "),
        (TWO.replace("lab.xeon", "../xeon"), r".*\.\./xeon.*: string should match pattern"),
        (TWO.replace("10.0.0.1", "-oProxyCommand=reboot"), r": machines\[0\]\.address: "),
        (TWO + "interface: '-w/etc/passwd'", ": interface: string should match pattern"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(file: Path, content: str, said: str) -> None:
    file.write_text(content)
    with pytest.raises(BadInput, match=f"fleet.yaml{said}"):
        read_fleet()


def test_without_a_file_its_backends_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(BadInput, match=r"no fleet file fleet\.yaml"):
        choose_backend("ssh")


@pytest.mark.parametrize(
    ("worker", "server", "backend", "said"),
    [
        ("lab.xeon", "lab.xeon", "ssh", r"test\[0\]\.workers: 3 machines"),
        ("lab.xeon", "lab.xeon", "emulated", "no nodes of type 'lab.xeon' on backend emulated"),
        ("emu.native.c25", "lab.xeon", "ssh", "no nodes of type 'emu.native.c25' on backend ssh"),
    ],
)
def test_a_study_that_the_fleet_cannot_run_is_refused(
    file: Path, worker: str, server: str, backend: str, said: str
) -> None:
    path = file.with_name("study.yaml")
    path.write_text(STUDY.replace("WORKER", worker).replace("SERVER", server))
    study = read_study(path)
    with pytest.raises(BadInput, match=said):
        check_study(study, path, "ssh" if backend == "ssh" else "emulated", inputs_of_study(study))


def test_without_ssh_nothing_is_tried(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(file.parent))
    with (
        pytest.raises(MissingTool, match="ssh is not installed"),
        open_cluster("ssh", [node_group("worker", "lab.xeon", 1)], None),
    ):
        pass
