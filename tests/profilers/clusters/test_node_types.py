import os
from pathlib import Path

import pytest

from profilers.clusters import node_types
from profilers.clusters.emulated import check_shares
from profilers.clusters.node_types import check_isa, declared_usd_per_hour, node_group
from profilers.steady import host
from studies.study import read_study
from tests.synthetic import STUDY, write_study
from warehouse.records import BadInput, NodeGroup


def test_a_group_carries_its_types_definition() -> None:
    group = node_group("worker", "emu.avx2.c25", 3)
    assert (group.count, group.cpu_share, group.isa) == (3, 0.25, "AVX2")


def test_an_unknown_type_names_the_closest() -> None:
    with pytest.raises(BadInput, match=r"unknown node type 'emu.avx2.c52'.*emu\.avx2\.c25"):
        node_group("worker", "emu.avx2.c52", 1)


def test_every_type_has_a_link_and_emulated_ones_have_a_price() -> None:
    for name, kind in node_types.node_types().items():
        assert (kind.usd_per_hour or 0) > 0 or not name.startswith("emu."), name
        assert kind.bandwidth_mbps > 0, name


def test_nodes_cost_what_their_types_declare() -> None:
    groups = [node_group("worker", "emu.avx2.c15", 3), node_group("server", "emu.server", 1)]
    assert declared_usd_per_hour(groups) == pytest.approx(3 * 0.028 + 0.08)
    rented = groups[0].model_copy(update={"node_type": "p3.2xlarge"})
    assert declared_usd_per_hour([*groups, rented]) is None
    assert declared_usd_per_hour([]) is None


def test_an_instruction_set_the_host_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_types, "instruction_sets", lambda: ("SSE41",))
    with pytest.raises(BadInput, match="needs AVX2, but this host's CPU offers SSE41"):
        check_isa(node_group("worker", "emu.avx2.c25", 1))
    check_isa(node_group("worker", "emu.sse41.c25", 1))


def test_more_shares_than_cores_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    check_shares([node_group("worker", "emu.native.c25", 7)])
    with pytest.raises(BadInput, match="add up to 2 cores, but this host has 2"):
        check_shares([node_group("worker", "emu.native.c25", 8)])


def test_a_host_without_a_share_counts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    check_shares([NodeGroup(role="server", node_type="free", count=4)])


def test_instruction_sets_are_ordered_and_known() -> None:
    found = host.instruction_sets()
    assert list(found) == [name for name in node_types.ISA_ORDER if name in found]


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
    ours = set(node_types.node_types())
    own(home, OWN)
    assert set(node_types.node_types()) == {*ours, "box"}
    group = node_group("worker", "box", 2)
    assert (group.node_type, group.count, group.cpu_share) == ("box", 2, 0.5)
    own(home, OWN.replace("0.5", "0.25"))
    assert node_group("worker", "box", 1).cpu_share == 0.25, "read again once it has changed"
    with pytest.raises(BadInput, match="unknown node type 'boxx'; did you mean box"):
        node_group("worker", "boxx", 1)
    (home / node_types.OWN).unlink()
    assert set(node_types.node_types()) == ours


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        (OWN, "", "expected a mapping of names to node types, found None"),
        (OWN, "[box]", "expected a mapping of names to node types, found ['box']"),
        (OWN, "box: [1]", "box: "),
        ("box", "emu.server", "emu.server is the name of a node type of Stepcast; choose another"),
        ("box", "a/b", "node type 'a/b' cannot be part of a path; use up to 100"),
        ("cpu_share", "cpu_shares", "box.cpu_shares: no such key; did you mean cpu_share?"),
        ("bandwidth_mbps: 100, ", "", "box.bandwidth_mbps: missing, and it has no default"),
        ("bandwidth_mbps: 100", "bandwidth_mbps: 0", "box.bandwidth_mbps: "),
        ("bandwidth_mbps: 100", "bandwidth_mbps: .inf", "box.bandwidth_mbps: "),
        ("cpu_share: 0.5", "cpu_share: .nan", "box.cpu_share: "),
        ("cpu_share: 0.5", "cpu_share: -1", "box.cpu_share: "),
        ("usd_per_hour: 0.05", "usd_per_hour: .inf", "box.usd_per_hour: "),
        ("usd_per_hour: 0.05", "usd_per_hour: cheap", "box.usd_per_hour: "),
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


def test_a_type_of_the_home_is_that_of_a_study(home: Path, tmp_path: Path) -> None:
    own(home, OWN)
    text = STUDY.replace("emu.native.c25", "box")
    (curve, _) = read_study(write_study(tmp_path, text)).curves
    assert curve.scenario(2, "emulated").nodes[0].cpu_share == 0.5
