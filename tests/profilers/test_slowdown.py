"""The slowdown probe: its arithmetic, what it refuses, and training beside real all-reduces."""

from pathlib import Path

import pytest

from profilers.clusters import open_cluster
from profilers.clusters.node_types import node_group
from profilers.nodes.torch_training import Step
from profilers.probe import RunContext
from profilers.slowdown import probe as slowdown
from profilers.slowdown.probe import Times
from tests.profilers.torch_jobs import scenario
from warehouse import tables
from warehouse.records import BadInput, NodeGroup


def test_slowdowns_are_parts_of_the_time_alone() -> None:
    alone = [Step(1.0, 4.0, 0.1), Step(3.0, 4.0, 0.1)]
    beside = [Step(2.0, 5.0, 9.9), Step(2.0, 7.0, 9.9)]
    together = [[[1.0, 3.0], [1.0, 4.0]]]
    sample = slowdown.samples(Times(alone, [0.5, 1.5]), Times(beside, [2.0, 4.0]), together)
    values = dict(sample.select("metric", "value").iter_rows())
    assert values == {
        "forward_slowdown": 0.0,
        "backward_slowdown": 0.5,
        "allreduce_slowdown": 2.0,
        "straggling_share": pytest.approx((0.25 / 3.25) ** 0.5),
    }


def test_what_a_moment_adds_to_all_nodes_is_no_straggling() -> None:
    """Steps of two nodes at once have variances 0 and ½, those in a row (2²/2 + 3²/2) / 2."""
    share = slowdown.straggling_share
    assert share([[[1.0, 3.0], [1.0, 4.0]]]) == pytest.approx((0.25 / 3.25) ** 0.5)
    moments = [1.0, 3.0, 2.0, 5.0, 1.0]
    assert share([[moments, moments]]) == 0.0
    assert share([[[2.0, 2.0, 2.1], [4.0, 4.0, 4.1]]]) == 1.0, "never more than all of it"
    assert share([[[1.0], [2.0]]]) == 1.0, "of single steps nothing is known"


def test_a_single_worker_has_nobody_to_reduce_with(tmp_path: Path) -> None:
    group = NodeGroup(role="worker", node_type="any", count=1)
    with (
        open_cluster("loopback", [group], None) as cluster,
        pytest.raises(BadInput, match="expected two workers or more"),
    ):
        context = RunContext("test", 1, "profile", tmp_path)
        slowdown.measure(cluster, scenario(group, batch_size=4), context, trials=1)


@pytest.mark.cluster
def test_two_nodes_train_beside_all_reduces(alone: None, tmp_path: Path) -> None:
    two_workers = scenario(node_group("worker", "emu.avx2.c40", 2), batch_size=4)
    with open_cluster("emulated", two_workers.nodes, 100) as cluster:
        result = slowdown.measure(
            cluster,
            two_workers,
            RunContext("test", 1, "profile", tmp_path),
            trials=3,
            size_bytes=2**20,
        )
    assert result.run.status == "ok", result.run.error
    sample = result.tables["sample"]
    metrics = {f"{what}_slowdown" for what in ("forward", "backward", "allreduce")}
    metrics.add("straggling_share")
    assert set(sample["metric"]) == metrics
    assert (sample["value"] > -1).all()
    for name, table in result.tables.items():
        assert set(table.columns) <= set(tables.SCHEMAS[name].names)
    assert result.tables["cluster_node"].height == 2
