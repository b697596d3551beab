"""What refusals say of files that are of another format."""

import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest

from profilers.readers.formats import suggest_format

EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": 1, "dur": 2}


def tarred() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.json"))
    return packed.getvalue()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"0: # nThread 1 nGpus 1 minBytes 8\n", "nccl-tests: stepcast import nccl-tests a.bin"),
        (b'{"name":"AllReduce", "algBw":1.0}', "nccl-tests"),
        (json.dumps({"start": {"test_start": {}}}).encode(), "iperf3: stepcast"),
        (b"[ ID] Interval           Transfer\n", "the text of iperf3: run it with --json"),
        (json.dumps({"schema": "1.1.1-chakra", "nodes": []}).encode(), "execution-trace"),
        (json.dumps({"traceEvents": [EVENT]}).encode(), "kineto"),
        (json.dumps({"traceEvents": [{"ph": "M"}]}).encode(), "chrome-timeline"),
        (b"\xd4\xc3\xb2\xa1" + bytes(20), "pcap: stepcast"),
        (b"\x0a\x0d\x0d\x0a" + bytes(20), "pcapng: tcpdump"),
        (b"\x0a\x20\x0a\x0e/job:worker/replica:0", "runmetadata"),
        (tarred(), "a tar archive: unpack it"),
        (gzip.compress(tarred(), mtime=0), "a tar archive: unpack it"),
    ],
    ids=lambda content: f"{content!s:.20}",
)
def test_what_a_file_looks_like(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(content)
    assert f"; the file looks like {said}" in suggest_format(file, "csv")


@pytest.mark.parametrize("content", [b"", b"hello", b"\x1f\x8bbroken", b"# nThread 1 nGpus 1"])
def test_nothing_is_said_of_what_is_unknown_or_as_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(content)
    assert suggest_format(file, "nccl-tests") == ""
