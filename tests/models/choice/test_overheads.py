"""Time beside training: closed forms, and a simulation of nodes that are taken away."""

from math import exp, sqrt
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.choice.overheads import daly, young_s


def test_young_s_interval_is_the_one_of_his_paper() -> None:
    """The square root of twice the time of a checkpoint times the mean time between failures."""
    assert young_s(5, 1 / 3600) == pytest.approx(sqrt(2 * 5 * 3600))


def test_one_uninterrupted_piece_is_the_known_mean_time_of_retrying() -> None:
    """Restarting a task of length s until it succeeds takes (e^(λs) - 1) / λ."""
    rate, task = 1 / 500, 800.0
    assert daly(task, 0, 0, rate) * task == pytest.approx((exp(rate * task) - 1) / rate)


@given(st.floats(10, 1e4), st.floats(0.1, 100), st.floats(0, 600), st.floats(1e-7, 1e-4))
def test_a_job_takes_longer_than_its_training_and_checkpoints(
    every: float, write: float, restart: float, rate: float
) -> None:
    assert daly(every, write, restart, rate) >= 1 + write / every - 1e-9


def test_youngs_interval_is_close_to_the_best() -> None:
    rate, write = 1 / 36_000, 10.0
    best = min(daly(every, write, 60, rate) for every in range(100, 4000, 10))
    assert daly(young_s(write, rate), write, 60, rate) == pytest.approx(best, rel=1e-3)


def test_a_simulated_job_takes_what_is_expected() -> None:
    """Failures come at any time, while restarting too; work since the last checkpoint is lost."""
    random, rate = Random(2), 1 / 400
    every, write, restart, pieces = 100.0, 10.0, 50.0, 20

    def job() -> float:
        now = 0.0
        for _ in range(pieces):
            needed = every + write
            while (life := random.expovariate(rate)) < needed:
                now += life
                needed = restart + every + write
            now += needed
        return now

    mean = sum(job() for _ in range(3000)) / 3000
    # Daly lets a restart that is not interrupted come before each retry.
    assert daly(every, write, restart, rate) * every * pieces == pytest.approx(mean, rel=0.03)
