"""JSON read member by member gives what json.loads gives, whatever the chunks."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profilers.readers import json_stream
from warehouse.records import BadInput

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=st.dictionaries(st.text().filter(lambda key: key != "events"), JSON, max_size=3),
    events=st.lists(JSON, max_size=5),
    chunk=st.integers(1, 20),
    indent=st.none() | st.integers(0, 2),
)
def test_any_object(
    tmp_path: Path, before: dict[str, Any], events: list[Any], chunk: int, indent: int | None
) -> None:
    file = tmp_path / "whole.json"
    file.write_text(json.dumps({**before, "events": events, "last": 12}, indent=indent))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "CHUNK", chunk)
        found = list(json_stream.members(file, "events"))
    assert [value for key, value in found if key == "events"] == events
    assert {key: value for key, value in found if key != "events"} == {**before, "last": 12}


def test_an_array_counts_as_the_member(tmp_path: Path) -> None:
    file = tmp_path / "events.json.gz"
    file.write_bytes(gzip.compress(b" [1, {}]"))
    assert list(json_stream.members(file, "events")) == [("events", 1), ("events", {})]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("{\n\n", 3),
        ('{"a": 1\n "b"', 2),
        ('{"events": [1,\n2,\nx]}', 3),
        ('{"events": [', 1),
    ],
)
def test_broken_json_names_the_line(tmp_path: Path, text: str, line: int) -> None:
    file = tmp_path / "broken.json"
    file.write_text(text)
    with pytest.raises(BadInput, match=rf"broken\.json line {line}: not JSON"):
        list(json_stream.members(file, "events"))


def test_broken_gzip_is_told(tmp_path: Path) -> None:
    file = tmp_path / "cut.json.gz"
    file.write_bytes(gzip.compress(json.dumps(list(range(9999))).encode())[:-500])
    with pytest.raises(BadInput, match=r"cut\.json\.gz: broken gzip"):
        list(json_stream.members(file, "events"))


def test_a_value_without_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "CHUNK", 10)
    monkeypatch.setattr(json_stream, "LARGEST", 50)
    file = tmp_path / "endless.json"
    file.write_text('{"a": "' + "x" * 500)
    with pytest.raises(BadInput, match=r"endless\.json line 1: not JSON"):
        list(json_stream.members(file, "events"))
