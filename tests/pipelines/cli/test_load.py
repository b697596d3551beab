"""`stepcast load`: landed runs come into the warehouse, broken ones are set aside."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profilers.steady.host import host_id
from studies.study import read_study
from tests.synthetic import PaperProbes, opened, profiled
from warehouse.warehouse import read_only


@pytest.fixture
def landing(tmp_path: Path, study_file: Path, probes: PaperProbes) -> Path:
    """Return another machine's landing folder, with three runs."""
    folder = tmp_path / "elsewhere"
    found = opened(read_study(study_file), "loopback", host_id(), [])
    profiled(found, folder)
    return folder


PUBLIC = Path(__file__).parents[3] / "data" / "public"


def loaded(home: Path) -> int:
    return int(read_only(home, "SELECT count(*) AS runs FROM raw.run")["runs"][0])


def test_runs_of_another_machine_are_copied_and_loaded_once(
    stepcast: Callable[..., Any], home: Path, landing: Path
) -> None:
    first = stepcast("load", str(landing))
    assert (first.code, first.out) == (
        0,
        f"copied 3 runs from {landing}\nloaded 3 runs, 0 were there already\n",
    )
    second = stepcast("load", str(landing))
    assert second.out == f"copied 0 runs from {landing}\nloaded 0 runs, 3 were there already\n"
    assert loaded(home) == 3
    assert len(list(landing.iterdir())) == 3


def test_without_a_folder_what_has_landed_here_is_loaded(
    stepcast: Callable[..., Any], home: Path
) -> None:
    assert stepcast("load").out == "loaded 0 runs, 0 were there already\n"


def test_a_broken_run_is_set_aside_and_the_others_load(
    stepcast: Callable[..., Any], home: Path, landing: Path
) -> None:
    import polars as pl

    (broken,) = landing.glob("*-links-*")
    pl.read_parquet(broken / "link.parquet").drop("bytes").write_parquet(broken / "link.parquet")
    answer = stepcast("load", str(landing))
    assert answer.code == 2
    (line,) = answer.err.splitlines()
    assert line.startswith(
        f"stepcast: {broken.name} was set aside: link.parquet: missing columns bytes"
    )
    assert line.endswith(
        f"see {home}/landing/quarantine; to try one again, move its folder back to landing/ "
        "and run `stepcast load`"
    )
    assert loaded(home) == 2


def test_a_run_with_a_symbolic_link_is_not_copied_and_the_others_are(
    stepcast: Callable[..., Any], home: Path, landing: Path
) -> None:
    (bad,) = landing.glob("*-links-*")
    (bad / "edge.parquet").symlink_to("/etc/passwd")
    answer = stepcast("load", str(landing))
    assert answer.code == 2
    assert answer.out == f"copied 2 runs from {landing}\nloaded 2 runs, 0 were there already\n"
    assert answer.err.startswith(f"stepcast: run {bad.name} was not copied: edge.parquet is a symb")
    assert not (home / "landing" / bad.name).exists()


def test_a_folder_that_is_not_there_is_told(stepcast: Callable[..., Any], home: Path) -> None:
    answer = stepcast("load", "/nowhere/at/all")
    assert answer.code == 2
    assert "/nowhere/at/all is not a folder" in answer.err


def test_runs_meet_at_a_prefix(
    stepcast: Callable[..., Any],
    home: Path,
    landing: Path,
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    landing.rename(site / "landing")
    with monkeypatch.context() as there:
        there.setenv("STEPCAST_HOME", str(site))
        assert stepcast("push", place).out == f"pushed 3 runs to {place}, 0 were there already\n"
        there.setenv("STEPCAST_PREFIX", place)
        assert stepcast("push").out == f"pushed 0 runs to {place}, 3 were there already\n"
    answer = stepcast("load", place)
    assert (answer.code, answer.out) == (
        0,
        f"copied 3 runs from {place}\nloaded 3 runs, 0 were there already\n",
    )
    assert loaded(home) == 3


def test_a_bad_run_is_fetched_once(stepcast: Callable[..., Any], home: Path, landing: Path) -> None:
    (bad,) = landing.glob("*-links-*")
    (bad / "run.parquet").unlink()
    first = stepcast("load", str(landing))
    assert first.code == 2
    assert first.out == f"copied 3 runs from {landing}\nloaded 2 runs, 0 were there already\n"
    assert stepcast("load", str(landing)).out == (
        f"copied 0 runs from {landing}\n"
        f"set aside before and not changed since: 1, first {bad.name}\n"
        "loaded 0 runs, 2 were there already\n"
    )


def test_a_site_is_told_of_what_it_cannot_push(
    stepcast: Callable[..., Any], home: Path, landing: Path, tmp_path: Path
) -> None:
    landing.rename(home / "landing")
    (bad,) = (home / "landing").glob("*-links-*")
    (bad / "link.parquet").write_bytes(b"PAR1")
    place = tmp_path / "prefix"
    place.mkdir()
    answer = stepcast("push", str(place))
    assert (answer.code, answer.out) == (2, f"pushed 2 runs to {place}, 0 were there already\n")
    assert answer.err.startswith(f"stepcast: run {bad.name} was not pushed: link.parquet is not ")


def test_push_needs_a_place(
    stepcast: Callable[..., Any], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STEPCAST_PREFIX", raising=False)
    answer = stepcast("push")
    assert answer.code == 2
    assert "no place to push to; name a folder or s3://bucket/name, or set STEPCAST" in answer.err
    assert stepcast("push", "ftp://x").code == 2


def test_public_measurements_load_with_their_sources(
    stepcast: Callable[..., Any], home: Path
) -> None:
    answer = stepcast("load", str(PUBLIC))
    assert (answer.code, answer.err) == (0, "")
    runs = len([one for folder in PUBLIC.iterdir() for one in folder.glob("*.yaml")])
    assert answer.out.splitlines()[0] == f"copied {runs} runs from {PUBLIC}"
    assert stepcast("load", str(PUBLIC)).out.startswith("copied 0 runs")
    found = read_only(home, "SELECT * FROM raw.run JOIN raw.source USING (run_id)").to_dicts()
    assert len(found) == runs
    notice = " ".join((PUBLIC.parents[1] / "NOTICE").read_text().split())
    for one in found:
        assert (one["backend"], one["purpose"]) == ("imported", "profile")
        assert one["licence"] and json.loads(one["config"])["hardware"]
        assert json.loads(one["config"])["step"]
        assert one["source"].split(" (")[0].split(", ")[0] in notice
    assert sum(file.stat().st_size for file in PUBLIC.rglob("*.*")) < 10e6
