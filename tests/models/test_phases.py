"""Phases of steps small enough to be cut by hand: a kilobyte takes 10 ms."""

from collections.abc import Mapping, Sequence

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.phases import PHASES, phases, transfer_s
from tests.made_run import raw_table
from tests.models.async_sgd.frames import EPOCH_US, RUN_ID, Tables, chain, tables
from tests.models.runs import links, raw_tables
from warehouse.records import BadInput

MS = 1_000


def cut(made: Tables, streams: pl.DataFrame | None = None) -> list[dict[str, float]]:
    captured = {} if streams is None else {"stream": streams}
    rows = phases(raw_tables(made, {}, **captured))
    return rows.select(PHASES).to_dicts()


def transfers(
    *operations: tuple[str, int, int, int], computed_ms: Sequence[tuple[int, int]] = ()
) -> Tables:
    """Return a step of (direction, bytes, start, end) and computations (start, end), all in ms."""
    timed: Mapping[int, tuple[int, int]] = {
        place: (start * MS, (end - start) * MS)
        for place, (start, end) in enumerate(
            [(start, end) for *_, start, end in operations] + list(computed_ms)
        )
    }
    named: list[tuple[str, int | None]] = [(direction, size) for direction, size, *_ in operations]
    return tables([*named, *(("worker", None) for _ in computed_ms)], [], [timed])


def streams(*rows: tuple[int, int, int, int]) -> pl.DataFrame:
    """Return table stream of (step, operation, first, last), in ms since the step's start."""
    made = [
        (RUN_ID, step, operation, EPOCH_US + first * MS, EPOCH_US + last * MS)
        for step, operation, first, last in rows
    ]
    return raw_table("stream", "run_id step operation first_us last_us", made)


def test_a_chain_is_cut_where_the_link_had_sent_it() -> None:
    # Downlink 3 to 203 ms, uplink 560 to 660 ms; what is recorded beyond that is parsing.
    expected = {
        "start_s": 0.003, "downlink_s": 0.2, "compute_s": 0.357, "uplink_s": 0.1, "update_s": 0.04,
    }  # fmt: skip
    assert cut(chain(steps=2)) == [pytest.approx(expected)] * 2


def test_transfers_of_one_direction_wait_for_each_other() -> None:
    waiting = transfers(
        ("downlink", 20_000, 0, 900), ("downlink", 10_000, 50, 900), ("uplink", 5_000, 900, 950)
    )
    assert cut(waiting)[0]["downlink_s"] == pytest.approx(0.3)
    idle_between = transfers(
        ("downlink", 20_000, 0, 900), ("downlink", 10_000, 250, 900), ("uplink", 5_000, 900, 950)
    )
    assert cut(idle_between)[0]["downlink_s"] == pytest.approx(0.35)


def test_what_is_sent_up_during_the_downlink_or_carries_nothing_starts_no_uplink() -> None:
    made = transfers(
        ("downlink", 0, 0, 1),
        ("downlink", 10_000, 5, 105),
        ("uplink", 4, 50, 51),
        ("uplink", 0, 120, 121),
        ("uplink", 10_000, 200, 300),
    )
    (row,) = cut(made)
    assert row["start_s"] == pytest.approx(0.005)
    assert row["compute_s"] == pytest.approx(0.095)
    assert row["uplink_s"] == pytest.approx(0.1)


def test_captured_packets_come_before_the_model_of_the_link() -> None:
    made = transfers(("downlink", 10_000, 0, 300), ("uplink", 10_000, 400, 700))
    (row,) = cut(made, streams((0, 0, 20, 250), (0, 1, 410, 690)))
    assert list(row.values()) == pytest.approx([0.02, 0.23, 0.16, 0.28, 0.01])
    assert cut(made, streams()) == cut(made)
    with pytest.raises(BadInput, match="data in both directions, found none"):
        cut(made, streams((0, 0, 20, 250)))


@given(
    moments=st.lists(st.integers(0, 500), min_size=8, max_size=8),
    sizes=st.lists(st.integers(1, 50_000), min_size=4, max_size=4),
)
def test_phases_add_up_to_the_step(moments: list[int], sizes: list[int]) -> None:
    halves = zip(moments[::2], moments[1::2], strict=True)
    spans = [(min(half), max(half)) for half in halves]
    directions = ("downlink", "downlink", "uplink", "uplink")
    made = transfers(
        *(
            (direction, size, start, end)
            for direction, size, (start, end) in zip(directions, sizes, spans, strict=True)
        )
    )
    (row,) = cut(made)
    assert min(row.values()) >= 0
    assert sum(row.values()) == pytest.approx(max(end for _, end in spans) / 1e3)


def test_seconds_of_a_link_are_bytes_at_the_goodput_of_one_flow() -> None:
    made = raw_tables(chain(), {}, link=links([50e3, 150e3], [20e3]))
    assert transfer_s(made) == pytest.approx({(0, "downlink"): 0.2, (0, "uplink"): 0.5})
    only_down = made["operation"].filter(pl.col("resource") != "uplink")
    with pytest.raises(BadInput, match="expected uplink transfers that carry bytes"):
        transfer_s({**made, "operation": only_down})
    with pytest.raises(BadInput, match="expected uplink trials of a single flow"):
        transfer_s({**made, "link": links([50e3], [])})
