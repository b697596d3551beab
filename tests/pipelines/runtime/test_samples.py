"""Samples: once each in every epoch, and what of their logs counts."""

from collections import Counter
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.runtime.checkpoints import (
    SampleRecord,
    consumed_samples,
    draw_samples,
    is_log,
    open_sample_log,
    read_sample_logs,
    share,
)


@given(st.integers(1, 30), st.integers(0, 5), st.integers(1, 40), st.integers(1, 12))
def test_every_epoch_has_every_sample_once(samples: int, seed: int, batch: int, steps: int) -> None:
    stream = list(
        chain.from_iterable(draw_samples(samples, seed, i * batch, batch) for i in range(steps))
    )
    assert len(stream) == batch * steps
    for start in range(0, len(stream) - samples + 1, samples):
        assert Counter(stream[start : start + samples]) == Counter(range(samples))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 50))
def test_shares_divide_the_batch_however_it_is_divided(batches: list[int], start: int) -> None:
    parts = [share(batches, rank) for rank in range(len(batches))]
    together = [
        sample for place, count in parts for sample in draw_samples(17, 3, start + place, count)
    ]
    assert together == draw_samples(17, 3, start, sum(batches))


def test_epochs_and_seeds_differ() -> None:
    first, second = draw_samples(100, 0, 0, 100), draw_samples(100, 0, 100, 100)
    assert first != second
    assert first != draw_samples(100, 1, 0, 100)


def test_a_log_is_read_as_it_was_written_but_for_half_a_line(tmp_path: Path) -> None:
    with open_sample_log(tmp_path, 2, 1) as took:
        took(7, [4, 5])
    with (tmp_path / "samples-000002-000001.jsonl").open("a") as file:
        file.write("[8, [1, ")
    assert read_sample_logs(tmp_path) == [
        SampleRecord(incarnation=2, rank=1, step=7, indices=(4, 5))
    ]


def test_what_was_trained_after_the_checkpoint_does_not_count() -> None:
    def row(incarnation: int, rank: int, step: int, *indices: int) -> SampleRecord:
        return SampleRecord(incarnation=incarnation, rank=rank, step=step, indices=indices)

    rows = [
        row(1, 0, 0, 1), row(1, 1, 0, 2), row(1, 0, 1, 3), row(1, 1, 1, 4), row(1, 0, 2, 5),
        row(2, 1, 1, 4), row(2, 0, 1, 3), row(2, 0, 2, 5), row(2, 1, 2, 6),
    ]  # fmt: skip
    assert consumed_samples(rows) == {0: [1, 2], 1: [3, 4], 2: [5, 6]}
    # One that goes on too early would take samples again.
    assert consumed_samples([*rows, row(3, 0, 0, 9)]) == {0: [9]}


@pytest.mark.parametrize(
    "name",
    [
        "samples-1-/../../x.jsonl",
        "samples-../a-b.jsonl",
        "samples-000001-000000.jsonl\n",
        "x.jsonl",
    ],
)
def test_only_logs_of_ranks_are_fetched_from_nodes(name: str) -> None:
    """Nodes say what their files are called."""
    assert is_log("samples-000001-000000.jsonl")
    assert not is_log(name)
