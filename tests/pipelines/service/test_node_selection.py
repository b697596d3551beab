"""Places are nodes of known types, or what is free of registered ones."""

import pytest

from models.predictddl.observations import DENSE, MEMORY, POINTWISE, of_node
from pipelines.service.contracts import Cluster, Nodes, Registered, Report
from pipelines.service.node_selection import of_cluster, of_types
from profilers.clusters.node_types import node_group
from tests.pipelines.service.reports import report
from warehouse.records import BadInput


def cluster(*reports: Report) -> Cluster:
    """Return a cluster of nodes that tell this."""
    nodes = [
        Registered(name=f"n{number}", report=report, seconds_ago=0.0)
        for number, report in enumerate(reports)
    ]
    return Cluster(nodes=nodes)


def test_nodes_of_a_type_are_one_group() -> None:
    nodes = [Nodes(node_type="emu.avx2.s15", count=2), Nodes(node_type="emu.avx2.s15", count=3)]
    selection = of_types(nodes, 100.0)
    assert selection.counts == {"emu.avx2.s15": 5}
    assert [group.count for group in selection.groups] == [5]
    assert (selection.link_mbps, selection.measured) == (100.0, {})


def test_named_nodes_may_have_several_devices_each() -> None:
    assert of_types([Nodes(node_type="gpu.h100", count=1)], None).devices == 1
    two = [Nodes(node_type=name, count=1, devices_per_node=2) for name in ("gpu.h100", "gpu.h200")]
    assert of_types(two, 100.0).devices == 2


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ("gpu.h200", r"equally many devices each \(devices_per_node\), found gpu\.h100 with 2, "),
        ("gpu.h100", "gpu.h100 is named twice, with another devices_per_node each"),
    ],
)
def test_different_numbers_of_devices_are_refused(other: str, said: str) -> None:
    nodes = [
        Nodes(node_type="gpu.h100", count=1, devices_per_node=2),
        Nodes(node_type=other, count=1),
    ]
    with pytest.raises(BadInput, match=said):
        of_types(nodes, 100.0)


def test_several_nodes_need_a_link_whose_speed_is_known() -> None:
    message = "2 nodes exchange gradients, .*: give link_mbps"
    with pytest.raises(BadInput, match=message):
        of_types([Nodes(node_type="emu.avx2.s15", count=2)], None)
    assert of_types([Nodes(node_type="emu.avx2.s15", count=1)], None).link_mbps is None
    node = report(link_mbps=None)
    assert of_cluster(cluster(node), None).link_mbps is None
    with pytest.raises(BadInput, match=message):
        of_cluster(cluster(node, node), None)
    # The network of nodes with GPUs is the catalogue's.
    node = report(link_mbps=None, node_type="gpu.h100", gpus=1)
    assert of_cluster(cluster(node, node), None).link_mbps is None


def test_registered_nodes_can_do_what_the_least_of_their_type_can() -> None:
    selection = of_cluster(
        cluster(report(), report(utilisation=0.5, memory_Bps=4e10), report(node_type="lab.arm")),
        None,
    )
    assert selection.counts == {"lab.xeon": 2, "lab.arm": 1}
    xeon, arm = selection.groups
    assert (xeon.cpu_share, xeon.memory_bytes) == (4.0, 8 * 10**9)
    assert selection.measured[xeon.node_type][DENSE] == 4e10
    assert selection.measured[xeon.node_type][MEMORY] == 2e10
    assert of_node(arm, selection.measured).dense_flops == 8e10


def test_convolutions_of_single_pixels_count_where_all_nodes_of_a_type_timed_them() -> None:
    timed = report(pointwise_flops=2e10)
    (group,) = (selection := of_cluster(cluster(timed, timed), None)).groups
    assert of_node(group, selection.measured).pointwise_part == 0.25
    (group,) = (selection := of_cluster(cluster(timed, report()), None)).groups
    assert POINTWISE not in selection.measured[group.node_type]
    assert of_node(group, selection.measured).pointwise_part == 1.0


@pytest.mark.parametrize(
    ("reports", "threads"),
    [([report()], 8), ([report(cores=4.0), report(utilisation=0.9)], 4), ([report(cores=0.5)], 1)],
)
def test_registered_nodes_train_on_a_thread_for_each_core(
    reports: list[Report], threads: int
) -> None:
    """On one thread, PyTorch convolves single pixels of small batches in another way."""
    (group,) = of_cluster(cluster(*reports), None).groups
    assert group.threads == threads


def test_nodes_with_gpus_are_those_that_the_catalogue_has() -> None:
    """What their processors could do says nothing."""
    node = report(node_type="gpu.h100", gpus=8)
    selection = of_cluster(cluster(node, node.model_copy(update={"gpus": 4})), None)
    assert (selection.devices, selection.counts, selection.measured) == (4, {"gpu.h100": 2}, {})
    assert selection.groups == (node_group("worker", "gpu.h100", 2),)
    assert of_cluster(cluster(report()), None).devices == 1


def test_nodes_with_and_without_gpus_do_not_train_together() -> None:
    both = cluster(report(node_type="gpu.h100", gpus=2), report())
    with pytest.raises(BadInput, match=r"found gpu\.h100 with 2, lab\.xeon with 0; let some leave"):
        of_cluster(both, None)


def test_what_is_free_now_does_not_take_the_name_of_what_was_profiled() -> None:
    selection = of_cluster(cluster(report(node_type="emu.avx2.s15")), None)
    assert "emu.avx2.s15" not in selection.measured


def test_the_slowest_link_counts_unless_one_is_named() -> None:
    nodes = cluster(report(), report(link_mbps=100.0), report(link_mbps=None))
    assert of_cluster(nodes, None).link_mbps == 100.0
    assert of_cluster(nodes, 40.0).link_mbps == 40.0
    assert of_cluster(cluster(report(link_mbps=None)), None).link_mbps is None
