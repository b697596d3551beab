"""Srift as published: four batch sizes of those profiled, one scale, nothing of ours."""

import polars as pl
import pytest

from models.srift import system
from models.srift.parameters import PAPER
from models.srift.predictor import Srift
from models.srift.system import SRIFT, SRIFT_PAPER, select_published_batches
from tests.models.srift.study import group, scenario, tables
from warehouse.requirements import Refusal


def batch_sizes(*profiled: int) -> list[int]:
    rows = pl.DataFrame({"run_id": ["one"] * len(profiled), "batch_size": profiled})
    return select_published_batches(rows)["batch_size"].to_list()


@pytest.mark.parametrize(
    ("there", "sampled"),
    [
        ([1, 8, 16, 24], [1, 8, 16, 24]),
        ([1, 2, 6, 10, 14, 18, 22, 24], [1, 6, 14, 24]),
        ([1, 12], [1, 12]),
        ([6, 12, 18], [6, 12, 18]),
    ],
)
def test_of_what_was_profiled_the_nearest_to_the_paper_s_four_count(
    there: list[int], sampled: list[int]
) -> None:
    """Of 24: 1, 8, 16 and 24 (section 4.1); of two that are as near the smaller."""
    assert batch_sizes(*there) == sampled


def test_it_asks_for_neither_slowdown_nor_training_and_for_nothing_that_srift_does_not() -> None:
    two_nodes = scenario(group("fast", 2))
    needs, published = SRIFT.requires(two_nodes), SRIFT_PAPER.requires(two_nodes)
    assert not isinstance(needs, Refusal) and not isinstance(published, Refusal)
    assert {need.probe for need in set(needs) - set(published)} == {"slowdown", "torch_throughput"}
    assert set(published) < set(needs)


def test_it_keeps_the_paper_s_settings_and_one_scale_for_all_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A line in place of trees is fitted at once; `tests/models/test_systems.py` fits trees."""
    quick = PAPER.model_copy(update={"bandwidth": "alpha_beta"})
    monkeypatch.setattr(system, "PAPER", quick)
    model = SRIFT_PAPER.fit(tables())
    assert isinstance(model, Srift)
    assert model.parameters.settings == quick
    for network in model.parameters.networks:
        for node in network.nodes.values():
            assert node.latency.deviation is None
