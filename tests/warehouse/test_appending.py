"""Files that are appended to: whatever a full disk leaves, what is whole is read."""

import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.runtime import job_store
from pipelines.runtime.job_store import EventLogEntry
from tests.warehouse.conftest import limited
from warehouse.durable_files import Appender

_texts = st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(
    ['{"at_s":', '\\{"at_s":1.5', "}", '"]}', "[8, [1"]
)
_entries = st.builds(
    EventLogEntry,
    at_s=st.floats(0, 1e9),
    event=_texts,
    node=st.none() | _texts,
    step=st.none() | st.integers(0, 10**9),
    detail=st.dictionaries(_texts, st.none() | _texts | st.lists(st.integers()), max_size=3),
)


@given(st.lists(st.tuples(_entries, st.none() | st.floats(0, 1, exclude_max=True)), max_size=6))
def test_a_story_is_read_but_for_what_is_torn(
    tmp_path_factory: pytest.TempPathFactory, records: list[tuple[EventLogEntry, float | None]]
) -> None:
    """Each record is whole, with its end or not, or torn anywhere, the next one right behind it."""
    file = tmp_path_factory.mktemp("story") / "story.jsonl"
    content, expected = b"", []
    for entry, torn_at in records:
        line = f"{entry.model_dump_json()}\n".encode()
        cut = len(line) if torn_at is None else int(torn_at * len(line))
        content += line[:cut]
        # All but the line's end is there: that is a whole record.
        expected += [entry] if cut >= len(line) - 1 else []
    file.write_bytes(content)
    assert job_store.read(file) == expected


def test_nothing_is_left_of_what_did_not_fit(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    with Appender(file) as lines:
        lines.append(["one"])
        with limited(9), pytest.raises(OSError, match="File too large") as caught:
            lines.append(["two", "three"])
        assert caught.value.errno == errno.EFBIG
        assert file.read_bytes() == b"one\n"
        lines.append(["four"])
    assert file.read_bytes() == b"one\nfour\n"


def test_half_a_line_is_ended_before_the_next(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"one\ntw")
    with Appender(file) as lines:
        lines.append(["three"])
    assert file.read_bytes() == b"one\ntw\nthree\n"
