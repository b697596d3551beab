"""A few steps: draws say what they are worth on other families, and chosen ones tell most."""

import numpy as np
import pytest

from benchmarks import few
from models.predictddl import fitted
from models.predictddl.fitted import PredictDDL
from models.predictddl.learned import REGRESSORS
from tests.models.predictddl import study
from tests.models.predictddl.test_moved import known, slower


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitted, "REGRESSORS", {"none": REGRESSORS["none"]})
    monkeypatch.setattr(few, "DRAWS", 6)
    monkeypatch.setattr(few, "COUNTS", (1, 4, 8, 1000))


def test_few_runs_of_a_host_that_is_half_as_fast_again_are_worth_much() -> None:
    own = [slower(one) for one in study.scenarios(workers=(2,))]
    one, four, eight = few.errors(known(*own), np.random.default_rng(0))
    assert (one.own_runs, four.own_runs, eight.own_runs) == (1, 4, 8)
    assert one.alone is None
    assert four.alone is not None
    for found in (one, four, eight):
        # Of 1.5 s, 1 s are forecast.
        assert found.other_host == pytest.approx(100 / 3, rel=0.15)
        assert found.corrected < found.other_host / 3
        assert 0 <= found.inside <= 1 < found.width


def test_chosen_runs_leave_less_variance_than_others() -> None:
    fit = PredictDDL.fit(known())
    scenarios = study.scenarios()
    first, second = few.chosen(fit, scenarios, 2)
    assert first.workload.dnn != second.workload.dnn
    _, steps = fit.uncorrected(scenarios)
    left = [few.variance(steps, [place]) for place in range(len(scenarios))]
    assert left[scenarios.index(first)] == min(left)
    assert few.variance(steps, [scenarios.index(one) for one in (first, second)]) < min(left)
