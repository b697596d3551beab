"""The file of members: what is written is read, and what is wrong is one line."""

from functools import partial
from pathlib import Path

import pytest
from pydantic import ValidationError

from fleet.members import add, change, read_members, remove_member, write_members
from tests.fleet.made import member
from warehouse.home import FLEET_MEMBERS
from warehouse.records import BadInput

OTHER = "emu.native.c15"
RIGHT = "emu.x: {probes: [links], added_at: 2030-01-01T00:00:00Z}"


def test_what_is_written_is_read(tmp_path: Path) -> None:
    first = member(every="night", at="23:59", link_mbps=100, image_size=48)
    second = member(OTHER, paused=True, watched=False, networks=("alexnet", "vgg11"))
    home = tmp_path / "new"
    assert read_members(home) == {}
    assert add(home, first)
    assert add(home, second)
    assert read_members(home) == {first.node_type: first, OTHER: second}
    assert list(read_members(home)) == [first.node_type, OTHER], "as they were added"
    assert [path.name for path in home.iterdir()] == [FLEET_MEMBERS]


def test_adding_again_changes_and_keeps_the_place(tmp_path: Path) -> None:
    add(tmp_path, member())
    add(tmp_path, member(OTHER))
    changed = member(probes=("links",))
    assert not add(tmp_path, changed)
    assert list(read_members(tmp_path).values()) == [changed, member(OTHER)]


def test_a_member_is_paused_and_removed(tmp_path: Path) -> None:
    write_members(tmp_path, {entry.node_type: entry for entry in (member(), member(OTHER))})
    assert change(tmp_path, OTHER, paused=True).paused
    assert [entry.paused for entry in read_members(tmp_path).values()] == [False, True]
    remove_member(tmp_path, member().node_type)
    assert list(read_members(tmp_path)) == [OTHER]


def test_a_write_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(tmp_path, member())

    def full(*_: object) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="no space left"):
        add(tmp_path, member(OTHER))
    assert list(read_members(tmp_path)) == [member().node_type]
    assert [path.name for path in tmp_path.iterdir()] == [FLEET_MEMBERS]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("emu.native.c52", "did you mean emu.native.c25?"),
        ("lab.gpu", "its members are emu.native.c25"),
    ],
)
def test_strangers_are_told_who_is_there(name: str, hint: str, tmp_path: Path) -> None:
    add(tmp_path, member())
    for do in (remove_member, partial(change, paused=True)):
        with pytest.raises(BadInput) as caught:
            do(tmp_path, name)
        assert str(caught.value) == f"{name!r} is no member of the fleet; {hint}"


@pytest.mark.parametrize(
    ("probe", "hint"),
    [
        ("linkz", "did you mean links?"),
        ("watch", "there are inventory, "),
        ("?", "there are inventory, "),
    ],
)
def test_an_unknown_probe_is_told_a_near_one(probe: str, hint: str) -> None:
    with pytest.raises(ValidationError) as caught:
        member(probes=("links", probe))
    assert f"no probe {probe!r} of the fleet; {hint}" in str(caught.value)


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        (RIGHT, "[emu.x]", "expected a mapping of node types, found ['emu.x']"),
        (RIGHT, "emu.x: [links]", "emu.x: expected a mapping of fields, found ['links']"),
        ("probes:", "probs:", "emu.x.probs: no such key; did you mean probes?"),
        ("[links]", "[linkz]", "emu.x.probes: no probe 'linkz' of the fleet; did you mean links?"),
        ("[links]", "[links], max_minutes: 0", "emu.x.max_minutes: "),
        ("emu.x", "../etc", "../etc.node_type: "),
        (", added_at: 2030-01-01T00:00:00Z", "", "emu.x.added_at: missing"),
    ],
)
def test_a_wrong_file_is_one_line_with_file_and_field(
    right: str, wrong: str, message: str, tmp_path: Path
) -> None:
    assert right in RIGHT
    path = tmp_path / FLEET_MEMBERS
    path.write_text(RIGHT.replace(right, wrong))
    with pytest.raises(BadInput) as caught:
        read_members(tmp_path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)
