import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from pipelines.service.node import measure_node
from profilers.clusters import node_types, open_cluster
from profilers.clusters.base import LoopbackCluster
from profilers.clusters.emulated import check_shares
from profilers.clusters.fleet import FleetType
from profilers.clusters.node_types import check_host, declared_usd_per_hour, node_group
from profilers.nodes.program import node_facts
from profilers.nodes.programs import environment
from profilers.steady import host
from warehouse.records import BadInput


def test_nodes_cost_what_their_types_declare() -> None:
    groups = [node_group("worker", "emu.avx2.c15", 3), node_group("server", "emu.server", 1)]
    assert declared_usd_per_hour(groups) == pytest.approx(3 * 0.028 + 0.08)
    rented = groups[0].model_copy(update={"node_type": "p3.2xlarge"})
    assert declared_usd_per_hour([*groups, rented]) is None
    assert declared_usd_per_hour([]) is None


def test_an_instruction_set_the_host_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "hardware", lambda: {"instruction_sets": "SSE41"})
    with pytest.raises(BadInput, match="needs AVX2, but this host's CPU offers SSE41"):
        check_host(node_group("worker", "emu.avx2.c25", 1))
    check_host(node_group("worker", "emu.sse41.c25", 1))


PLAIN = {"cores": "2", "memory_gib": "24", "instruction_sets": "SSE41 AVX2"}


def with_gpus(*models: str) -> dict[str, str]:
    return {**PLAIN, "gpu": ", ".join(models)}


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("h100", "gpu.h100, p5.4xlarge, p5.48xlarge"),
        ("NVIDIA A100-80GB", "gpu.a100-80gb, p4de.24xlarge"),
        ("a100-40gb", "gpu.a100, p4d.24xlarge"),
        ("rtx-4090", "gpu.rtx4090"),
        ("p5.4xlage", "p5.4xlarge"),
    ],
)
def test_a_gpu_is_no_node_type_but_some_have_it(name: str, near: str) -> None:
    with pytest.raises(BadInput) as refused:
        node_group("worker", name, 1)
    assert f"did you mean {near.partition(', p5.48')[0]}" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "hardware", "differs"),
    [
        ("gpu.h100", PLAIN, "needs 1 GPU H100, but it has none"),
        ("gpu.h100", with_gpus("NVIDIA H200"), "needs 1 GPU H100, but it has NVIDIA H200"),
        ("gpu.h100", with_gpus("NVIDIA H100 80GB HBM3"), None),
        ("g5.12xlarge", with_gpus("NVIDIA A10G"), "needs 4 GPUs A10G, but it has NVIDIA A10G"),
        ("c7i.large", PLAIN, None),
        ("emu.avx512.s15", PLAIN, "needs AVX512_CORE, but its CPU offers SSE41, AVX2"),
        ("emu.sse41.s15", {"cores": "none"}, "needs 0.15 cores, but it has none"),
        ("emu.avx2.1c", {**PLAIN, "cores": "4 | 0.5"}, "needs 1 cores, but it has 0.5"),
        (
            "emu.avx2.s15",
            {**PLAIN, "instruction_sets": "SSE41 AVX2 | SSE41"},
            "needs AVX2, but its CPU offers SSE41",
        ),
        (
            "gpu.h100",
            with_gpus("NVIDIA H100 PCIe | NVIDIA A100"),
            "needs 1 GPU H100, but it has NVIDIA A100",
        ),
    ],
)
def test_a_machine_is_compared_with_its_type(
    name: str, hardware: dict[str, str], differs: str | None
) -> None:
    assert node_types.mismatch(node_group("worker", name, 1), hardware) == differs


def test_types_of_a_home_declare_gpus_and_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPCAST_HOME", str(tmp_path))
    (tmp_path / node_types.OWN).write_text(
        "box.a100x2: {bandwidth_mbps: 1000, gpu: A100, gpus: 2, memory_bytes: 68719476736}\n"
        "gpu.some: {bandwidth_mbps: 1000}\n"
    )
    two, some = node_group("worker", "box.a100x2", 1), node_group("worker", "gpu.some", 1)
    large = {**with_gpus("NVIDIA A100-SXM4-80GB"), "memory_gib": "126"}
    assert node_types.mismatch(two, with_gpus()) == "needs 64.0 GiB of memory, but it has 24"
    assert node_types.mismatch(two, large) == (
        "needs 2 GPUs A100, but it has NVIDIA A100-SXM4-80GB"
    )
    assert node_types.mismatch(two, {**large, "gpu": f"{large['gpu']}, {large['gpu']}"}) is None
    assert node_types.mismatch(some, PLAIN) == "needs 1 GPU, but it has none"
    assert [node_types.gpus(name) for name in ("box.a100x2", "gpu.some", "emu.avx2.s15")] == [
        2,
        1,
        0,
    ]


