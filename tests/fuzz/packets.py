"""Captures: seeds made by hand, and mutations that know packets, TCP and HTTP/2."""

from random import Random

import dpkt

from tests.profilers.readers import wire

_FILE_HEADER, _RECORD_HEADER = 24, 16
# Of the file: magic number, snap length, link type.
_OF_FILE = ((0, 4), (16, 4), (20, 4))
# Of a record: its times, captured and sent bytes; then Ethernet, IPv4, TCP and HTTP/2 in it.
_OF_RECORD = ((0, 4), (4, 4), (8, 4), (12, 4))
_IP = ((12, 2), (14, 1), (16, 2), (20, 2), (23, 1), (26, 4), (30, 4))
_TCP = ((34, 2), (36, 2), (38, 4), (42, 4), (46, 1), (47, 1))
_HTTP2 = ((54, 3), (57, 1), (58, 1), (59, 4), (63, 4))
_OF_PACKET = (*_IP, *_TCP, *_TCP, *_HTTP2, *_HTTP2)
_PORT, _SEQUENCE, _LENGTH, _FLAGS, _STREAM, _DATA = 34, 38, 16, 47, 59, 54
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_CLIENT, _SERVER = ("10.0.0.1", 40_000), ("10.0.0.2", 443)


def split(content: bytes) -> list[bytes]:
    """Cut into the header of the file and its records, as far as their lengths hold."""
    little = content[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1")
    parts, at = [content[:_FILE_HEADER]], _FILE_HEADER
    while at < len(content):
        size = int.from_bytes(content[at + 8 : at + 12], "little" if little else "big")
        end = at + _RECORD_HEADER + min(size, len(content))
        parts.append(content[at:end])
        at = end
    return parts


def field(content: bytes, random: Random) -> bytes:
    """Write another value over a field of a header."""
    parts = split(content)
    i = random.randrange(len(parts))
    base = 0
    if i == 0:
        offset, width = random.choice(_OF_FILE)
    elif random.random() < 0.2:
        offset, width = random.choice(_OF_RECORD)
    else:
        base = _RECORD_HEADER
        offset, width = random.choice(_OF_PACKET)
    start = base + offset
    old = int.from_bytes(parts[i][start : start + width])
    edge = 2 ** (8 * width)
    near = (old + more for more in (-1000, -10, -1, 1, 10, 1000, edge // 2))
    far = (0, 1, 5, 6, edge - 1, edge // 2, edge // 2 - 1, random.randrange(edge))
    new = random.choice((*near, *far))
    parts[i] = parts[i][:start] + (new % edge).to_bytes(width) + parts[i][start + width :]
    return b"".join(parts)


def many(content: bytes, random: Random) -> bytes:
    """Send a packet many times: with other sequence numbers, ports or streams each time."""
    parts = split(content)
    if len(parts) < 2:
        return content
    i = random.randrange(1, len(parts))
    copies = random.choice((2, 2, 5, 20, 100))
    length = max(len(parts[i]) - _RECORD_HEADER - _DATA, 1)
    steps = (
        (
            _SEQUENCE,
            4,
            random.choice((0, length, length, 1, -1, -length, 2 * length, 2**20, 2**31)),
        ),
        (_PORT, 2, random.choice((0, 0, 1))),
        (_STREAM, 4, random.choice((0, 0, 2))),
        (_FLAGS, 1, random.choice((0, 0, 0, 2))),
    )
    made = []
    for copy in range(copies):
        packet = bytearray(parts[i])
        for offset, width, step in steps:
            at = _RECORD_HEADER + offset
            if step and len(packet) >= at + width:
                value = int.from_bytes(packet[at : at + width]) + copy * step
                packet[at : at + width] = (value % 2 ** (8 * width)).to_bytes(width)
        made.append(bytes(packet))
    if random.random() < 0.3:
        random.shuffle(made)
    return b"".join((*parts[:i], *made, *parts[i:]))


def _file(packets: list[tuple[int, bytes]], snap: int = 2**18, link: int = 1) -> bytes:
    header = dpkt.pcap.FileHdr(snaplen=snap, linktype=link)
    records = [bytes(header)]
    for time_us, raw in packets:
        seconds, rest = divmod(time_us, 1_000_000)
        cut = raw[:snap]
        records.append(
            bytes(dpkt.pcap.PktHdr(tv_sec=seconds, tv_usec=rest, caplen=len(cut), len=len(raw)))
        )
        records.append(cut)
    return b"".join(records)


def _conversation() -> list[tuple[int, bytes]]:
    client = wire.Sender(_CLIENT, _SERVER)
    server = wire.Sender(_SERVER, _CLIENT)
    return [
        client.send(0, _PREFACE, wire.settings(65_535)),
        client.send(10, wire.headers(1), wire.data(1, bytes(10))),
        client.send(20, wire.headers(3), wire.data(3, bytes(5))),
        server.send(30, wire.headers(1), wire.data(1, bytes(100))),
        server.send(40, wire.headers(3), wire.data(3, bytes(1500))),
        server.send(50, wire.data(1, bytes(300))),
        client.send(60, wire.window_update(0, 600)),
        client.send(70, wire.frame(6, 0, bytes(8)), wire.frame(7, 0, bytes(8))),
    ]


def _plain() -> list[tuple[int, bytes]]:
    syn, fin = dpkt.tcp.TH_SYN, dpkt.tcp.TH_FIN
    return [
        (0, wire.packet(_CLIENT, _SERVER, 2**32 - 3, b"", syn)),
        (1_000, wire.packet(_CLIENT, _SERVER, 2**32 - 2, b"GET / HTTP/1.1")),
        (2_000, wire.packet(_SERVER, _CLIENT, 1, bytes(100))),
        (3_000, wire.packet(_SERVER, _CLIENT, 201, bytes(100))),
        (3_500, wire.packet(_SERVER, _CLIENT, 101, bytes(100))),
        (4_000, wire.packet(_SERVER, _CLIENT, 301, b"", fin)),
        (5_000, wire.packet(_CLIENT, _SERVER, 7, b"", syn)),
        (6_000, wire.packet(_CLIENT, _SERVER, 8, b"again")),
    ]


def _ipv6() -> list[tuple[int, bytes]]:
    tcp = dpkt.tcp.TCP(sport=1, dport=2, seq=1, flags=dpkt.tcp.TH_ACK, data=b"hello")
    ends = {"src": bytes(15) + b"\x01", "dst": bytes(15) + b"\x02"}
    ip = dpkt.ip6.IP6(**ends, nxt=6, plen=25, data=tcp)
    return [(0, bytes(dpkt.ethernet.Ethernet(type=0x86DD, data=ip)))]


def _linked(header: bytes) -> list[tuple[int, bytes]]:
    return [(time_us, header + raw[14:]) for time_us, raw in _plain()]


SEEDS = (
    _file(_conversation()),
    _file(_conversation()[1:]),
    _file(_conversation(), snap=54 + 20),
    _file(_plain()),
    _file(_ipv6()),
    _file(_linked(b"\x02" * 12 + b"\x81\x00\x00\x05\x08\x00")),
    _file(_linked(b""), link=101),
    _file(_linked(bytes(14) + b"\x08\x00"), link=113),
    _file(_linked(b"\x08\x00" + bytes(18)), link=276),
    _file(_linked(b"\x02\x00\x00\x00"), link=0),
)

_TASK = "/job:{}/replica:0/task:0/device:CPU:0"
TRANSFERS = {"edge_1_small": 3, "edge_2_gradient": 8}
SIZES = {3: 400, 8: 500}


def _request(source: str, target: str, edge: str) -> bytes:
    key = f"{_TASK.format(source)};94027fe102493452;{_TASK.format(target)};{edge};0:0".encode()
    message = b"\x08\x01\x12" + bytes([len(key) % 128 + 128, len(key) // 128]) + key
    return b"\x00" + len(message).to_bytes(4) + message


def _traced() -> list[tuple[int, bytes]]:
    worker, server = wire.Sender(_CLIENT, _SERVER), wire.Sender(_SERVER, _CLIENT)
    down, up = _request("ps", "worker", "edge_1_small"), _request("worker", "ps", "edge_2_gradient")
    return [
        worker.send(1_000, wire.headers(11) + wire.data(11, down)),
        server.send(1_100, wire.headers(11) + wire.data(11, bytes(440))),
        server.send(1_200, wire.headers(5) + wire.data(5, up)),
        worker.send(1_300, wire.headers(5) + wire.data(5, bytes(509))),
        worker.send(1_400, wire.window_update(11, 9000)),
    ]


TRACED = (_file(_traced()), _file(_traced(), snap=2000))
CONTROL = _file(_conversation()[:1])
