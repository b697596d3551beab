"""`stepcast compare`, on ten equal rounds that were measured."""

import csv
import io
import json
from pathlib import Path

import polars as pl
import pytest

from pipelines.cli.compare import RunSelection, difference
from tests.pipelines.ran import Stepcast

STEPS = ("--metric", "step_time_s")


@pytest.fixture
def compare(stepcast: Stepcast, repeated: Path, monkeypatch: pytest.MonkeyPatch) -> Stepcast:
    """Return the command on that home."""
    monkeypatch.setenv("STEPCAST_HOME", str(repeated))
    return lambda *arguments: stepcast("compare", *arguments)


def test_rounds_are_compared_figure_by_figure(compare: Stepcast) -> None:
    answer = compare("round:variance/1..5", "round:variance/6..10")
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert lines[0].startswith("base  round:variance/1..5: 15 runs, 2026-11-23 17:5")
    assert lines[1].startswith("other round:variance/6..10: 15 runs, 2026-11-23 18:1")
    steps = [line.split("step_time_s, s")[1].split() for line in lines if "step_time_s, s" in line]
    assert "0.4338 0.4327 −0.3 % 1.1 % (n = 10) 0.2".split() in steps
    assert lines[-1].startswith("More than the noise floor separates 0 of 6 figures,")


def test_node_types_are_compared_in_the_same_configuration(compare: Stepcast) -> None:
    answer = compare("type:emu.avx512.c15", "type:emu.avx512.s15", *STEPS)
    assert answer.code == 0, answer.err
    assert "W=2 (2 nodes)" in answer.out
    assert "More than the noise floor separates 1 of 1 figure, more than" in answer.out


@pytest.mark.parametrize("form", ["csv", "json"])
def test_rows_name_the_newest_run_of_each_side(compare: Stepcast, form: str) -> None:
    answer = compare("round:variance/1", "round:variance/2", *STEPS, "--format", form)
    assert answer.code == 0, answer.err
    rows = (
        json.loads(answer.out) if form == "json" else list(csv.DictReader(io.StringIO(answer.out)))
    )
    assert len(rows) == 2
    for row in rows:
        assert str(row["base_run_id"]).startswith("20261123T17")
        assert row["noise_of"] == "repeats"
        larger = float(row["times_noise"]) > 1
        assert str(row["is_larger"]).lower() == str(larger).lower()


def test_a_table_ends_where_it_was_asked_to(compare: Stepcast) -> None:
    answer = compare("round:variance/1", "round:variance/2", "--most", "1")
    assert answer.out.splitlines()[-1] == "5 more rows: --most 6, or --format csv"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["round:variance/1", "round:variance/11"], "no run is of round:variance/11; the newest"),
        (["round:variance", "date:2026"], "30 runs in common"),
        (["round:variance/1", "round:variance/2", "--metric", "x"], "they have downlink_bandwidth"),
    ],
)
def test_what_cannot_be_compared_is_one_line(
    compare: Stepcast, arguments: list[str], expected: str
) -> None:
    answer = compare(*arguments)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert expected in answer.err


def _side(**columns: str) -> RunSelection:
    about = {"backend": "emulated", "host_id": "h1", "probe": "links", "scenario_id": "s1"}
    return RunSelection("x", frozenset(), pl.DataFrame([{**about, **columns}]))


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"backend": "ssh"}, "the sides are of different backends (emulated; ssh)"),
        ({"host_id": "h2"}, "the sides are of different hosts (h1; h2)"),
        ({"probe": "tf_trace"}, "the sides are of different probes (links; tf_trace)"),
        ({"scenario_id": "s2"}, "the sides have no scenario in common"),
        ({}, "no scenario was measured on both sides with equal settings, backend and host"),
    ],
)
def test_sides_without_a_common_figure_are_told_apart(
    columns: dict[str, str], expected: str
) -> None:
    assert difference([_side(), _side(**columns)]) == expected
