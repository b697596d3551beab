"""Records as YAML files: what is wrong is told in one line, with its place."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import Field

from profilers.record_file import read_record
from warehouse.records import BadInput, Record


class Leaf(Record):
    """What branches hold."""

    size: int
    kind: str | None = None


class Tree(Record):
    """Records in every place where fields hold them."""

    name: str
    leaf: Leaf | None = None
    row: tuple[Leaf, ...] = ()
    named: Mapping[str, tuple[Leaf, ...]] = Field(default_factory=dict)


def told(folder: Path, text: str) -> str:
    """Return what is said about a file after its name."""
    path = folder / "tree.yaml"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        read_record(path, Tree, "tree")
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path}: ")


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tree.yaml"
    path.write_text("name: oak\nnamed: {low: [{size: 3}]}\n")
    assert read_record(path, Tree, "tree") == Tree(name="oak", named={"low": (Leaf(size=3),)})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nam: oak", "nam: no such key; did you mean name?"),
        ("{name: oak, row: [{size: 1, kid: a}]}", "row[0].kid: no such key; did you mean kind?"),
        (
            "{name: oak, named: {name: [{size: 1, xyz: a}]}}",
            "named.name[0].xyz: no such key; the keys are size, kind",
        ),
        ("leaf: {size: 1}", "name: missing, and it has no default"),
        ("[oak]", "expected a mapping with name, leaf, row, named; found ['oak']"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, text: str, expected: str) -> None:
    assert told(tmp_path, text).startswith(expected)


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"^tree .*oak\.yaml does not exist$"):
        read_record(tmp_path / "oak.yaml", Tree, "tree")
    (tmp_path / "elm.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match=r"does not exist; there are .*elm\.yaml"):
        read_record(tmp_path / "oak.yaml", Tree, "tree")
    with pytest.raises(BadInput, match=r"^.*elm\.yaml line 1: not UTF-8 text; save it as such$"):
        read_record(tmp_path / "elm.yaml", Tree, "tree")
