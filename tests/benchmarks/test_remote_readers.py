"""Readers and loaders of one history that are killed: what is counted, not how fast that was."""

import importlib.util

import pytest

from benchmarks import postgres
from benchmarks.remote_readers import Size, WayFigures, measure


def report(way: str, size: Size) -> WayFigures:
    (figures,) = measure([way], size).ways
    assert figures.answers > 0
    assert figures.acknowledged > 0
    return figures


@pytest.mark.usefixtures("home")
def test_copies_lose_and_double_nothing_and_show_no_run_in_part() -> None:
    size = Size(runs=2, readers=1, loaders=1, seconds=3, between_kills_s=1)
    figures = report("copies", size)
    assert sum(figures.kills.values()) >= 1
    assert (figures.lost, figures.doubled, figures.partial) == (0, 0, 0)


@pytest.mark.exhaustive
@pytest.mark.services
@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("way", ["parquet", "ducklake", "quack"])
def test_other_ways_show_no_run_in_part_and_lose_none(way: str) -> None:
    if way != "parquet":
        extension = importlib.util.find_spec(f"duckdb_extension_{way}")
        if extension is None or postgres.programs() is None:
            pytest.skip("pip install -e '.[readers]'; apt-get install postgresql")
    figures = report(way, Size(runs=10, readers=3, loaders=2, seconds=10))
    assert figures.kills.keys() >= {"loader", "reader"}
    assert (figures.lost, figures.partial) == (0, 0)
