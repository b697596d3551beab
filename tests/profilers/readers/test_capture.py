"""One step of one worker: two weights come down, one suspended for the other; one goes up."""

import gzip
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest

from profilers.readers import connections as capture
from profilers.readers.http2 import HEAD_BYTES
from tests.profilers.readers.wire import Sender, data, headers, settings, window_update, write
from warehouse import limits
from warehouse.records import BadInput

WORKER, SERVER = ("10.77.0.2", 40_000), ("10.77.0.1", 5000)
CALLER, CALLED = ("10.77.0.1", 50_000), ("10.77.0.2", 5001)
T0 = 1_700_000_000_000_000
SMALL, LARGE, UP = 4_000, 9_000, 5_000
TRANSFERS = {"edge_1_small": 3, "edge_2_large": 4, "edge_3_gradient": 8}
SIZES: Mapping[int, int] = {3: SMALL, 4: LARGE, 8: UP}


def request(source: str, target: str, edge: str) -> bytes:
    """Return RecvTensorRequest as gRPC frames it: step id and rendezvous key."""
    device = "/job:{}/replica:0/task:0/device:CPU:0"
    key = f"{device.format(source)};94027fe102493452;{device.format(target)};{edge};0:0".encode()
    message = b"\x08\x01\x12" + bytes([len(key) % 128 + 128, len(key) // 128]) + key
    return b"\x00" + len(message).to_bytes(4) + message


def files(folder: Path) -> tuple[Path, Path]:
    """Write the captures of the step and of the connection's opening; return them."""
    worker, server = Sender(WORKER, SERVER), Sender(SERVER, WORKER)
    caller, called = Sender(CALLER, CALLED), Sender(CALLED, CALLER)
    opening = [worker.send(T0 - 9000, settings(4096)), server.send(T0 - 8000, settings(8192))]
    # Between the captures much passes unseen.
    server.sequence = (server.sequence + 3 * 2**30) % 2**32
    down, up = ("ps", "worker"), ("worker", "ps")
    step = [
        worker.send(
            T0 + 10,
            headers(11) + data(11, request(*down, "edge_2_large")),
            headers(13) + data(13, request(*down, "edge_1_small")),
        ),
        caller.send(T0 + 20, headers(5) + data(5, request(*up, "edge_3_gradient"))),
        server.send(T0 + 100, headers(11) + data(11, b"\x01" * 4096)),
        server.send(T0 + 200, headers(13) + data(13, b"\x02" * (SMALL + 40))),
        worker.send(T0 + 250, window_update(11, 9000)),
        server.send(T0 + 300, data(11, b"\x01" * (LARGE + 30 - 4096)) + headers(11)),
        called.send(T0 + 400, headers(5), data(5, b"\x03" * 3000)),
        called.send(T0 + 500, data(5, b"\x03" * (UP + 9 - 3000))),
        worker.send(T0 + 2000, headers(15) + data(15, request(*down, "edge_1_small"))),
        server.send(T0 + 2100, headers(15) + data(15, b"\x02" * (SMALL + 40))),
    ]
    return write(folder / "steps.pcap", step), write(folder / "control.pcap", opening)


def read(
    steps: Path, control: Path, *, keep_in: Path | None = None, sizes: Mapping[int, int] = SIZES
) -> dict[str, pl.DataFrame]:
    return capture.read(
        steps,
        control=control,
        transfers=TRANSFERS,
        sizes_bytes=sizes,
        step_times_us=[(T0, T0 + 1000)],
        keep_in=keep_in,
    )


@pytest.fixture
def captured(tmp_path: Path) -> tuple[Path, Path]:
    return files(tmp_path)


def test_streams_carry_the_operations_that_were_asked_for(captured: tuple[Path, Path]) -> None:
    rows = read(*captured)["stream"].with_columns(pl.col("first_us") - T0, pl.col("last_us") - T0)
    assert set(rows.select("worker", "server").rows()) == {(0, 0)}
    # step, direction, stream, operation, bytes, first, last, segments
    assert rows.drop("worker", "server").rows() == [
        (0, "downlink", 11, 4, LARGE + 30, 100, 300, 2),
        (0, "downlink", 13, 3, SMALL + 40, 200, 200, 1),
        (0, "uplink", 5, 8, UP + 9, 400, 500, 1),
        (None, "downlink", 15, 3, SMALL + 40, 2100, 2100, 1),
    ]


def test_a_stream_of_another_size_is_not_that_operation(captured: tuple[Path, Path]) -> None:
    rows = read(*captured, sizes={**SIZES, 4: LARGE + 31})["stream"]
    assert rows.filter(stream=11)["operation"].to_list() == [None]


def test_frames_say_who_sent_what_on_which_connection(captured: tuple[Path, Path]) -> None:
    frames = read(*captured)["http2_frame"]
    seen = frames.filter(pl.col("type").is_in(["SETTINGS", "WINDOW_UPDATE"])).select(
        "direction", "sender", "type", "stream", pl.col("time_us") - T0, "value"
    )
    assert seen.rows() == [
        ("downlink", "worker", "SETTINGS", 0, -9000, 4096),
        ("downlink", "server", "SETTINGS", 0, -8000, 8192),
        ("downlink", "worker", "WINDOW_UPDATE", 11, 250, 9000),
    ]
    sent = frames.filter(type="DATA", direction="uplink", sender="worker")
    assert sent["length_bytes"].to_list() == [3000, UP + 9 - 3000]


def test_the_share_of_transfers_that_were_captured(captured: tuple[Path, Path]) -> None:
    operation = pl.DataFrame(
        {"operation": [3, 4, 8, 9, 10], "resource": ["downlink"] * 2 + ["uplink"] * 2 + ["worker"]}
    ).cast({"operation": pl.Int32})
    timing = pl.DataFrame({"step": [0] * 5, "operation": [3, 4, 8, 9, 10]})
    stream = read(*captured)["stream"]
    assert capture.matched_fraction(timing, operation, stream) == pytest.approx(3 / 4)
    assert capture.matched_fraction(timing, operation, stream.clear()) == 0


def test_kept_packets_hold_no_tensors_and_read_the_same(
    captured: tuple[Path, Path], tmp_path: Path
) -> None:
    whole = read(*captured, keep_in=tmp_path)
    again = read(tmp_path / "steps.pcap.gz", tmp_path / "control.pcap.gz")
    assert all(again[name].equals(rows) for name, rows in whole.items())
    raw = gzip.decompress((tmp_path / "steps.pcap.gz").read_bytes())
    left = [raw.count(value) for value in (b"\x01" * 64, b"\x02" * 64, b"\x03" * 64)]
    assert left == [2 * HEAD_BYTES // 64] * 3


@pytest.mark.parametrize("edge", [b"\xff\xfe" * 6, b"1_small_____"])
def test_edges_that_the_trace_does_not_have_are_no_operation(
    captured: tuple[Path, Path], edge: bytes
) -> None:
    whole = captured[0].read_bytes()
    assert whole.count(b"edge_2_large") == 1
    captured[0].write_bytes(whole.replace(b"edge_2_large", b"edge_" + edge[:7]))
    assert read(*captured)["stream"].filter(stream=11)["operation"].to_list() == [None]


def test_more_frames_than_there_is_memory_for(
    captured: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "EVENTS", 10)
    with pytest.raises(BadInput, match=r"steps\.pcap: more than 10 events"):
        read(*captured)
