"""Which runs a selector means, and what is said where it means none."""

from datetime import UTC, datetime

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.cli.compare import select_both, select_side
from warehouse.records import BadInput

COLUMNS = ["run_id", "study", "repeat", "started_at", "node_type", "code_version", "software"]
RUNS = pl.DataFrame(
    [
        ("a", "demo", 1, datetime(2026, 9, 30, 23, 59, 59, tzinfo=UTC), "x", None, "2.9.1"),
        ("b", "demo", 2, datetime(2026, 10, 1, tzinfo=UTC), "y", "v1", "2.9"),
        ("c", "demo", 3, datetime(2026, 12, 31, 23, tzinfo=UTC), "x", "v2", "2.90.0"),
        ("d", "fleet/x", 1, datetime(2027, 1, 1, tzinfo=UTC), None, "v2", "2.10+cpu"),
    ],
    schema=COLUMNS,
    orient="row",
)
RUNS = RUNS.with_columns(
    software=pl.concat_str(pl.lit('{"torch": "'), "software", pl.lit('", "python": "3.11"}'))
)


@pytest.mark.parametrize(
    ("text", "run_ids"),
    [
        ("round:demo", "abc"),
        ("round:demo/2", "b"),
        ("round:demo/2..3", "bc"),
        ("round:fleet/x", "d"),
        ("round:fleet/x/1", "d"),
        ("date:2026", "abc"),
        ("date:2026-10", "b"),
        ("date:2026-12", "c"),
        ("date:2026-09-30", "a"),
        ("date:2026-09-30..2026-10-01", "ab"),
        ("date:2026-10..", "bcd"),
        ("date:..2026-10", "ab"),
        ("type:x", "ac"),
        ("software:torch=2.9", "ab"),
        ("software:torch=2.10", "d"),
        ("code:v2", "cd"),
        ("type:x,date:2026-12", "c"),
        ("round:demo/1..2, code:v1", "b"),
    ],
)
def test_a_selector_means_runs(text: str, run_ids: str) -> None:
    assert "".join(select_side(text, RUNS).run_ids) == run_ids


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("demo", "'demo' selects nothing; write round:STUDY"),
        ("round:", "'round:' selects nothing"),
        ("study:demo", "join several by commas"),
        ("round:demo/7", "the newest round of each study is demo/3, fleet/x/1"),
        ("date:2025", "the runs are from 2026-09-30 to 2027-01-01"),
        ("date:yesterday", "'yesterday' is no date"),
        ("date:2026-02-30", "there is no date 2026-02-30: day"),
        ("date:0000", "there is no date 0000"),
        ("date:9999", "there is no date 9999"),
        ("type:z", "the types are x, y"),
        ("software:torch", "expected software:NAME=VERSION"),
        ("software:torch=3", "there is python=3.11, torch=2.10+cpu"),
        ("code:v3", "the versions are v1, v2"),
        (
            "round:demo/1,code:v1",
            "of what the parts before it select; the runs tell of no versions",
        ),
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
    assert (base.run_ids, other.run_ids) == (["a", "c"], ["b"])
    assert base.kinds == other.kinds == {"type"}


@given(st.text(max_size=40) | st.from_regex(r"(round|date|software):[-./=0-9a-z]{1,12}"))
def test_any_text_means_runs_or_is_refused(text: str) -> None:
    try:
        assert select_side(text, RUNS).run_ids
    except BadInput as refused:
        assert ("\n" not in text and len(str(refused)) > 20) or "\n" in text
