"""Forecasts that are published before they are judged."""

import os
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from tests.warehouse.conftest import Built, Maker, at, fill_fitted
from warehouse import limits
from warehouse.chain import head
from warehouse.connection import connect
from warehouse.records import BadInput
from warehouse.sql import read_only


def fill_forecast(make: Maker) -> None:
    fill_fitted(make)
    make.forecast({2: 2.0, 3: 3.0})


@pytest.fixture
def forecast(built: Built, fresh: Maker) -> Maker:
    """Return a maker with forecasts of two and three workers, of which nothing is measured."""
    return built(fill_forecast, fresh.home)


def seal(make: Maker, folder: Path, minute: int = 4) -> tuple[Path, int]:
    subjects = [make.scenario(workers) for workers in (2, 3, 4)]
    return make.warehouse.seal("demo", 1, subjects, folder, at(minute))


def test_a_sealed_file_has_forecasts_words_and_the_head_of_the_chain(
    forecast: Maker, tmp_path: Path
) -> None:
    path, count = seal(forecast, tmp_path / "forecasts")
    rows = pl.read_parquet(path).sort("value")
    assert (path.name, count) == ("demo.1.parquet", 2)
    assert rows["value"].to_list() == [2.0, 3.0]
    assert rows["label"].to_list() == [forecast.scenario(workers).label for workers in (2, 3)]
    assert rows["canonical"].to_list() == [
        forecast.scenario(workers).canonical_json() for workers in (2, 3)
    ]
    with connect(forecast.home / "warehouse.duckdb") as connection:
        sequence, sha256 = head(connection)
    assert set(rows["chain_sequence"]) == {sequence}
    assert set(rows["chain_sha256"]) == {sha256}


def test_it_is_judged_as_it_was_published_by_runs_that_began_later(
    forecast: Maker, tmp_path: Path
) -> None:
    seal(forecast, tmp_path, minute=4)
    forecast.measure("m2", forecast.scenario(2), [2.4, 2.6], minute=6)
    forecast.measure("early", forecast.scenario(3), [2.0], minute=2)
    forecast.warehouse.load()
    assert forecast.warehouse.load_sealed(tmp_path) == 2
    assert forecast.warehouse.load_sealed(tmp_path) == 0
    (row,) = read_only(forecast.home, "SELECT * FROM report.sealed_accuracy").to_dicts()
    assert (row["predicted"], row["measured"], row["runs"]) == (2.0, 2.5, 1)
    assert row["error_percent"] == pytest.approx(-20)
    (board,) = forecast.warehouse.query("sealed", study="demo").to_dicts()
    assert (board["n"], board["mape"]) == (1, pytest.approx(20))
    assert forecast.warehouse.query("sealed", study="other").is_empty()


def test_what_was_measured_while_the_host_was_busy_counts_in_no_mean(
    forecast: Maker, tmp_path: Path
) -> None:
    """One of two scenarios was measured twice, once while the host was busy."""
    seal(forecast, tmp_path, minute=4)
    forecast.measure("m2", forecast.scenario(2), [2.4, 2.6], minute=6, idle=0.9)
    forecast.measure("m3", forecast.scenario(3), [2.0], minute=7, idle=0.9)
    forecast.measure("busy", forecast.scenario(3), [1.0], minute=8, idle=0.1)
    forecast.warehouse.load()
    forecast.warehouse.load_sealed(tmp_path)
    rows = forecast.warehouse.query("published", study="demo")
    assert dict(rows.select("predicted", "host_busy").iter_rows()) == {2.0: False, 3.0: True}
    (board,) = forecast.warehouse.query("sealed", study="demo").to_dicts()
    assert (board["n"], board["mape"]) == (1, pytest.approx(20))


@pytest.mark.parametrize("dropped", [["fit_id"], ["run_ids"], ["run_ids", "fit_id"]])
def test_how_far_it_was_does_not_depend_on_the_fit_being_there(
    forecast: Maker, tmp_path: Path, dropped: list[str]
) -> None:
    """One worker was profiled; a fit that nobody has is known by the runs that the file names."""
    path, _ = seal(forecast, tmp_path, minute=4)
    rows = pl.read_parquet(path)
    if "fit_id" in dropped:
        rows = rows.with_columns(fit_id=pl.lit("unknown"))
    if "run_ids" in dropped:
        rows = rows.drop("run_ids")
    rows.write_parquet(path)
    forecast.measure("m2", forecast.scenario(2), [2.4, 2.6], minute=6)
    forecast.warehouse.load()
    assert forecast.warehouse.load_sealed(tmp_path) == 2
    (row,) = read_only(forecast.home, "SELECT split FROM report.sealed_accuracy").to_dicts()
    expected = None if len(dropped) == 2 else "held_out_world_size"
    assert row["split"] == expected


