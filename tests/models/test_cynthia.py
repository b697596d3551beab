"""The printed equation, worked out by hand."""

import pytest

from models.cynthia import Cynthia, fit
from tests.models.async_sgd.frames import chain
from tests.models.runs import links, run_tables, samples, scenario
from warehouse.records import BadInput


def fitted(
    step_time_s: float = 0.75, *, untraced_us: int = 1_000_000, halved: bool = False
) -> Cynthia:
    """Fit to a step that computes 300 ms and transfers 200 ms down and 100 ms up."""
    made = chain(untraced_us=[untraced_us])
    runs, scenarios = run_tables()
    return fit(
        runs=runs,
        scenarios=scenarios,
        operations=made.operations,
        timings=made.timings,
        steps=made.steps,
        samples=samples({"step_time_s": [step_time_s]}),
        links=links([100e3], [100e3]),
        halved=halved,
    )


def throughput(model: Cynthia, *workers: int) -> list[float]:
    return model.predict([scenario(count) for count in workers])["value"].to_list()


def test_the_printed_equation() -> None:
    model = fitted()
    assert (model.parameters.compute_s, model.parameters.transfer_s) == pytest.approx((0.3, 0.15))
    assert model.parameters.utilisation == pytest.approx(0.4)
    # max(1, W U) is 1, 1, and 4 x 0.4.
    expected = [1 / 0.6, 2 / 0.6, 4 / (0.3 * 1.6 + 0.3)]
    assert throughput(model, 1, 2, 4) == pytest.approx(expected)


def test_halved_transfers_halve_the_utilisation_too() -> None:
    model = fitted(halved=True)
    assert model.parameters.utilisation == pytest.approx(0.2)
    expected = [1 / 0.45, 4 / 0.45, 10 / (0.3 * 2 + 0.15)]
    assert throughput(model, 1, 4, 10) == pytest.approx(expected)


def test_the_cost_of_tracing_is_taken_off_the_computation() -> None:
    assert fitted(untraced_us=600_000).parameters.compute_s == pytest.approx(0.2)
    assert fitted(untraced_us=100_000).parameters.compute_s == pytest.approx(0.15)


def test_many_workers_approach_a_limit() -> None:
    limit = 1 / (0.3 * 0.4)
    values = throughput(fitted(), 10, 100, 1000)
    assert values == sorted(values)
    assert values[-1] == pytest.approx(limit, rel=0.01)
    assert values[-1] < limit


def test_bad_input() -> None:
    with pytest.raises(BadInput, match="expected step_time_s above 0"):
        fitted(0.0)
    with pytest.raises(BadInput, match="this model does not change that"):
        fitted().predict([scenario(2, servers=2)])
