"""The compute and memory probes: their rows, the search, and real steps on an emulated node."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.srift import latency
from profilers.clusters.node_types import node_group
from profilers.nodes.torch_training import Layer, Step
from profilers.probe import RequestedScenarios
from profilers.steady import host
from profilers.torch_compute import probe as torch_compute
from profilers.torch_compute.probe import MOST_STEPS, PIECE_STEPS
from profilers.torch_memory import probe as torch_memory
from tests.profilers.training import measured, samples, scenario, single
from warehouse.records import BadInput

LAYERS = ["Conv2d", "Conv2d", "Conv2d", "Linear", "Linear"]
MIB = 2**20


def test_rows_keep_what_was_not_executed() -> None:
    steps = [Step(1.0, 2.0, 0.5, [1.0, None]), Step(1.5, 2.5, 0.25, [0.75, 0.5])]
    compute = torch_compute.compute_rows({4: steps})
    assert compute.select("batch_size", "trial", "rank", "forward_s", "update_s").rows() == [
        (4, 0, 0, 1.0, 0.5),
        (4, 1, 0, 1.5, 0.25),
    ]
    times = torch_compute.layer_time_rows({4: steps})
    assert times.rows() == [(4, 0, 0, 1.0), (4, 0, 1, None), (4, 1, 0, 0.75), (4, 1, 1, 0.5)]
    layers = torch_compute.layer_rows([Layer("a", "Linear", 1, 4), Layer("b", "Linear", 2, 8)])
    run_id = pl.lit("run").alias("run_id")
    fitted = latency.fit_gradients(layers.with_columns(run_id), times.with_columns(run_id))
    assert fitted.layer_bytes == (4, 8)
    assert fitted.ready == (0.875, 0.5)
    assert fitted.probability == (1.0, 0.5)


@given(most=st.integers(1, 5000), limit=st.integers(0, 6000))
def test_the_search_finds_the_largest_in_few_attempts(most: int, limit: int) -> None:
    tried: list[int] = []

    def fits(batch_size: int) -> bool:
        tried.append(batch_size)
        return batch_size <= limit

    assert torch_memory.largest_that_fits(fits, most) == min(most, limit)
    assert len(tried) == len(set(tried)) <= 2 * most.bit_length() + 1
    assert max(tried) <= most


def test_the_memory_of_this_host_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "gpus", lambda: 0)
    limited = node_group("worker", "emu.avx2.1c", 1).model_copy(update={"memory_bytes": MIB})
    asked = RequestedScenarios(own=(scenario(limited),))
    needs = list(torch_memory.PROBE.needs(asked, torch_memory.Settings()))
    torch_memory.PROBE.check(asked, needs, "emulated")
    with pytest.raises(BadInput, match="use emulated nodes of a type with memory_bytes"):
        torch_memory.PROBE.check(asked, needs, "loopback")


def test_neighbouring_batch_sizes_are_timed_far_apart() -> None:
    ordered = torch_compute.order_batch_sizes([22, 1, 14, 6, 2, 10, 18, 6])
    assert ordered == [1, 6, 14, 22, 18, 10, 2]


def test_steps_are_timed_until_they_are_known_or_time_is_up() -> None:
    times: torch_compute.Times = {1: [], 2: []}

    def taken(**until: float) -> list[str]:
        for pieces in times.values():
            pieces.clear()
        turns_taken = []
        for turn in torch_compute.turns(times, 2, **until):
            turns_taken.append(turn)
            # Every second turn is slow, so that the interval of the mean narrows slowly.
            steps = [Step(1.0, 1.0 + len(turns_taken) % 2, 0.0)]
            for pieces in times.values():
                pieces.append(steps)
        return turns_taken

    assert taken() == ["turn 1 of 2", "turn 2 of 2"]
    # The times of two steps, 3 and 2 s: Student's t is 12.7 with one degree of freedom.
    assert torch_compute.uncertainty(times) == pytest.approx(12.706 * 0.5 / 2.5, rel=1e-4)
    assert taken(interval=0.5, most_s=1e-9) == ["turn 1 of 2", "turn 2 of 2"]
    until_known = taken(interval=0.1, most_s=3600.0)
    assert until_known[2] == "one more turn, steps are known to ±254.1%"
    assert torch_compute.uncertainty(times) <= 0.1
    for pieces in times.values():
        pieces.pop()
    assert torch_compute.uncertainty(times) > 0.1


@pytest.mark.cluster
def test_passes_and_gradients_of_a_real_network(tmp_path: Path) -> None:
    of = RequestedScenarios(own=(scenario(node_group("worker", "emu.avx2.1c", 1)),))
    sizes = latency.sample_points(6)
    quick: dict[str, Any] = {"trials": 3, "watched_trials": 2}
    (result,) = measured("torch_compute", tmp_path, of, batch_sizes=sizes, **quick)
    assert result.scenario is not None
    assert result.scenario.workload.batch_size == 6
    run_id = pl.lit("run").alias("run_id")
    landed = {name: table.with_columns(run_id) for name, table in result.tables.items()}
    trials = dict(landed["compute"].group_by("batch_size").len().rows())
    assert trials.keys() == {1, 2, 4, 6}
    assert all(PIECE_STEPS <= count <= MOST_STEPS for count in trials.values())
    assert landed["layer"]["type"].to_list() == LAYERS
    fitted = latency.fit_gradients(landed["layer"], landed["layer_time"])
    assert fitted.probability == (1.0,) * len(LAYERS)
    assert list(fitted.ready) == sorted(fitted.ready, reverse=True)
    assert latency.fit(landed["compute"]).forward(3) > 0


@pytest.mark.cluster
def test_the_memory_of_a_node_limits_the_batch(tmp_path: Path) -> None:
    kind = node_group("worker", "emu.avx2.1c", 1)
    small = kind.model_copy(update={"memory_bytes": 448 * MIB})
    # Few parameters and large maps: it is the batch that needs memory.
    of = RequestedScenarios(own=(scenario(small, image_size=224, dnn="squeezenet"),))
    (result,) = measured("torch_memory", tmp_path, of)
    # The output of the first convolution is kept for the backward pass.
    kept_bytes = 64 * 111 * 111 * 4
    assert 1 <= samples(result)["largest_batch_size"] < 448 * MIB / kept_bytes < 256


def test_passes_of_one_device_alone_by_its_recipe(
    alone: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_compute, "PIECE_S", 0.0)
    of = RequestedScenarios(own=(single(node_group("worker", "emu.native.c25", 1)),))
    quick: dict[str, Any] = {"batch_sizes": [1, 2], "trials": 3, "watched_trials": 2}
    (result,) = measured("torch_compute", tmp_path, of, "loopback", **quick)
    compute = result.tables["compute"]
    assert compute["batch_size"].unique().sort().to_list() == [1, 2]
    assert compute.select(pl.min_horizontal("forward_s", "backward_s", "update_s").min()).item() > 0
    ready = result.tables["layer_time"]["gradient_ready"].to_list()
    assert 0 < min(ready) <= max(ready) <= 1
    assert result.tables["layer"]["type"].to_list() == LAYERS
