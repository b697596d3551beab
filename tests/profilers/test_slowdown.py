"""The slowdown probe: its arithmetic, what it refuses, and training beside real all-reduces."""

from pathlib import Path

import pytest

from profilers.nodes.torch_training import Step
from profilers.probe import RequestedScenarios
from profilers.slowdown import probe as slowdown
from profilers.slowdown.probe import Times
from tests.profilers.training import measured, scenario, workers_of


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


@pytest.mark.cluster
def test_two_nodes_train_beside_all_reduces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slowdown, "BUCKET_BYTES", 2**20)
    pair = scenario(workers_of(2), batch_size=4)
    asked = RequestedScenarios(cluster=(pair,))
    (result,) = measured("slowdown", tmp_path, asked, trials=3)
    sample = result.tables["sample"]
    metrics = {f"{what}_slowdown" for what in ("forward", "backward", "allreduce")}
    assert set(sample["metric"]) == {*metrics, "straggling_share"}
    assert (sample["value"] > -1).all()
    assert result.tables["cluster_node"].height == 2
