"""Packing adds each run once, whole, and leaves other days as they are."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warehouse import sets as run_sets
from warehouse.landing import land, read_tables
from warehouse.records import BadInput, StepcastError
from warehouse.sets import REPLACED, kept_runs, kept_tables, pack

if TYPE_CHECKING:
    from tests.warehouse.conftest import Maker

NAMES = ["a", "b", "c", "d"]


@pytest.fixture
def landing(make: "Maker") -> Path:
    """Return a landing folder: a and b on one day, c and d on the next; b has an empty table."""
    for number, name in enumerate(NAMES):
        run = make.run(name, None, "profile", minute=12 * 60 * number)
        rows = pl.DataFrame({"source": [3, 1, 2][number:], "target": [number] * (3 - number)})
        tables = {"edge": rows.cast(pl.Int32)}
        if name == "b":
            tables["link"] = pl.DataFrame(
                schema={
                    "direction": pl.String,
                    "flows": pl.Int16,
                    "flow": pl.Int16,
                    "trial": pl.Int16,
                    "seconds": pl.Float64,
                    "bytes": pl.Int64,
                    "bandwidth_Bps": pl.Float64,
                }
            )
        make.land(run, None, tables)
    return make.home / "landing"


def content(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(NAMES), cut=st.integers(0, 4))
def test_in_whichever_order_runs_are_added_the_sets_are_equal(
    landing: Path, tmp_path_factory: pytest.TempPathFactory, order: list[str], cut: int
) -> None:
    folder = tmp_path_factory.mktemp("packed")
    whole, parts = folder / "whole", folder / "parts"
    assert pack(landing, whole, NAMES) == 4
    assert pack(landing, parts, order[:cut]) + pack(landing, parts, order) == 4
    bytes_of = [
        {name: found for name, (found, _) in content(one).items()} for one in (whole, parts)
    ]
    assert bytes_of[0] == bytes_of[1]
    for name in NAMES:
        assert kept_tables(parts, name) == read_tables(landing / name)


def test_what_is_there_is_left_alone(landing: Path, tmp_path: Path) -> None:
    sets = tmp_path / "sets"
    assert pack(landing, sets, ["a", "c"]) == 2
    before = content(sets)
    assert pack(landing, sets, ["a", "c"]) == 0
    assert content(sets) == before
    assert pack(landing, sets, NAMES[:3]) == 1
    after = content(sets)
    assert all(after[name] == before[name] for name in before if name.startswith("2030-01-02"))
    assert after["2030-01-01/edge.parquet"] != before["2030-01-01/edge.parquet"]


def test_artefacts_are_refused_or_left_out(make: "Maker", tmp_path: Path) -> None:
    trace = tmp_path / "trace.pb"
    trace.write_bytes(b"bytes")
    landing = make.home / "landing"
    land(landing, make.run("r1", None, "profile"), None, {}, {"trace.pb": trace})
    with pytest.raises(BadInput, match="run r1 was not packed: it has raw artefacts"):
        pack(landing, tmp_path / "sets", ["r1"])
    assert pack(landing, tmp_path / "sets", ["r1"], artefacts=False) == 1
    assert kept_tables(tmp_path / "sets", "r1").keys() == {"run"}


def test_a_run_that_is_not_as_it_landed_is_refused(landing: Path, tmp_path: Path) -> None:
    file = landing / "b" / "edge.parquet"
    file.write_bytes((landing / "a" / "edge.parquet").read_bytes())
    with pytest.raises(BadInput, match=r"run b was not packed: .* holds rows of other"):
        pack(landing, tmp_path / "sets", NAMES)
    assert not list((tmp_path / "sets").iterdir())


def test_landed_runs_and_sets_do_not_mix(landing: Path) -> None:
    with pytest.raises(BadInput, match=r"holds landed runs \(a\), not sets"):
        pack(landing, landing, ["a"])


def test_a_full_disk_changes_nothing(
    landing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = tmp_path / "sets"
    pack(landing, sets, ["a", "c"])
    before = content(sets)

    def full(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_sets, "seal", full)
    with pytest.raises(StepcastError, match=r"were not packed into .*No space left"):
        pack(landing, sets, NAMES)
    assert content(sets) == before


@pytest.mark.parametrize("moment", [1, 2])
def test_a_writer_that_is_killed_leaves_what_the_next_one_mends(
    landing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """Before the old day went, or between its going and the coming of the new one."""
    sets = tmp_path / "sets"
    pack(landing, sets, ["a"])
    rename, calls = os.rename, iter(range(1, 9))

    def killed(*paths: Any) -> None:
        if next(calls) == moment:
            raise KeyboardInterrupt
        rename(*paths)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            pack(landing, sets, NAMES[:2])
    if moment == 2:
        assert (sets / f"{REPLACED}2030-01-01").exists()
        with pytest.raises(BadInput, match=r"rename \.replaced-2030-01-01 in it to 2030-01-01"):
            kept_runs(sets)
    assert pack(landing, sets, NAMES[:2]) == 1
    assert [run.run_id for run in kept_runs(sets)] == NAMES[:2]
    assert [path.name for path in sets.iterdir()] == ["2030-01-01"]
