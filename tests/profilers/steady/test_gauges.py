"""The gauge times work while it runs, and only then."""

import time
from datetime import UTC, datetime
from threading import active_count

from profilers.steady.gauges import GAUGE, Gauge, MemoryGauge
from profilers.steady.hostlock import host_lock

ALWAYS = datetime.min.replace(tzinfo=UTC)


def test_work_is_timed_while_it_runs() -> None:
    gauge, threads = Gauge(), active_count()
    assert gauge.mean_us(ALWAYS) is None
    with gauge.running():
        time.sleep(2)
    mean_us = gauge.mean_us(ALWAYS)
    # 64 KiB: from 2 GB/s with instructions for it to 50 MB/s without, on a slow processor.
    assert mean_us is not None
    assert 20 < mean_us < 2000
    assert active_count() == threads
    assert gauge.mean_us(datetime.now(UTC)) is None


def test_it_runs_while_the_host_lock_is_held() -> None:
    started = datetime.now(UTC)
    with host_lock():
        time.sleep(0.3)
    assert GAUGE.mean_us(started) is not None


def test_copies_have_a_speed_each_time() -> None:
    gauge = MemoryGauge(1 << 20)
    for _ in range(2):
        with gauge.running():
            pass
        assert 1e8 < gauge.speed_Bps < 1e13
