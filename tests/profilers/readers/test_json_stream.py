"""JSON read member by member gives what json.loads gives, whatever the chunks."""

import gzip
import json
import re
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profilers.readers import json_stream
from profilers.readers.json_stream import convert_value, documents
from warehouse import limits
from warehouse.records import BadInput

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
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
        members = list(json_stream.Members(file, "events"))
    assert [value for key, value in members if key == "events"] == events
    assert {key: value for key, value in members if key != "events"} == {**before, "last": 12}


def test_an_array_counts_as_the_member(tmp_path: Path) -> None:
    file = tmp_path / "events.json.gz"
    file.write_bytes(gzip.compress(b" [1, {}]"))
    assert list(json_stream.Members(file, "events")) == [("events", 1), ("events", {})]


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
        list(json_stream.Members(file, "events"))


@pytest.mark.parametrize(
    ("text", "chunk", "says"),
    [
        ("[" * 100_000, 60, "hostile.json line 1: not JSON"),
        ('{"a": "' + "x" * 500, 10, "hostile.json line 1: not JSON"),
        ('{"events": [' + "9" * 5_000 + "]}", 60, "line 1: not JSON"),
        ('{"events": []} {"events": []}', 60, "expected the end of the file"),
        ("{1: 2}", 60, "expected the name of a member"),
        ('{"events": ["' + "a" * 100, 60, "longer than 50 characters"),
    ],
)
def test_hostile_json_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, chunk: int, says: str
) -> None:
    monkeypatch.setattr(json_stream, "CHUNK", chunk)
    monkeypatch.setattr(limits, "VALUE_CHARACTERS", 50)
    file = tmp_path / "hostile.json"
    file.write_text(text)
    with pytest.raises(BadInput, match=re.escape(says)):
        list(json_stream.Members(file, "events"))


def test_where_is_the_line_of_the_value_last_yielded(tmp_path: Path) -> None:
    file = tmp_path / "lines.json"
    file.write_text('{"events": [\n1,\n{"a":\n2},\n\n"c"], "after": 3}')
    members = json_stream.Members(file, "events")
    places = [str(members).rpartition(" ")[2] for _ in members]
    assert places == ["2", "3", "6", "6"]


class Event(msgspec.Struct):
    name: str
    correlation: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] = -1


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"name": 5}, "here: name: expected `str`, got `int`"),
        ({}, "here: object missing required field `name`"),
        ([], "here: expected `object`, got `array`"),
        ({"name": "a", "correlation": 2**64}, "here: correlation: "),
    ],
)
def test_a_value_of_another_kind_names_its_field(value: object, says: str) -> None:
    with pytest.raises(BadInput, match=re.escape(says)):
        json_stream.convert_value(value, Event, "here")


def test_depth_is_bounded() -> None:
    deep: Any = 1
    for _ in range(limits.DEPTH):
        deep = {"inner": deep}
    json_stream.check_depth(deep, "here")
    with pytest.raises(BadInput, match="here: lists or objects inside each other"):
        json_stream.check_depth([deep], "here")


def test_documents_behind_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "several.json"
    file.write_text('{"a": 1}\n\n[2,\n"x"] 3.5{}\n')
    parsed = [(value, where.removeprefix(f"{file} ")) for value, where in documents(file)]
    assert parsed == [
        ({"a": 1}, "line 1"),
        (2, "line 3"),
        ("x", "line 4"),
        (3.5, "line 4"),
        ({}, "line 4"),
    ]
    # Each may be as long as the limit, all together longer.
    file.write_text("{} " * 100)
    monkeypatch.setattr(limits, "JSON_BYTES", 50)
    monkeypatch.setattr(json_stream, "CHUNK", 10)
    assert len(list(documents(file))) == 100
    file.write_text("[" + "{" * 100)
    with pytest.raises(BadInput, match="line 1: not JSON"):
        list(documents(file))


def test_half_a_character_is_refused() -> None:
    class Named(msgspec.Struct):
        name: str

    with pytest.raises(BadInput, match="here: a text holds half a character"):
        convert_value({"name": "x", "\ud800": 1}, Named, "here")
