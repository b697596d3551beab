import pytest

from profilers.clusters import node_types
from profilers.clusters.emulated import check_shares
from profilers.clusters.node_types import check_isa, declared_usd_per_hour, node_group
from profilers.steady import host
from warehouse.records import BadInput, NodeGroup


def test_a_group_carries_its_types_definition() -> None:
    group = node_group("worker", "emu.avx2.c25", 3)
    assert (group.count, group.cpu_share, group.isa) == (3, 0.25, "AVX2")


def test_an_unknown_type_names_the_closest() -> None:
    with pytest.raises(BadInput, match=r"unknown node type 'emu.avx2.c52'.*emu\.avx2\.c25"):
        node_group("worker", "emu.avx2.c52", 1)


def test_every_type_has_a_price_and_a_link() -> None:
    for name, kind in node_types.node_types().items():
        assert kind.usd_per_hour > 0, name
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
