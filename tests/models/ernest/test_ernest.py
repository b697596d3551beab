"""Ernest: its own coefficients, its design beside all others on a grid, its refusals."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import ernest
from models.ernest import ERNEST
from tests.models.predictddl import study
from warehouse.records import BadInput
from warehouse.requirements import Refusal


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 5), min_size=4, max_size=4))
def test_it_recovers_its_own_coefficients(planted: list[float]) -> None:
    rows = [ernest.terms(*point) for point in product((1, 2, 4, 8), (4, 8, 16))]
    coefficients = ernest.fit(rows, [float(row @ np.array(planted)) for row in rows])
    np.testing.assert_allclose(coefficients, planted, atol=1e-6)


def spread(weights: np.ndarray, rows: np.ndarray) -> float:
    """Return the trace of the inverse of the information, as section 3.3 has it."""
    return float(np.trace(np.linalg.inv((rows.T * weights) @ rows + 1e-6 * np.eye(4))))


def test_its_design_is_about_as_good_as_any_on_a_grid_for_its_cost() -> None:
    points, budget = list(product(ernest.MACHINES, (2, 4))), ernest.BUDGET
    rows = np.array([ernest.terms(*point) for point in points])
    rows = rows / np.linalg.norm(rows, axis=0)
    cost = np.array([count * each for count, each in points], float)
    cost = cost / cost.sum()
    weights = ernest.weights(points)
    assert weights @ cost <= budget + 1e-6
    grid = [
        np.array(candidate)
        for candidate in product((0, 0.25, 0.5, 0.75, 1), repeat=len(points))
        if np.array(candidate) @ cost <= budget
    ]
    best = min(spread(candidate, rows) for candidate in grid)
    assert spread(weights, rows) <= best * 1.001
    assert set(ernest.design(4)) == {
        point for point, weight in zip(points, weights, strict=True) if weight > 0.1
    }


def test_its_own_runs_are_fewer_machines_or_images_of_the_job() -> None:
    scenario = study.scenario("ant", 8, 12, "slow")
    asks = ERNEST.requires(scenario)
    assert not isinstance(asks, Refusal)
    for ask in asks:
        assert ask.scenario.strategy.workers == ask.scenario.nodes[0].count <= 4
        assert ask.scenario.workload.batch_size in (6, 12)
        assert ask.scenario.nodes[0].node_type == "slow"
    assert len({ask.scenario for ask in asks}) == len(asks) >= 4


def test_probed_it_forecasts_more_machines_of_a_job_and_refuses_other_jobs() -> None:
    job = [study.scenario("ant", *cell) for cell in product((1, 2, 4), (6, 12))]
    fitted = ERNEST.fit(study.raw_tables(job))
    scenario = study.scenario("ant", 8, 12)
    (value,) = fitted.predict([scenario])["value"]
    assert value == pytest.approx(study.step_s(scenario), rel=0.1)
    with pytest.raises(BadInput, match=r"Ernest has no run of bee 32px fast 500\.0"):
        fitted.predict([study.scenario("bee", 8, 12)])


def test_each_type_of_a_mix_has_its_own_batch() -> None:
    """As the runs of each type had it; the step takes as long as the slower type."""
    alone = [study.scenario("ant", 4, 12, "fast"), study.scenario("ant", 4, 4, "slow")]
    nodes = tuple(
        of.nodes[0].model_copy(update={"count": 2, "batch_size": of.workload.batch_size})
        for of in alone
    )
    mix = alone[1].model_copy(update={"nodes": nodes})
    asks = ERNEST.requires(mix)
    assert not isinstance(asks, Refusal)
    fitted = ERNEST.fit(study.raw_tables(list({ask.scenario for ask in asks})))
    together, *each = fitted.predict([mix, *alone])["value"]
    assert together == max(each)
    assert each[0] != pytest.approx(each[1], rel=0.01)
