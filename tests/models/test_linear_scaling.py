"""Linear scaling: closed forms, and its two trainings against each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.linear_scaling import (
    LinearScaling,
    fit,
    step_time_s,
    steps_per_s,
)
from tests.models.mixed import both_samples, both_tables, mixed
from tests.models.runs import run_tables, samples, scenario
from warehouse.records import BadInput

SECONDS = st.floats(1e-3, 1e3)


def test_w_workers_do_w_times_the_steps_of_one() -> None:
    assert steps_per_s([(4, 0.5)]) == 8
    assert steps_per_s([(2, 0.5), (3, 2.0)]) == 5.5


def test_the_slowest_decides_where_all_wait() -> None:
    assert step_time_s([0.5, 2.0, 1.0]) == 2


@given(st.integers(1, 100), SECONDS)
def test_like_workers_do_as_much_whether_they_wait_or_not(workers: int, alone_s: float) -> None:
    assert steps_per_s([(workers, alone_s)]) == pytest.approx(workers / step_time_s([alone_s]))


def fitted(*step_times_s: float | None) -> LinearScaling:
    runs, scenarios = run_tables()
    return fit(runs=runs, scenarios=scenarios, samples=samples({"step_time_s": step_times_s}))


def test_w_workers_do_w_times_the_steps_of_one_of_linear() -> None:
    cases = [scenario(workers) for workers in (1, 2, 4)]
    predicted = fitted(0.5).predict(cases)
    assert predicted["scenario_id"].to_list() == [case.scenario_id for case in cases]
    assert predicted["value"].to_list() == [2.0, 4.0, 8.0]
    assert predicted["low"].to_list() == predicted["high"].to_list() == [None] * 3


def test_mixed_workers_do_as_many_steps_as_each_alone() -> None:
    runs, scenarios = both_tables()
    seen = both_samples("step_time_s", 0.5, 2.0)
    model = fit(runs=runs, scenarios=scenarios, samples=seen)
    cases = [mixed({"emu.1c": 2, "emu.slow": 3}), mixed({"emu.1c": 1}), mixed({"emu.slow": 1})]
    assert model.predict(cases)["value"].to_list() == [2 / 0.5 + 3 / 2.0, 2.0, 0.5]
    assert LinearScaling.from_json(model.parameters_json()) == model
    with pytest.raises(BadInput, match=r"node_type 'emu\.2c', but the profile has 'emu\.1c'"):
        model.predict([mixed({"emu.1c": 2, "emu.2c": 1})])
    with pytest.raises(BadInput, match="expected step_time_s of a profile, found none"):
        fit(runs=runs, scenarios=scenarios, samples=seen.clear())


def test_the_metric_of_the_whole_run_goes_before_its_windows() -> None:
    for step_times_s in ((0.5, 9.0, 9.0), (None, 0.25, 0.75)):
        (profiled,) = fitted(*step_times_s).parameters.profiled
        assert profiled.step_time_s == 0.5


def test_another_link_is_refused() -> None:
    with pytest.raises(BadInput, match=r"the profile has a link of 0\.8 Mb/s"):
        fitted(0.5).predict([scenario(2, link_mbps=150.0)])
