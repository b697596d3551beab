"""Who got how much of a link, from packets made by hand: 5 ms slices, one packet a millisecond."""

from collections.abc import Iterable
from itertools import chain
from math import log
from pathlib import Path

import polars as pl
import pytest

from profilers.contention.probe import shares
from tests.profilers.readers.wire import HEADER_BYTES, packet, write

SERVER, FIRST, SECOND = "10.0.0.1", "10.0.0.2", "10.0.0.3"
FULL, HALF, TENTH = 1400, 700, 140


def sent(to: str, times_ms: Iterable[int], size_bytes: int) -> list[tuple[int, bytes]]:
    """Return what the server sends to a worker, one packet at each time."""
    return [
        (1000 * ms, packet((SERVER, 1), (to, 2), 100 + ms * size_bytes, bytes(size_bytes)))
        for ms in times_ms
    ]


def received(worker: str, times_ms: Iterable[int], size_bytes: int) -> list[tuple[int, bytes]]:
    return [
        (1000 * ms, packet((worker, 2), (SERVER, 1), 100 + ms * size_bytes, bytes(size_bytes)))
        for ms in times_ms
    ]


def table(tmp_path: Path, *packets: list[tuple[int, bytes]]) -> pl.DataFrame:
    file = write(tmp_path / "c.pcap", sorted(chain(*packets)), snap=HEADER_BYTES)
    return shares([file], SERVER, [FIRST, SECOND])


def test_the_one_that_was_there_first_has_place_0(tmp_path: Path) -> None:
    """Slices 0 to 15 hold the first worker, 4 to 9 the second; 5 to 8 have both throughout."""
    measured = table(tmp_path, sent(FIRST, range(80), FULL), sent(SECOND, range(20, 50), HALF))
    both = measured.filter(pl.col("flows") == 2).sort("place")
    assert both["bytes"].to_list() == [4 * 5 * FULL, 4 * 5 * HALF]
    assert both["seconds"].to_list() == pytest.approx([0.02, 0.02])
    assert both["log_share_sd"].to_list() == [None, None]
    assert both["direction"].unique().to_list() == ["downlink"]
    alone = measured.filter(pl.col("flows") == 1)
    assert alone["bytes"].to_list() == [4 * 5 * FULL]  # slices 11 to 14: before, nobody was met


def test_half_a_second_later_a_meeting_is_forgotten(tmp_path: Path) -> None:
    """They share slices 0 to 3; the first is alone from 4 on, and 5 to 103 count."""
    measured = table(tmp_path, sent(FIRST, range(700), FULL), sent(SECOND, range(20), FULL))
    alone = measured.filter(pl.col("flows") == 1)
    assert alone["bytes"].to_list() == [99 * 5 * FULL]


def test_a_pause_makes_a_worker_the_newest(tmp_path: Path) -> None:
    """They share slices 2 and 3, too short a stretch; and after 205 ms 8 with the second ahead."""
    first = [*range(20), *range(225, 265)]
    measured = table(tmp_path, received(FIRST, first, FULL), received(SECOND, range(10, 265), HALF))
    both = measured.filter(pl.col("flows") == 2, pl.col("direction") == "uplink").sort("place")
    assert both["bytes"].to_list() == [6 * 5 * HALF, 6 * 5 * FULL]


def test_what_goes_the_other_way_meanwhile(tmp_path: Path) -> None:
    """The first receives to slice 19; the second too to 7, and sends from 13 on. 9 to 18 count."""
    measured = table(
        tmp_path,
        sent(FIRST, range(100), FULL),
        sent(SECOND, range(40), FULL),
        received(SECOND, range(65, 100), HALF),
    )
    down = measured.filter(pl.col("flows") == 1).sort("opposite")
    assert down["direction"].to_list() == ["downlink"] * 2  # the uplink was never shared
    assert down["opposite"].to_list() == [0, 1]
    assert down["seconds"].to_list() == pytest.approx([0.02, 0.03])
    assert down["bytes"].to_list() == [4 * 5 * FULL, 6 * 5 * FULL]


def test_shares_that_differ_from_stretch_to_stretch(tmp_path: Path) -> None:
    """The second gets half of what the first gets, and then the same."""
    measured = table(
        tmp_path,
        sent(FIRST, [*range(40), *range(60, 100)], FULL),
        sent(SECOND, range(5, 40), HALF),
        sent(SECOND, range(65, 100), FULL),
    )
    both = measured.filter(pl.col("flows") == 2).sort("place")
    expected = [abs(log(2 / 3) - log(1 / 2)) / 2, abs(log(1 / 3) - log(1 / 2)) / 2]
    assert both["log_share_sd"].to_list() == pytest.approx(expected)


def test_an_empty_capture_has_no_rows(tmp_path: Path) -> None:
    assert table(tmp_path).is_empty()
