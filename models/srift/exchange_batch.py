"""The exchanges of many configurations at once: `simulator.exchange_s` on arrays."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def exchange_s(
    starts_s: Floats,
    wire_bytes: Floats,
    bus_Bps: Floats,
    cap_Bps: Floats,
    most: int | None = None,
    slowdown: float = 0.0,
    hindrance: float = 0.0,
) -> Floats:
    """Return when each exchange ends, seconds after its backward pass began.

    Every turn of the loop processes one event, a start or a finish, of every exchange that still
    goes on.

    Args:
        starts_s: [rows, transfers], rising in each row; infinite where a row has fewer transfers.
        wire_bytes: [rows, transfers], 2s(n − 1)/n.
        bus_Bps: [rows, transfers], above 0.
        cap_Bps: [rows], may be infinite.
        most: how many transfers of a row go on at a time; None: all.
        slowdown: of the backward pass while any transfer goes on.
        hindrance: by which part of its time a transfer takes longer as long as the backward pass
            goes on.

    Returns:
        [rows]
    """
    rows, transfers = starts_s.shape
    ends_s = np.zeros(rows)
    if not transfers:
        return ends_s
    starts = np.hstack([starts_s, np.full((rows, 1), np.inf)])
    left = wire_bytes.astype(np.float64, copy=True)
    # Only active transfers have a rate; a row's place says which of its transfers starts next.
    active = np.zeros((rows, transfers), dtype=bool)
    limit = transfers if most is None else most
    place, now_s, index = np.zeros(rows, dtype=np.int64), np.zeros(rows), np.arange(rows)
    computed_s = np.zeros(rows)
    bus, cap = bus_Bps, cap_Bps
    # The end of a pass that hinders transfers is an event too: what starts then may have to wait.
    pass_s = np.where(np.isfinite(starts_s), starts_s, 0.0).max(axis=1) * (hindrance > 0)
    while len(index):
        each = np.arange(len(index))
        count = active.sum(axis=1)
        crowded = np.where(active, bus, 0.0).sum(axis=1) >= cap
        share = np.where(crowded, cap / np.maximum(count, 1), np.inf)
        computing = computed_s < pass_s
        rate = np.minimum(bus, share[:, None]) / np.where(computing, 1 + hindrance, 1.0)[:, None]
        finish = np.where(active, left / rate, np.inf)
        first = finish.argmin(axis=1)
        finish_s, pace = now_s + finish[each, first], np.where(count > 0, 1 + slowdown, 1.0)
        start_s = now_s + np.maximum(starts[each, place] - computed_s, 0.0) * pace
        start_s[count >= limit] = np.inf
        end_s = np.where(computing, now_s + (pass_s - computed_s) * pace, np.inf)
        next_s = np.minimum(np.minimum(finish_s, start_s), end_s)
        done = np.isinf(next_s)
        if done.any():
            ends_s[index[done]] = now_s[done]
            keep = ~done
            index, starts, left, active = index[keep], starts[keep], left[keep], active[keep]
            place, now_s, bus, cap = place[keep], now_s[keep], bus[keep], cap[keep]
            pass_s, end_s = pass_s[keep], end_s[keep]
            rate, first, finish_s, pace = rate[keep], first[keep], finish_s[keep], pace[keep]
            start_s, next_s, computed_s = start_s[keep], next_s[keep], computed_s[keep]
            each = np.arange(keep.sum())
        left -= np.where(active, rate * (next_s - now_s)[:, None], 0.0)
        np.maximum(left, 0.0, out=left)
        finishes = (finish_s <= start_s) & (finish_s <= end_s)
        begins = (start_s < finish_s) & (start_s <= end_s)
        active[each[finishes], first[finishes]] = False
        active[each[begins], place[begins]] = True
        place += begins
        computed_s, now_s = computed_s + (next_s - now_s) / pace, next_s
        ends = ~finishes & ~begins
        computed_s[ends] = pass_s[ends]
    return ends_s
