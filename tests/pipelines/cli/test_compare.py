"""`stepcast compare`, on ten equal rounds that were measured."""

import csv
import io
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.cli.compare import select_both, select_side
from tests.pipelines.ran import Stepcast
from warehouse.records import BadInput


@pytest.fixture
def compare(stepcast: Stepcast, repeated: Path, monkeypatch: pytest.MonkeyPatch) -> Stepcast:
    """Return the command on that home."""
    monkeypatch.setenv("STEPCAST_HOME", str(repeated))
    return lambda *arguments: stepcast("compare", *arguments)


def test_rounds_are_compared_figure_by_figure(compare: Stepcast) -> None:
    answer = compare("round:variance/1..5", "round:variance/6..10")
    lines = answer.printed.splitlines()
    assert lines[0].startswith("base  round:variance/1..5: 15 runs, 2026-11-23 17:5")
    assert lines[1].startswith("other round:variance/6..10: 15 runs, 2026-11-23 18:1")
    steps = [line.split("step_time_s, s")[1].split() for line in lines if "step_time_s, s" in line]
    assert "0.4338 0.4327 −0.3 % 1.1 % (n = 10)".split() in steps
    assert lines[-1].startswith("More than the noise floor separates 0 of 6 figures,")


def test_node_types_are_compared_in_the_same_configuration(compare: Stepcast) -> None:
    answer = compare("type:emu.avx512.c15", "type:emu.avx512.s15")
    assert "W=2 (2 nodes)" in answer.printed
    assert "step_time_s, s" in answer.printed


@pytest.mark.parametrize("form", ["csv", "json"])
def test_rows_name_the_newest_run_of_each_side(compare: Stepcast, form: str) -> None:
    answer = compare("round:variance/1", "round:variance/2", "--format", form)
    rows = answer.content if form == "json" else list(csv.DictReader(io.StringIO(answer.printed)))
    rows = [row for row in rows if row["metric"] == "step_time_s"]
    assert len(rows) == 2
    for row in rows:
        assert str(row["base_run_id"]).startswith("20261123T17")
        assert row["noise_of"] == "repeats"
        larger = float(row["times_noise"]) > 1
        assert str(row["is_larger"]).lower() == str(larger).lower()


RUNS = pl.DataFrame(
    [
        ("a", "demo", 1, datetime(2026, 9, 30, 23, 59, 59, tzinfo=UTC), "x", None, "2.9.1"),
        ("b", "demo", 2, datetime(2026, 10, 1, tzinfo=UTC), "y", "v1", "2.9"),
        ("c", "demo", 3, datetime(2026, 12, 31, 23, tzinfo=UTC), "x", "v2", "2.90.0"),
        ("d", "fleet/x", 1, datetime(2027, 1, 1, tzinfo=UTC), None, "v2", "2.10+cpu"),
    ],
    schema=["run_id", "study", "repeat", "started_at", "node_type", "code_version", "software"],
    orient="row",
).with_columns(pl.concat_str(pl.lit('{"torch": "'), "software", pl.lit('"}')).alias("software"))


@pytest.mark.parametrize(
    ("text", "run_ids"),
    [
        ("round:demo", "abc"),
        ("round:demo/2..3", "bc"),
        ("round:fleet/x/1", "d"),
        ("date:2026-10", "b"),
        ("date:2026-09-30..2026-10-01", "ab"),
        ("date:2026-10..", "bcd"),
        ("type:x", "ac"),
        ("date:..2026", "abc"),
        ("software:torch=2.9", "ab"),
        ("code:v2", "cd"),
        ("round:demo/1..2, type:y", "b"),
    ],
)
def test_a_selector_means_runs(text: str, run_ids: str) -> None:
    assert "".join(select_side(text, RUNS)["run_id"]) == run_ids


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("demo", "'demo' selects nothing; write round:STUDY"),
        ("round:demo/7", "the newest round of each study is demo/3; fleet/x/1"),
        ("date:2025", "the runs are from 2026-09-30 to 2027-01-01"),
        ("date:May", "is no date; write date:2026"),
        ("software:torch=3", "there is torch=2.10+cpu"),
        ("round:demo/1,type:y", "no run is of type:y too; the types are x"),
    ],
)
def test_what_selects_nothing_is_told_what_there_is(text: str, expected: str) -> None:
    with pytest.raises(BadInput) as refused:
        select_side(text, RUNS)
    assert expected in str(refused.value)


def test_sides_share_no_run_and_both_name_a_type() -> None:
    with pytest.raises(BadInput, match="have 1 runs in common, for example b"):
        select_both("round:demo/2", "date:2026-10", RUNS)
    with pytest.raises(BadInput, match="only one of them names a node type"):
        select_both("type:x", "round:demo/2", RUNS)
    base, other = select_both("type:x", "type:y", RUNS)
    assert ([*base["run_id"]], [*other["run_id"]]) == (["a", "c"], ["b"])


@given(st.text(max_size=40) | st.from_regex(r"(round|date|software):[-./=0-9a-z]{1,12}"))
def test_any_text_means_runs_or_is_refused(text: str) -> None:
    try:
        assert select_side(text, RUNS).height
    except BadInput as refused:
        assert ("\n" not in text and len(str(refused)) > 20) or "\n" in text
