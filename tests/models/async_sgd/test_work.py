"""What occupies a resource since when, and what of that is whose work."""

import pytest

from models.async_sgd.trace import ready_us, work_seconds
from tests.models.async_sgd.graphs import D, Op, P, W, job

GRAPH, _ = job(Op(D, 5), Op(W, 1, (0,)), Op(W, 1, (0,)), Op(P, 1, (1, 2)), Op(W, 1))
INTERVALS = [(2, 10), (12, 30), (20, 40), (45, 50), (3, 5)]


def test_inputs_are_there_when_the_last_of_them_ended() -> None:
    assert ready_us(GRAPH, INTERVALS) == [2, 10, 10, 40, 3]


@pytest.mark.parametrize(
    ("cores", "serial", "first", "second"),
    # Both wait from 10 us on; one ends at 30, the other at 40.
    [(1.0, False, 10, 20), (2.0, False, 20, 30), (1.0, True, 20, 10)],
)
def test_time_goes_to_all_that_wait_or_run(
    cores: float, serial: bool, first: float, second: float
) -> None:
    found = [1e6 * seconds for seconds in work_seconds(GRAPH, INTERVALS, cores, serial)]
    assert found == pytest.approx([0, first, second, 10, 2])