@pytest.mark.parametrize("backend", ["loopback", "emulated"])
def test_no_cluster_stands_for_a_type_that_this_host_is_not(
    backend: Literal["loopback", "emulated"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every probe measures on a cluster that `open_cluster` gives."""
    monkeypatch.setattr(host, "hardware", lambda: PLAIN)
    with pytest.raises(BadInput, match=r"^node type 'gpu\.h100' needs 1 GPU H100, but this host "):
        open_cluster(backend, [node_group("worker", "gpu.h100", 1)], None)
    with (
        open_cluster(backend, [], None) as cluster,
        pytest.raises(BadInput, match="needs 1 GPU H100"),
    ):
        cluster.add(node_group("worker", "gpu.h100", 1))


def test_processors_see_no_gpu_and_a_gpu_type_asks_pytorch_for_one() -> None:
    with LoopbackCluster([node_group("worker", "emu.native.c25", 1)], None) as cluster:
        (node,) = cluster.nodes
        process = cluster.popen(node, ["sh", "-c", 'echo "[$CUDA_VISIBLE_DEVICES]"'])
        assert process.communicate(timeout=20)[0] == "[]\n"
        assert "STEPCAST_GPUS" not in environment(cluster, node)
        gpu = replace(node, group=node_group("worker", "gpu.h100", 1))
        assert environment(cluster, gpu)["STEPCAST_GPUS"] == "1"


def test_pytorch_without_the_gpus_of_its_type_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    monkeypatch.setenv("STEPCAST_GPUS", "1")
    with pytest.raises(SystemExit, match=r"has 1 GPU\(s\), but PyTorch \S+ sees 0; install"):
        node_facts("lo")


def test_more_shares_than_cores_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    check_shares([node_group("worker", "emu.native.c25", 7)])
    with pytest.raises(BadInput, match="add up to 2 cores, but this host has 2"):
        check_shares([node_group("worker", "emu.native.c25", 8)])


OWN = "box: {bandwidth_mbps: 100, cpu_share: 0.5, usd_per_hour: 0.05}"


def own(home: Path, text: str) -> Path:
    """Write the home's node types; each time later than before, however coarse its clock is."""
    path = home / node_types.OWN
    later_ns = path.stat().st_mtime_ns + 10**9 if path.exists() else None
    path.write_text(text)
    if later_ns is not None:
        os.utime(path, ns=(later_ns, later_ns))
    return path


def test_a_home_has_node_types_of_its_own(home: Path) -> None:
    shipped = set(node_types.node_types())
    own(home, OWN)
    assert set(node_types.node_types()) == {*shipped, "box"}
    group = node_group("worker", "box", 2)
    assert (group.node_type, group.count, group.cpu_share) == ("box", 2, 0.5)
    own(home, OWN.replace("0.5", "0.25"))
    assert node_group("worker", "box", 1).cpu_share == 0.25, "read again once it has changed"
    with pytest.raises(BadInput, match="unknown node type 'boxx'; did you mean box"):
        node_group("worker", "boxx", 1)
    (home / node_types.OWN).unlink()
    assert set(node_types.node_types()) == shipped


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        (OWN, "[box]", "expected a mapping of names to node types, found ['box']"),
        ("box", "emu.server", "emu.server is the name of a node type of Stepcast; choose another"),
        ("box", "a/b", "node type 'a/b' cannot be part of a path; use up to 100"),
        ("cpu_share", "cpu_shares", "box.cpu_shares: no such key; did you mean cpu_share?"),
        ("bandwidth_mbps: 100, ", "", "box.bandwidth_mbps: missing, and it has no default"),
        ("bandwidth_mbps: 100", "bandwidth_mbps: 0", "box.bandwidth_mbps: "),
        ("cpu_share: 0.5", "cpu_share: .nan", "box.cpu_share: "),
    ],
)
def test_a_wrong_file_of_a_home_is_one_line(
    right: str, wrong: str, message: str, home: Path
) -> None:
    assert right in OWN
    path = own(home, OWN.replace(right, wrong))
    with pytest.raises(BadInput) as caught:
        node_types.node_types()
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)


def test_a_fleets_type_that_declares_no_gpu_hashes_as_it_did() -> None:
    plain = FleetType(threads=8)
    assert plain.canonical_json() == '{"inter_op_threads":4,"memory_bytes":null,"threads":8}'
    assert '"gpu":"A100","gpus":2' in FleetType(threads=8, gpu="A100", gpus=2).canonical_json()


def test_a_node_of_the_service_joins_as_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "hardware", lambda: PLAIN)
    with pytest.raises(BadInput, match=r"'gpu\.h200' needs 1 GPU H200, but this host has none"):
        measure_node("gpu.h200", None)
