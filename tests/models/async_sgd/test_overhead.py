"""Lines that are known come out; what is not there is refused."""

import polars as pl
import pytest

from models.async_sgd.overhead import transfers
from tests.models.async_sgd.captures import streams
from tests.models.async_sgd.frames import RECEIVE, UPLOAD, chain

CAPTURED = streams((0, RECEIVE, 5_000, 205_000), (0, None, 6, 7), (None, RECEIVE, 8, 9))


def test_transfers_join_packets_and_records() -> None:
    made = chain()
    captured = pl.concat([CAPTURED, streams((1, UPLOAD, 570_000, 660_000))])
    rows = transfers(captured, made.operations, made.timings, made.steps)
    columns = ["step", "operation", "direction", "role", "size_bytes"]
    assert rows.select(columns).rows() == [
        (0, RECEIVE, "downlink", "worker", 20_000),
        (1, UPLOAD, "uplink", "server", 10_000),
    ]
    assert rows.select("start_us", "end_us", "first_us", "last_us").rows() == [
        (3_000, 253_000, 5_000, 205_000),
        (560_000, 690_000, 570_000, 660_000),
    ]
    assert rows["overhead_s"].to_list() == pytest.approx([0.048, 0.03])
