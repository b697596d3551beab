"""The speed of the host's memory, by copies of this process."""

import pytest

from profilers.steady.gauges import MemoryGauge


def test_copies_have_a_speed_each_time() -> None:
    gauge = MemoryGauge(1 << 20)
    for _ in range(2):
        with gauge.running():
            pass
        assert 1e8 < gauge.speed_Bps < 1e13


def test_what_has_not_run_has_no_speed() -> None:
    with pytest.raises(ValueError, match="has not run"):
        _ = MemoryGauge(1 << 10).speed_Bps
