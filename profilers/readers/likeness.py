"""Which format a file looks like: for refusals, where another was named."""

import re
from pathlib import Path

from profilers.readers.imported import opened_bytes
from warehouse.records import BadInput

_HEAD_BYTES = 1 << 18
_TAR_MARK_AT = 257
_PCAP = (b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d")
_FORMATS = (
    (
        "nccl-tests",
        rb'# nccl-tests version |# nThread \d|algbw {1,9}busbw|"nccl_version":|"algBw":',
    ),
    ("iperf3", rb'"test_start":|"connecting_to":|"accepted_connection":'),
    ("execution-trace", rb'"schema" ?: ?"1\.|\[pytorch\|profiler\|execution_'),
    ("kineto", rb'"schemaVersion"|"deviceProperties"|"cpu_op"|"ProfilerStep#'),
    ("chrome-timeline", rb'"traceEvents"'),
    ("runmetadata", rb"\A\x0a[\x00-\xff]{0,99}/(?:job|device):"),
)
"""What is in the first bytes of each format, the particular before the general."""
_OTHERS = (
    (rb"\A\x0a\x0d\x0d\x0a", "pcapng: tcpdump -r FILE -w FILE.pcap converts it"),
    (rb"\APK\x03\x04", "a zip archive: unpack it first"),
    (rb"\[ ID\] Interval ", "the text of iperf3: run it with --json"),
    (rb"\ASQLite format 3\x00", "a database of Nsight Systems or another program"),
)


def likeness(path: Path, named: str) -> str:
    """Return what to add to a refusal of a file read as format `named`; empty: nothing."""
    try:
        with opened_bytes(path) as file:
            head = file.read(_HEAD_BYTES)
    except BadInput:
        return ""
    if head[_TAR_MARK_AT:].startswith(b"ustar"):
        return "; the file looks like a tar archive: unpack it first"
    if words := next((words for what, words in _OTHERS if re.search(what, head)), ""):
        return f"; the file looks like {words}"
    found = "pcap" if head.startswith(_PCAP) else None
    found = found or next((name for name, what in _FORMATS if re.search(what, head)), None)
    if found is None or found == named:
        return ""
    return f"; the file looks like {found}: stepcast import {found} {path.name} …"
