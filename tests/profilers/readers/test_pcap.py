"""Captures of others: bytes, seconds and goodput of each direction."""

import gzip
import json
from pathlib import Path

import dpkt
import pytest

from profilers.readers.contract import ImportedRun, ReaderOptions
from profilers.readers.pcap import read
from tests.profilers.readers.imports import only
from tests.profilers.readers.wire import HEADER_BYTES, packet, write
from warehouse import limits
from warehouse.records import BadInput

CLIENT, SERVER = ("10.0.0.1", 40_000), ("10.0.0.2", 443)
TCP = [
    (0, packet(CLIENT, SERVER, 999, b"", dpkt.tcp.TH_SYN)),
    (1_000, packet(CLIENT, SERVER, 1000, b"GET / HTTP/1.1")),
    (2_000, packet(SERVER, CLIENT, 1, bytes(1000))),
    (3_000, packet(SERVER, CLIENT, 1, bytes(1000))),
    (502_000, packet(SERVER, CLIENT, 1001, bytes(1000))),
    (600_000, packet(CLIENT, SERVER, 7, b"", dpkt.tcp.TH_SYN)),
    (700_000, packet(CLIENT, SERVER, 8, b"again")),
]


def refused(file: Path) -> str:
    with pytest.raises(BadInput) as error:
        list(read(file, ReaderOptions()))
    assert "\n" not in str(error.value)
    return str(error.value)


def figures(run: ImportedRun) -> dict[tuple[str, str, int], float | None]:
    rows = run.tables["external"].to_dicts()
    return {
        (json.loads(row["subject"])["from"], row["metric"], row["repeat"]): row["value"]
        for row in rows
    }


def test_other_tcp_is_bytes_and_seconds(tmp_path: Path) -> None:
    """What was sent twice counts once; ports that are used again begin another connection."""
    ask, answer = "10.0.0.1:40000", "10.0.0.2:443"
    run = only("pcap", write(tmp_path / "a.pcap", TCP))
    assert set(run.tables) == {"external"}
    values = figures(run)
    assert values[answer, "payload_bytes", 1] == 2000
    assert values[answer, "transfer_s", 1] == 0.5
    assert values[answer, "goodput_Bps", 1] == 4000
    assert (values[ask, "payload_bytes", 1], values[ask, "payload_bytes", 2]) == (14, 5)
    assert values[ask, "goodput_Bps", 1] is None
    assert run.config["connections"] == 2


def test_bytes_that_the_capture_missed_are_told(tmp_path: Path) -> None:
    """200 are missing between packets, and 50 before the end, which takes a number itself."""
    sent = [
        (0, packet(SERVER, CLIENT, 1, bytes(100))),
        (1_000_000, packet(SERVER, CLIENT, 301, bytes(100))),
        (1_000_001, packet(SERVER, CLIENT, 452, b"")),
    ]
    run = only("pcap", write(tmp_path / "a.pcap", sent))
    values = figures(run)
    assert values["10.0.0.2:443", "payload_bytes", 1] == 200
    assert values["10.0.0.2:443", "missing_bytes", 1] == run.config["missing_bytes"] == 250
    assert run.notes == ("the capture missed 250 bytes, so that figures are too small",)


def test_nothing_is_missing_of_a_connection_that_was_closed(tmp_path: Path) -> None:
    sent = [
        (0, packet(CLIENT, SERVER, 2**32 - 3, b"", dpkt.tcp.TH_SYN)),
        (1, packet(CLIENT, SERVER, 2**32 - 2, b"hello")),
        (2, packet(CLIENT, SERVER, 3, b"", dpkt.tcp.TH_FIN)),
        (3, packet(CLIENT, SERVER, 4, b"")),
    ]
    run = only("pcap", write(tmp_path / "a.pcap", sent))
    assert figures(run)["10.0.0.1:40000", "missing_bytes", 1] == 0
    assert run.notes == ()


def test_a_file_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    sent = [(i, packet(SERVER, CLIENT, 1 + 100 * i, bytes(100))) for i in range(5)]
    file = write(tmp_path / "a.pcap", sent, snap=HEADER_BYTES + 20)
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    run = only("pcap", file)
    assert run.config["cut_off"] is True
    assert run.notes == ("the file is cut off: read as far as it goes",)
    assert figures(run)["10.0.0.2:443", "payload_bytes", 1] == 500
    packed = tmp_path / "b.pcap.gz"
    packed.write_bytes(gzip.compress(whole)[:-12])
    assert only("pcap", packed).config["cut_off"] is True


def test_more_connections_than_there_is_memory_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [(i, packet((CLIENT[0], i), SERVER, 1, b"x")) for i in range(1, 5)]
    file = write(tmp_path / "a.pcap", sent)
    monkeypatch.setattr(limits, "CONNECTIONS", 3)
    assert "packet 4 begins one more than 3 directions of connections" in refused(file)


def test_what_is_no_capture_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"
    file.write_text("no capture, but text that is long enough for a header")
    assert "not a packet capture" in refused(file)
    file.write_bytes(b"\x0a\x0d\x0d\x0a" + bytes(60))
    assert "is pcapng; expected pcap: tcpdump -r a.pcap -w" in refused(file)
    write(file, [(0, packet(CLIENT, SERVER, 1, b""))])
    assert "no data over TCP in 1 packets; capture again" in refused(file)
    whole = write(file, [(0, packet(CLIENT, SERVER, 1, b"x"))]).read_bytes()
    file.write_bytes(whole[:32] + b"\xff\xff\xff\x7f" + whole[36:])
    assert "packet 1 claims" in refused(file) and "the file is damaged" in refused(file)
    assert "is not there" in refused(tmp_path / "none.pcap")


LINKS = {
    1: b"\x02" * 12 + b"\x81\x00\x00\x05\x08\x00",  # Ethernet with a VLAN tag
    101: b"",
    113: bytes(14) + b"\x08\x00",
    276: b"\x08\x00" + bytes(18),
    0: b"\x02\x00\x00\x00",
}


@pytest.mark.parametrize("link", LINKS)
def test_captures_of_other_links(tmp_path: Path, link: int) -> None:
    file = tmp_path / "a.pcap"
    with file.open("wb") as stream:
        writer = dpkt.pcap.Writer(stream, linktype=link)
        writer.writepkt_time(LINKS[link] + packet(CLIENT, SERVER, 1, b"hello")[14:], 1.0)
    assert figures(only("pcap", file))["10.0.0.1:40000", "payload_bytes", 1] == 5
    with file.open("wb") as stream:
        dpkt.pcap.Writer(stream, linktype=127)
    assert "link type 127; expected Ethernet (1), raw IP (101)" in refused(file)


def test_ipv6(tmp_path: Path) -> None:
    tcp = dpkt.tcp.TCP(sport=1, dport=2, seq=1, flags=dpkt.tcp.TH_ACK, data=b"hello")
    ends = {"src": bytes(15) + b"\x01", "dst": bytes(15) + b"\x02"}
    ip = dpkt.ip6.IP6(**ends, nxt=6, plen=25, data=tcp)
    raw = bytes(dpkt.ethernet.Ethernet(type=0x86DD, data=ip))
    values = figures(only("pcap", write(tmp_path / "a.pcap", [(0, raw)])))
    assert values["[::1]:1", "payload_bytes", 1] == 5
