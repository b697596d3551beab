"""What nodes send, as a hostile one would."""

import gzip
import io
import os
import tarfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from profilers.clusters import received
from warehouse import limits
from warehouse.records import ProbeFailed


@contextmanager
def sent(content: bytes, *, then_silent: bool = False) -> Iterator[int]:
    """Yield a pipe that content comes through, piece by piece."""
    read_end, write_end = os.pipe()

    def send() -> None:
        with open(write_end, "wb", closefd=not then_silent) as pipe:
            try:
                pipe.write(content)
            except BrokenPipeError:
                pass

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield read_end
    finally:
        os.close(read_end)
        sender.join()
        if then_silent:
            os.close(write_end)


def packed(*members: tarfile.TarInfo, kind: int = tarfile.USTAR_FORMAT) -> bytes:
    """Return a compressed archive; files have as many bytes of x as they say."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=kind) as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size))
    return buffer.getvalue()


def one(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    """Return a header."""
    member = tarfile.TarInfo(name)
    member.size, member.type, member.linkname = size, kind, link
    return member


def unpack(content: bytes, folder: Path) -> None:
    with sent(content) as pipe:
        received.unpack(pipe, folder, 30)


def test_files_and_folders_come_as_they_are(tmp_path: Path) -> None:
    folders = one(".", kind=tarfile.DIRTYPE), one("./plugins", kind=tarfile.DIRTYPE)
    unpack(packed(*folders, one("./plugins/a.pb", 200_000), one("./empty")), tmp_path)
    assert (tmp_path / "plugins" / "a.pb").read_bytes() == b"x" * 200_000
    assert (tmp_path / "empty").read_bytes() == b""


@pytest.mark.parametrize(
    ("member", "said"),
    [
        (one("../out", 1), "file '..'"),
        (one("/out", 1), "file ''"),
        (one("-rf", 1), "file '-rf'"),
        (one("/".join("a" * 17), 1), "more than 16 folders deep"),
        (one("link", kind=tarfile.SYMTYPE, link="/etc"), "'link' is neither"),
        (one("link", kind=tarfile.LNKTYPE, link="a"), "'link' is neither"),
        (one("device", kind=tarfile.CHRTYPE), "'device' is neither"),
        (one("no/parent", 1), "'no/parent' cannot be written here: No such file"),
    ],
)
def test_other_names_and_kinds_are_refused(
    tmp_path: Path, member: tarfile.TarInfo, said: str
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(ProbeFailed) as error:
        unpack(packed(one("first", 3), member), folder)
    assert said in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("kind", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_headers_that_hold_a_name_elsewhere_are_refused(tmp_path: Path, kind: int) -> None:
    """Their length is not bounded, and tarfile would read them into memory."""
    with pytest.raises(ProbeFailed, match="is neither a file nor a folder"):
        unpack(packed(one("a" * 5_000), kind=kind), tmp_path)


def test_a_link_here_is_not_followed(tmp_path: Path) -> None:
    folder, target = tmp_path / "folder", tmp_path / "target"
    folder.mkdir()
    (folder / "a").symlink_to(target)
    with pytest.raises(ProbeFailed, match="'a' cannot be written here"):
        unpack(packed(one("a", 3)), folder)
    assert not target.exists()


def test_too_many_bytes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UNPACKED_BYTES", 1_000_000)
    unpack(packed(one("a", 500_000)), tmp_path)
    with pytest.raises(ProbeFailed, match="more than 1,000,000 bytes in all"):
        unpack(packed(one("a", 500_000), one("b", 500_000)), tmp_path)
    assert not (tmp_path / "b").exists() or (tmp_path / "b").stat().st_size < 500_000
    # Behind the end of the archive too.
    padded = gzip.compress(gzip.decompress(packed(one("a", 3))) + bytes(2_000_000))
    with pytest.raises(ProbeFailed, match="more than 1,000,000 bytes in all"):
        unpack(padded, tmp_path)


def test_too_many_files_and_doubles_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SENT_FILES", 3)
    unpack(packed(*(one(name) for name in "abc")), tmp_path)
    with pytest.raises(ProbeFailed, match="'d' comes twice, or beyond 3"):
        unpack(packed(*(one(name) for name in "abcd")), tmp_path)
    with pytest.raises(ProbeFailed, match="'a' comes twice"):
        unpack(packed(one("a"), one("a")), tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it ended early"),
        (b"no gzip at all", "not compressed as it should be"),
        (gzip.compress(b"no tar " * 100, mtime=0), "no tar archive"),
        (packed(one("a", 100_000))[:-200], "ended early|not compressed"),
        (gzip.compress(gzip.decompress(packed(one("a", 100_000)))[:5_000], mtime=0), "ended early"),
    ],
)
def test_what_is_no_archive_or_half_a_one_is_told(
    tmp_path: Path, content: bytes, said: str
) -> None:
    with pytest.raises(ProbeFailed, match=said):
        unpack(content, tmp_path)


def test_silence_ends_it(tmp_path: Path) -> None:
    before_s = time.monotonic()
    with (
        sent(packed(one("a", 3))[:20], then_silent=True) as pipe,
        pytest.raises(ProbeFailed, match="nothing more came in time"),
    ):
        received.unpack(pipe, tmp_path, 0.2)
    assert time.monotonic() > before_s + 0.15
