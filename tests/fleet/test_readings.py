"""What probes say, from the figures of their windows."""

from math import exp, log, sqrt

import pytest

from fleet.readings import METRICS, readings
from profilers.watch import probe as watch
from tests.fleet.probes import Figures, windows
from warehouse.records import BadInput


def test_a_reading_is_the_geometric_mean_of_its_windows() -> None:
    probe: Figures = {watch.STEP_TIME: [1, 4], watch.TO_SERVER: [10, 40], watch.GAUGE_US: [50, 200]}
    rows = {row["metric"]: row for row in readings(windows([probe], ["a"])).iter_rows(named=True)}
    assert rows.keys() == {watch.STEP_TIME, watch.TO_SERVER}
    step, link = rows[watch.STEP_TIME], rows[watch.TO_SERVER]
    assert (step["value"], link["value"]) == (pytest.approx(2), pytest.approx(20))
    assert step["slowness"] == pytest.approx(log(2))
    assert link["slowness"] == pytest.approx(-log(20))
    assert step["host"] == pytest.approx(log(100))
    assert link["host"] is None
    assert (step["boot"], step["paced"]) == ("a", False)


def test_noise_is_what_windows_scatter_beyond_the_host() -> None:
    followed: Figures = {watch.STEP_CPU: [1, 2], watch.GAUGE_US: [50, 100]}
    (row,) = readings(windows([followed], ["a"])).iter_rows(named=True)
    assert row["noise"] == pytest.approx(0, abs=1e-12)
    alone: Figures = {watch.STEP_CPU: [1, exp(0.2)], watch.GAUGE_US: [50, 50]}
    (row,) = readings(windows([alone], ["a"])).iter_rows(named=True)
    assert row["noise"] == pytest.approx(0.2 / sqrt(2) / sqrt(2))


def test_steady_cores_have_less_of_each_second_the_faster_the_host_is() -> None:
    probe: Figures = {
        watch.CPU_SHARE: [0.15, 0.1],
        watch.HOST_GFLOPS: [50, 75],
        watch.GAUGE_US: [90, 91],
    }
    (row,) = readings(windows([probe], ["a"])).iter_rows(named=True)
    assert row["paced"]
    assert row["host"] == pytest.approx(-log(sqrt(50 * 75)))
    assert row["noise"] == pytest.approx(0, abs=1e-12)


def test_memory_is_beside_the_memory_of_the_host() -> None:
    speeds: Figures = {watch.HOST_MEMORY: [8e9, 4e9], watch.HOST_GFLOPS: [50, 50]}
    (row,) = readings(windows([{watch.MEMORY: [6e9, 3e9], **speeds}], ["a"])).iter_rows(named=True)
    assert not row["paced"]
    assert row["host"] == pytest.approx(-log(sqrt(8e9 * 4e9)))
    assert row["noise"] == pytest.approx(0, abs=1e-12)


def test_a_single_window_has_no_noise_and_no_gauge_is_no_host() -> None:
    rows = readings(windows([{metric: [2.0] for metric in METRICS}], ["a"]))
    assert rows["noise"].to_list() == [0.0] * len(METRICS)
    assert rows["host"].null_count() == len(METRICS)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_what_is_no_figure_is_refused(value: float) -> None:
    strange = windows([{watch.MEMORY: [5e9, value]}], ["a"])
    with pytest.raises(BadInput, match="run probe-0: expected watch_memory_Bps to be a positive"):
        readings(strange)
