"""YAML of people: what is read, and that everything else is one line with its place."""

import os
import resource
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from warehouse import limits
from warehouse.documents import read_document
from warehouse.fields import Name, checked_name, nearest_names
from warehouse.records import BadInput

CHECKOUT = Path(__file__).parents[2]
LAUGHS = "a0: &a0 [l, l]\n" + "".join(
    f"a{i}: &a{i} [{', '.join(10 * [f'*a{i - 1}'])}]\n" for i in range(1, 30)
)
LAUGHING_MERGES = "a0: &a0 {k: v}\n" + "".join(
    f"a{i}: &a{i}\n  <<: [{', '.join(10 * [f'*a{i - 1}'])}]\n" for i in range(1, 30)
)
STAIRS = "a0: &a0 [l]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 100))


def told(folder: Path, content: bytes | str) -> str:
    """Return what is said about a file after its folder."""
    path = folder / "a.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BadInput) as caught:
        read_document(path, "study")
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix("study ").removeprefix(f"{folder}/")


def test_what_people_write_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(
        b"\xef\xbb\xbf# With a mark, comments, an alias and a merge.\n"
        b"one: &one {size: 3, on: [1.5, .inf, true, ~]}\n"
        b"two: {<<: *one, size: 4}\nday: 2026-01-02\nword: '0\xc3\xa9'\n"
    )
    base = {"size": 3, "on": [1.5, float("inf"), True, None]}
    expected = {"one": base, "two": {**base, "size": 4}, "day": date(2026, 1, 2), "word": "0é"}
    with pytest.raises(BadInput, match="line 2: the key 'on' is a bool; put it in quotes"):
        read_document(path, "study")
    path.write_bytes(path.read_bytes().replace(b" on:", b" 'on':"))
    assert read_document(path, "study") == expected


def test_ours_are_read() -> None:
    listed = ["git", "ls-files", "*.yaml", "*.yml"]
    listing = subprocess.run(listed, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    files = [path for path in listing.stdout.split() if not path.startswith(".")]
    assert len(files) > 10
    for file in files:
        assert read_document(CHECKOUT / file, "file")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a: 1\nb: [", "a.yaml line 2: not valid YAML: "),
        ("a: *b", "a.yaml line 1: not valid YAML: found undefined alias 'b'"),
        ("a: 1\n\nb: 2\na: 3", "a.yaml line 4: the key a is given twice, it is in line 1 too"),
        (b"a: 1\nb: \xff\xfe", "a.yaml line 2: not UTF-8 text"),
        (b"a: 1\nb: \x00", "a.yaml line 2: the character 0x0 is no text"),
        ('a: "\\ud800"', "a.yaml line 1: not valid YAML: while parsing a quoted scalar found inva"),
        ("a: 2026-13-45", "a.yaml line 1: '2026-13-45' is no timestamp; put it in quotes"),
        ("a: 1\nb: " + 5000 * "9", "a.yaml line 2: a number of 5000 characters"),
        ("a: 1" + 400_000 * ":1", "a.yaml line 1: a number of 800001 characters"),
        ("a: !!int b", "a.yaml line 1: 'b' is no int"),
        ("a: !!python/object/apply:os.getcwd []", "a.yaml line 1: !!python/object/apply:os.g"),
        ("b: 1\na: &a [*a]", "a.yaml line 2: *a stands for what it is a part of"),
        (100_000 * "[", "a.yaml line 1: lists or mappings inside each other deeper than 64"),
        (STAIRS, "a.yaml line 65: lists or mappings inside each other deeper than 64"),
        (LAUGHS, "a.yaml line 6: more than 100,000 values, aliases followed"),
        ("a: 1\n" + "#" * limits.DOCUMENT_BYTES, "a.yaml is longer than 1 MiB"),
    ],
)
def test_what_cannot_be_read_is_one_line(
    tmp_path: Path, content: bytes | str, expected: str
) -> None:
    assert told(tmp_path, content).startswith(expected)


def test_depth_as_deep_as_may_be(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(limits.DEPTH * "[" + "x" + limits.DEPTH * "]")
    expected: object = "x"
    for _ in range(limits.DEPTH):
        expected = [expected]
    assert read_document(path, "study") == expected


def test_values_as_many_as_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DOCUMENT_NODES", 4)
    path = tmp_path / "a.yaml"
    path.write_text("[1, 2, 3]")
    assert read_document(path, "study") == [1, 2, 3]
    assert told(tmp_path, "[1, 2, 3, 4]") == "a.yaml line 1: more than 4 values, aliases followed"


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path, problem in (
        (tmp_path, "is a folder"),
        (tmp_path / "fifo", "is no regular file"),
        (Path("/dev/zero"), "is no regular file"),
        (tmp_path / "none", "does not exist"),
        (tmp_path / ("n" * 300), "cannot be read: File name too long"),
    ):
        with pytest.raises(BadInput, match=f"^study {path} {problem}"):
            read_document(path, "study")


READ = """
import sys
from pathlib import Path
from warehouse.documents import read_document
from warehouse.records import BadInput
try:
    read_document(Path(sys.argv[1]), "study")
except BadInput as error:
    print(error)
# Not ru_maxrss: it counts what the maker had when it forked.
status = Path("/proc/self/status").read_text()
print(status.split("VmHWM:")[1].split()[0])
"""


@pytest.mark.parametrize("content", [LAUGHS, LAUGHING_MERGES])
def test_little_memory_is_taken(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(content)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))

    read = [sys.executable, "-c", READ, str(path)]
    done = subprocess.run(
        read, cwd=CHECKOUT, capture_output=True, text=True, check=True, preexec_fn=limit
    )
    message, peak_kib = done.stdout.splitlines()
    assert message.startswith(f"{path} line ")
    assert int(peak_kib) < 200 << 10


@pytest.mark.parametrize(
    "name", ["a", "Small_1", "20261125T140949-train-cbeb9564", "a.b", "x" * 100]
)
def test_names(name: str) -> None:
    assert checked_name(name, "study") == TypeAdapter(Name).validate_python(name) == name


@pytest.mark.parametrize("name", ["", "..", "a/b", "-rf", ".a", "a\n", "x" * 101])
def test_what_would_be_another_path(name: str) -> None:
    with pytest.raises(BadInput, match=r"^study .* cannot be part of a path; use up to"):
        checked_name(name, "study")
    with pytest.raises(ValidationError):
        TypeAdapter(Name).validate_python(name)


TYPES = ["emu.avx2.c25", "gpu.h100", "gpu.h200", "m5.large", "p3.2xlarge", "p4d.24xlarge"]


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("p5.48xlarge", "p3.2xlarge"),
        ("m6i.large", "m5.large"),
        ("emu.avx2.c52", "emu.avx2.c25"),
        ("gpu.h300", "gpu.h200"),
        ("gup.h100", "gpu.h100"),
    ],
)
def test_the_nearest_names_are_of_the_same_kind(name: str, first: str) -> None:
    assert nearest_names(name, TYPES)[0] == first
    assert first == "m5.large" or "m5.large" not in nearest_names(name, TYPES)


def test_no_name_of_another_kind_is_near() -> None:
    assert nearest_names("p5.48xlarge", ["m5.large", "emu.server"]) == []