def test_what_is_measured_or_sealed_already_is_not_sealed(forecast: Maker, tmp_path: Path) -> None:
    seal(forecast, tmp_path)
    with pytest.raises(BadInput, match="is there already: forecasts are sealed once"):
        seal(forecast, tmp_path)
    forecast.measure("m2", forecast.scenario(2), [2.4, 2.6], minute=6)
    forecast.warehouse.load()
    with pytest.raises(BadInput, match="1 scenarios of round 1 of study demo are measured"):
        seal(forecast, tmp_path / "other")
    with pytest.raises(BadInput, match="no forecast of round 2 of study demo"):
        forecast.warehouse.seal("demo", 2, [forecast.scenario(2)], tmp_path, at(4))


def test_other_files_are_refused_by_name(forecast: Maker, tmp_path: Path) -> None:
    pl.DataFrame({"prediction_id": ["a"]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(BadInput, match=r"a\.parquet: its columns are not those"):
        forecast.warehouse.load_sealed(tmp_path)
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(BadInput, match=r"a\.parquet: no Parquet file that can be read"):
        forecast.warehouse.load_sealed(tmp_path)
    assert forecast.warehouse.load_sealed(tmp_path / "nowhere") == 0


def long_words(rows: pl.DataFrame) -> pl.DataFrame:
    """Few kilobytes of Parquet that would be 300 MB of text."""
    return pl.concat([rows[:1]] * 900).with_columns(label=pl.lit("x" * 330_000))


def with_columns(**columns: object) -> Callable[[pl.DataFrame], pl.DataFrame]:
    return lambda rows: rows.with_columns(**columns)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (long_words, r"texts of more than 256 MiB in 122,880 rows"),
        (with_columns(run_ids=pl.lit(["p1"] * 6_000)), r"lists of more than 10,000 values in a r"),
        (lambda rows: pl.concat([rows[:1]] * 10_001), r"10,001 rows, more than 10,000"),
        (with_columns(value=pl.lit(float("nan"))), r"row 1 \(.*\): value is nan, expected a fi"),
        (with_columns(low=pl.Series([1.0, -float("inf")])), r"row 2 \(.*\): low is -inf, expected"),
        (with_columns(value=pl.lit(None, pl.Float64)), r"row 1 .* a value, or both ends of an int"),
        (with_columns(scenario_id=pl.lit("0" * 16)), r"row 1 .* expected the hash of canonical"),
    ],
)
def test_what_is_no_forecast_is_refused_before_it_takes_memory(
    forecast: Maker,
    tmp_path: Path,
    spoil: Callable[[pl.DataFrame], pl.DataFrame],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (limits.EVENTS, limits.SEALED_ROWS) == (10_000_000, 100_000)
    monkeypatch.setattr(limits, "EVENTS", 10_000)
    monkeypatch.setattr(limits, "SEALED_ROWS", 10_000)
    path, _ = seal(forecast, tmp_path)
    rows = pl.read_parquet(path).with_columns(low=pl.lit(None, pl.Float64))
    pq.write_table(spoil(rows).to_arrow(), path, row_group_size=1 << 20)
    with pytest.raises(BadInput, match=expected) as caught:
        forecast.warehouse.load_sealed(tmp_path)
    assert "\n" not in str(caught.value)
    assert read_only(forecast.home, "FROM pred.sealed").is_empty()


@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "link to the folder"])
def test_sealed_forecasts_are_plain_files(forecast: Maker, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "forecasts"
    path, _ = seal(forecast, folder)
    other = folder / "z.1.parquet"
    if kind == "pipe":
        os.mkfifo(other)
    elif kind == "link":
        other.symlink_to(path)
    elif kind == "folder":
        other.mkdir()
    else:
        folder = tmp_path / "linked"
        folder.symlink_to(path.parent)
    with pytest.raises(BadInput, match=r"(is a symbolic link|is no file); "):
        forecast.warehouse.load_sealed(folder)
