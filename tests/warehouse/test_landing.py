from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pyarrow.parquet as pq
import pytest

from warehouse import landing
from warehouse.landing import SCHEMAS, land, landed_runs
from warehouse.records import BadInput, StepcastError

if TYPE_CHECKING:
    from tests.warehouse.conftest import Maker

EDGES = pl.DataFrame({"source": [0, 1], "target": [1, 2]})


def test_a_landed_run_has_run_id_first_and_narrow_types(make: "Maker") -> None:
    scenario = make.scenario()
    folder = make.land(make.run("r1", scenario, "profile"), scenario, {"edge": EDGES})
    table = pq.read_table(folder / "edge.parquet")
    assert table.schema.equals(SCHEMAS["edge"])
    assert table.to_pylist()[0] == {"run_id": "r1", "source": 0, "target": 1}
    assert sorted(path.name for path in folder.iterdir()) == [
        "SHA256SUMS",
        "edge.parquet",
        "run.parquet",
        "scenario.parquet",
    ]


def test_landed_runs_come_back_as_they_were(make: "Maker") -> None:
    scenario = make.scenario()
    runs = [make.run("r1", scenario, "profile"), make.run("r2", None, "profile", repeat=2)]
    make.land(runs[0], scenario)
    make.land(runs[1], None)
    assert landed_runs(make.home / "landing") == runs


def test_unreadable_runs_are_left_to_the_loader(make: "Maker") -> None:
    run = make.run("r1", None, "profile")
    make.land(run, None)
    (make.land(make.run("r2", None, "profile"), None) / "run.parquet").write_bytes(b"PAR1 no")
    (make.home / "landing" / "r3").mkdir()
    assert landed_runs(make.home / "landing") == [run]


def test_a_run_lands_once(make: "Maker") -> None:
    run = make.run("r1", None, "profile")
    make.land(run, None)
    with pytest.raises(BadInput, match="r1 has landed before"):
        make.land(run, None)
    assert landed_runs(make.home / "landing") == [run]


def test_a_run_that_lands_meanwhile_is_not_overwritten(
    make: "Maker", monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (make.run("r1", None, "profile", repeat=repeat) for repeat in (1, 2))
    write = landing._write  # noqa: SLF001

    def slow_write(folder: Path, *rest: dict[str, Path]) -> None:
        write(folder, *rest)
        monkeypatch.setattr(landing, "_write", write)
        make.land(first, None)

    monkeypatch.setattr(landing, "_write", slow_write)
    with pytest.raises(BadInput, match="r1 has landed before"):
        make.land(second, None)
    assert landed_runs(make.home / "landing") == [first]


def test_a_failed_landing_leaves_nothing(make: "Maker", tmp_path: Path) -> None:
    run = make.run("r1", None, "profile")
    with pytest.raises(StepcastError, match=r"run r1 did not land in .*absent.pb"):
        land(make.home / "landing", run, None, {}, {"trace.pb": tmp_path / "absent.pb"})
    assert list((make.home / "landing").iterdir()) == []


def test_artefacts_are_copied_beside_the_tables(make: "Maker", tmp_path: Path) -> None:
    (tmp_path / "source.pb").write_bytes(b"bytes")
    run = make.run("r1", None, "profile")
    folder = land(make.home / "landing", run, None, {}, {"trace.pb": tmp_path / "source.pb"})
    assert (folder / "artefacts" / "trace.pb").read_bytes() == b"bytes"


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"edge": EDGES.drop("target")}, "missing columns target; found run_id, source"),
        ({"edge": EDGES.with_columns(weight=1)}, "no such columns: weight"),
        ({"edge": EDGES.with_columns(target=pl.lit(None))}, "target"),
        ({"edge": EDGES.with_columns(target=pl.lit(2**40))}, "not in range"),
        ({"egde": EDGES}, "no table 'egde'"),
    ],
)
def test_frames_that_do_not_fit_are_refused(
    make: "Maker", tables: dict[str, pl.DataFrame], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        make.land(make.run("r1", None, "profile"), None, tables)
    assert not (make.home / "landing").exists()


@pytest.mark.parametrize("run_id", ["../r1", "a/b", ".tmp-1-x", "quarantine", ""])
def test_run_ids_that_cannot_name_a_folder_are_refused(make: "Maker", run_id: str) -> None:
    with pytest.raises(BadInput, match="cannot name a folder"):
        make.land(make.run(run_id, None, "profile"), None)


def test_artefact_names_stay_inside_the_run(make: "Maker", tmp_path: Path) -> None:
    run = make.run("r1", None, "profile")
    with pytest.raises(BadInput, match="not a plain file name"):
        land(make.home / "landing", run, None, {}, {"../trace.pb": tmp_path})


def test_a_run_and_its_scenario_must_agree(make: "Maker") -> None:
    with pytest.raises(BadInput, match="names scenario"):
        make.land(make.run("r1", make.scenario(1), "profile"), make.scenario(2))
