"""Formats by name, and options that only some of them have."""

import gzip
import tracemalloc
from pathlib import Path

import pytest

from profilers.readers import contract
from profilers.readers.contract import ReaderOptions
from profilers.readers.formats import find_format
from warehouse import limits
from warehouse.records import BadInput


def test_an_option_of_another_format_is_refused() -> None:
    with pytest.raises(BadInput, match="--world-size is for nccl-tests; kineto has no use for it"):
        find_format("kineto", ReaderOptions(world_size=8))
    with pytest.raises(BadInput, match="--mapping is for csv"):
        find_format("iperf3", ReaderOptions(mapping=Path("x")))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_text_is_read(tmp_path: Path, pack: "type[bytes]") -> None:
    file = tmp_path / "file"
    file.write_bytes(pack("\ufeffgrün\n".encode() + b"\xff"))
    with contract.open_text(file) as opened:
        assert opened.read() == "grün\n\ufffd"


def test_a_small_file_takes_little_memory_though_a_large_one_is_allowed(tmp_path: Path) -> None:
    file = tmp_path / "small.gz"
    file.write_bytes(gzip.compress(b"a,b\n1,2\n"))
    tracemalloc.start()
    try:
        assert contract.read_bytes(file) == b"a,b\n1,2\n"
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < limits.TEXT_BYTES / 16


def test_a_file_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "bomb.gz"
    file.write_bytes(gzip.compress(bytes(5 << 20)))
    with pytest.raises(BadInput, match=r"bomb\.gz: longer than 2 MiB when unpacked"):
        contract.read_bytes(file, 2 << 20)
    monkeypatch.setattr(limits, "UNPACKED_BYTES", 3 << 20)
    with (
        pytest.raises(BadInput, match=r"bomb\.gz: longer than 3 MiB when unpacked"),
        contract.open_text(file) as opened,
    ):
        while opened.read(1 << 20):
            pass


@pytest.mark.parametrize(
    "content", [b"\x1f\x8b", b"\x1f\x8b\x08\x00garbage", gzip.compress(b"abc", mtime=0)[:-3]]
)
def test_broken_gzip_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "broken.gz"
    file.write_bytes(content)
    with pytest.raises(BadInput, match="broken gzip"):
        contract.read_bytes(file)


def test_what_is_kept_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EVENTS", 2)
    monkeypatch.setattr(limits, "KEPT_CHARACTERS", 5)
    kept = contract.MemoryCounter(tmp_path / "trace")
    kept.event()
    kept.event()
    with pytest.raises(BadInput, match="trace: more than 2 events"):
        kept.event()
    kept.text("abcde")
    with pytest.raises(BadInput, match="more than 5 characters"):
        kept.text("f")


def test_lines_are_numbered_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"a\r\n\nb\rc")
    assert list(contract.lines(file)) == [(1, "a"), (2, ""), (3, "b"), (4, "c")]
    monkeypatch.setattr(limits, "LINE_CHARACTERS", 5)
    file.write_text("abcde\nabcdef\n")
    with pytest.raises(BadInput, match="log line 2: longer than 5 characters"):
        list(contract.lines(file))
    file.write_bytes(gzip.compress(b"a\n" * 1000))
    monkeypatch.setattr(limits, "TEXT_BYTES", 1000)
    with pytest.raises(BadInput, match="log: longer than 0 MiB when unpacked"):
        list(contract.lines(file))
