"""Baselines of asynchronous training on jobs whose figures can be worked out by hand.

A step takes 3 ms to start, 200 down, 50 of parsing, 7 of stall and 300 of computing, 100 up, 40 of
updates.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.baselines import (
    LINEAR,
    Cynthia,
    IdealScaling,
    fit_cynthia,
    fit_ideal_scaling,
    fit_line_rate,
    fit_linear_scaling,
    mva,
)
from models.profiled_run import PointForecaster
from tests.models.async_sgd.frames import chain
from tests.models.mixed import both_samples, both_tables, mixed
from tests.models.runs import links, raw_tables, samples, scenario
from tests.models.srift import study as srift
from warehouse.records import BadInput, Scenario


def values(model: PointForecaster, *workers: int) -> list[float]:
    return model.predict([scenario(count) for count in workers])["value"].to_list()


def fitted_cynthia(
    step_time_s: float = 0.75, *, untraced_us: int = 1_000_000, halved: bool = False
) -> Cynthia:
    made = chain(untraced_us=[untraced_us])
    return fit_cynthia(raw_tables(made, {"step_time_s": [step_time_s]}), halved=halved)


def test_cynthia_is_the_printed_equation() -> None:
    model = fitted_cynthia()
    assert (model.compute_s, model.transfer_s) == pytest.approx((0.3, 0.15))
    assert model.utilisation == pytest.approx(0.4)
    # max(1, W U) is 1, 1, and 4 x 0.4.
    assert values(model, 1, 2, 4) == pytest.approx([1 / 0.6, 2 / 0.6, 4 / (0.3 * 1.6 + 0.3)])
    assert values(model, 10_000) == pytest.approx([1 / (0.3 * 0.4)], rel=0.01)


def test_the_cost_of_tracing_is_taken_off_the_computation() -> None:
    assert fitted_cynthia(untraced_us=600_000).compute_s == pytest.approx(0.2)
    assert fitted_cynthia(untraced_us=100_000).compute_s == pytest.approx(0.15)


DEMANDS = st.lists(st.floats(0.001, 10), min_size=1, max_size=4)


@pytest.mark.parametrize("customers", [1, 2, 7])
def test_queues_have_closed_forms(customers: int) -> None:
    """X = n / (D (n + K - 1)) with K queues of demand D (Lazowska et al., 1984, section 5.4)."""
    assert mva([0.25], 0.0, customers) == pytest.approx(4.0)
    balanced = customers / (0.5 * (customers + 2))
    assert mva([0.5] * 3, 0.0, customers) == pytest.approx(balanced)


@given(demands_s=DEMANDS, delay_s=st.floats(0, 10), customers=st.integers(1, 30))
def test_throughput_grows_within_its_bounds(
    demands_s: list[float], delay_s: float, customers: int
) -> None:
    now, more = (mva(demands_s, delay_s, count) for count in (customers, customers + 1))
    assert now <= more * (1 + 1e-12)
    alone_s = delay_s + sum(demands_s)
    assert more <= min(1 / max(demands_s), (customers + 1) / alone_s) * (1 + 1e-12)


@pytest.mark.parametrize(("speeds", "bound"), [((100e3, 100e3), 5.0), ((400e3, 100e3), 10.0)])
def test_the_busier_direction_counts_whatever_w(speeds: tuple[float, float], bound: float) -> None:
    """Steps are of 20 kB down and 10 kB up."""
    model = fit_line_rate(raw_tables(chain(), {}, link=links([speeds[0]], [speeds[1]])))
    assert values(model, 1, 2, 9) == pytest.approx([bound] * 3)
    assert model.value(mixed({"emu.1c": 2, "emu.slow": 1})) == pytest.approx(bound)


def test_w_workers_do_w_times_the_steps_of_one() -> None:
    cases = [scenario(workers) for workers in (1, 2, 4)]
    predicted = fit_linear_scaling(raw_tables(chain(), {"step_time_s": [0.5]})).predict(cases)
    assert predicted["scenario_id"].to_list() == [case.scenario_id for case in cases]
    assert predicted["value"].to_list() == [2.0, 4.0, 8.0]
    assert predicted["low"].to_list() == predicted["high"].to_list() == [None] * 3


def test_mixed_workers_do_as_many_steps_as_each_alone() -> None:
    runs, scenarios = both_tables()
    tables = {"run": runs, "scenario": scenarios, "sample": both_samples("step_time_s", 0.5, 2.0)}
    model = fit_linear_scaling(tables)
    cases = [mixed({"emu.1c": 2, "emu.slow": 3}), mixed({"emu.1c": 1}), mixed({"emu.slow": 1})]
    assert model.predict(cases)["value"].to_list() == [2 / 0.5 + 3 / 2.0, 2.0, 0.5]
    assert LINEAR.load(model.parameters_json(), tables) == model
    with pytest.raises(BadInput, match="expected step_time_s of a profile, found none"):
        fit_linear_scaling({**tables, "sample": samples({})})


@pytest.fixture(scope="module")
def ideal() -> IdealScaling:
    """Return the baseline, fitted to the made-up study."""
    return fit_ideal_scaling(srift.tables())


def test_an_iteration_is_that_of_the_slowest_node(ideal: IdealScaling) -> None:
    """8 samples take 3 x 0.01 s each on the fast type and twice that on the slow, plus 0.1 s."""
    scenarios = [
        srift.scenario(srift.group("fast")),
        srift.scenario(srift.group("fast", 7)),
        srift.scenario(srift.group("fast", 3), srift.group("slow")),
        srift.scenario(srift.group("fast", 3, batch_size=20), srift.group("slow", batch_size=4)),
    ]
    predicted = ideal.predict(scenarios)
    assert predicted["value"].to_list() == pytest.approx([0.34, 0.34, 0.58, 0.7])
    assert predicted["low"].null_count() == 4


@pytest.mark.parametrize(
    "asked",
    [srift.scenario(srift.group("other")), srift.scenario(srift.group("fast"), dnn="squeezenet")],
)
def test_what_was_not_profiled_is_refused(ideal: IdealScaling, asked: Scenario) -> None:
    with pytest.raises(BadInput, match="has no compute profile on"):
        ideal.predict([asked])
