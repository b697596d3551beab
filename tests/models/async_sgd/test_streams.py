"""Links of 1 MB/s, 1 byte per microsecond: figures are microseconds and bytes alike."""

import pytest

from models.async_sgd.streams import end_times, errors
from tests.models.async_sgd.captures import served
from warehouse.records import BadInput


def test_streams_are_sent_one_after_the_other() -> None:
    """The second comes while the first is sent; the third comes to an idle link."""
    rows = served((1, 100, 0, 0, 100), (3, 50, 20, 100, 160), (5, 10, 400, 400, 400))
    found = end_times(rows, "downlink", 1e6, None)
    assert found["predicted_us"].to_list() == [100, 150, 410]
    assert found["error"].to_list() == pytest.approx([0, 10 / 160, 10 / 400])


def test_the_window_suspends_a_stream() -> None:
    """WIN = 30: 1 sends 30, 3 its 20, then 1 the rest."""
    rows = served((1, 100, 0, 0, 120), (3, 20, 10, 30, 50))
    found = end_times(rows, "downlink", 1e6, 30)
    assert dict(found.select("operation", "predicted_us").rows()) == {1: 120, 3: 50}
    assert found["error"].to_list() == [0, 0]


def test_statistics() -> None:
    rows = served(*((2 * i + 1, 100, 1000 * i, 0, 1000 * i + 100) for i in range(1, 4)))
    found = errors(end_times(rows, "downlink", 0.5e6, None), "downlink")
    each = sorted(100 / (1000 * i + 100) for i in range(1, 4))
    assert (found.mean, found.median, found.maximum) == pytest.approx(
        (sum(each) / 3, each[1], each[2])
    )
    assert each[1] < found.p95 < each[2]
    assert found.n == 3


def test_nothing_captured_is_refused() -> None:
    nothing = end_times(served((1, 5, 0, 10, 15)), "uplink", 1e6, None)
    with pytest.raises(BadInput, match="no captured uplink streams"):
        errors(nothing, "uplink")
