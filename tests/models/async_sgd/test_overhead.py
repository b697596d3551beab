"""Lines that are known come out; what is not there is refused."""

import numpy as np
import polars as pl
import pytest

from models.async_sgd.overhead import fit, overheads
from tests.models.async_sgd.captures import streams
from tests.models.async_sgd.frames import RECEIVE, chain
from warehouse.records import BadInput

SIZES = np.array([0, 256, 10_000, 1_000_000, 8_000_000])


def measured(role: str, alpha: float, beta: float, noise_s: float = 0.0) -> pl.DataFrame:
    random = np.random.default_rng(1)
    sizes = np.repeat(SIZES, 200)
    overhead_s = alpha * sizes + beta + random.normal(0, noise_s, len(sizes))
    return pl.DataFrame(
        {"role": [role] * len(sizes), "size_bytes": sizes, "overhead_s": overhead_s}
    )


def test_overhead_lasts_from_the_last_packet_to_the_recorded_end() -> None:
    made = chain()
    captured = streams((0, RECEIVE, 5_000, 205_000))
    rows = overheads(captured, made.operations, made.timings, made.steps)
    assert rows.rows() == [(0, RECEIVE, "worker", 20_000, pytest.approx(0.048))]


def test_roles_have_lines_of_their_own() -> None:
    rows = pl.concat([measured("worker", 2e-9, 1e-3), measured("server", 5e-10, 2e-4)])
    worker, server = fit(rows, {"worker": "small", "server": "big"})
    assert (worker.node_type, worker.role, worker.n) == ("small", "worker", 1000)
    assert (worker.alpha_s_per_byte, worker.beta_s) == pytest.approx((2e-9, 1e-3))
    assert (server.alpha_s_per_byte, server.beta_s) == pytest.approx((5e-10, 2e-4))
    assert worker.r_squared == pytest.approx(1)
    assert worker.seconds(1_000_000) == pytest.approx(3e-3)


def test_intervals_hold_the_truth_and_noise_lowers_r_squared() -> None:
    (noisy,) = fit(measured("worker", 2e-9, 1e-3, noise_s=5e-3), {"worker": "small"}, 0.99)
    assert noisy.alpha_low < 2e-9 < noisy.alpha_high
    assert noisy.beta_low < 1e-3 < noisy.beta_high
    assert 0 < noisy.r_squared < 0.9
    (narrower,) = fit(measured("worker", 2e-9, 1e-3, noise_s=5e-3), {"worker": "small"}, 0.5)
    assert narrower.alpha_high - narrower.alpha_low < noisy.alpha_high - noisy.alpha_low


def test_no_line_through_one_size() -> None:
    rows = measured("worker", 2e-9, 1e-3).filter(size_bytes=256)
    with pytest.raises(BadInput, match=r"overhead of small as worker: .* 200 of 1 sizes"):
        fit(rows, {"worker": "small"})
