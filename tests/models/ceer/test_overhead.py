import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.ceer.overhead import DeviceOverhead, fit, overheads
from tests.models.ceer.frames import observed, operation, step, steps
from warehouse.records import BadInput

PROFILES = observed(*(operation(dnn, "Relu", 1e5, count=2) for dnn in "abcdef"))
"""Steps of which operations take 0.2 s."""


def test_overhead_is_what_operations_do_not_take() -> None:
    rows = overheads(
        steps(
            step("a", 0.25, 10**6),
            step("a", 0.35, 10**6),
            step("a", 0.50, 10**6, devices=2, link_mbps=100.0),
            step("z", 9.0, 10**6),
        ),
        PROFILES,
    )
    assert rows.select("devices", "step_s", "operations_s").rows() == [
        (1, pytest.approx(0.30), pytest.approx(0.2)),
        (2, pytest.approx(0.50), pytest.approx(0.2)),
    ]
    # S_2 = S_1 + (T_2 - T_1).
    first, second = rows["overhead_s"]
    assert second == pytest.approx(first + (0.50 - 0.30))


@given(
    times=st.lists(st.floats(0.01, 10), min_size=2, max_size=6), parameters=st.integers(1, 10**9)
)
def test_equation_2_is_an_identity_on_what_was_measured(
    times: list[float], parameters: int
) -> None:
    rows = [step("a", s, parameters, devices=k + 1) for k, s in enumerate(times)]
    frame = overheads(steps(*rows), PROFILES)
    whole = frame["operations_s"] + frame["overhead_s"]
    assert whole.to_list() == pytest.approx(times)


def lines(constant_s: float = 0.005, per_operation: float = 0.0) -> pl.DataFrame:
    """Return overheads of a constant, 2 ns per parameter and a share of unequal operations."""
    rows = []
    for i, dnn in enumerate("abcdef"):
        parameters, operations_s = (3 * i + 1) * 10**6, 0.1 * ((i * i) % 5 + 1)
        overhead_s = constant_s + 2e-9 * parameters + per_operation * operations_s
        rows.append(
            step(dnn, operations_s + overhead_s, parameters)
            | {"operations_s": operations_s, "overhead_s": overhead_s}
        )
    return pl.DataFrame(rows, schema_overrides={"link_mbps": pl.Float64})


@pytest.mark.parametrize("published", [True, False])
def test_a_line_in_parameters_is_found(published: bool) -> None:
    (line,) = fit(lines(), published)
    assert line.intercept_s == pytest.approx(0.005)
    assert line.per_parameter_s == pytest.approx(2e-9)
    assert line.per_operation_s == pytest.approx(0, abs=1e-9)
    assert line.predict_s(10**8, 1.0) == pytest.approx(0.205)
    assert line.error == pytest.approx(0, abs=1e-9)


def test_operations_that_overlap_are_seen() -> None:
    (own,) = fit(lines(0.0, -0.3), published=False)
    assert own.per_operation_s == pytest.approx(-0.3)
    assert own.predict_s(10**6, 1.0) == pytest.approx(0.002 - 0.3)
    (paper,) = fit(lines(0.0, -0.3), published=True)
    assert paper.per_operation_s == 0
    assert paper.error is not None
    assert own.error is not None
    assert paper.error > 100 * own.error


def test_steps_of_several_devices_add_a_line_to_what_one_takes() -> None:
    # S_1 is known of six DNNs, T_2 − T_1, 0.1 s and 9 ns per parameter, of three.
    rows = lines(0.0, -0.3)
    more_s = 0.1 + 9e-9 * pl.col("parameter_count")
    rows_of_two = rows.head(3).with_columns(
        pl.col("overhead_s", "step_s") + more_s,
        devices=pl.lit(2, pl.Int64),
        distributed=pl.lit(True),
        link_mbps=pl.lit(100.0),
    )
    alone, together = fit(pl.concat([rows, rows_of_two]), published=False)
    assert alone.predict_s(10**8, 1.0) == pytest.approx(0.2 - 0.3)
    assert together.predict_s(10**8, 1.0) == pytest.approx(0.2 - 0.3 + 0.1 + 0.9)
    assert (together.devices, together.link_mbps) == (2, 100.0)
    (only,) = fit(rows_of_two, published=False)
    assert (only.alone, only.per_operation_s) == (None, 0.0), "as in the paper: a line"


def ring(*devices: int, node_type: str = "slow", factor: float = 1.0) -> pl.DataFrame:
    """Return S of one device and of several in a ring, of DNNs of 4 to 64 million parameters.

    To each parameter several devices add 2 ns, 9 ns for what travels, and 3 ns more for that where
    the messages, a share of the gradients of 4 bytes, have more than 50 MB; all times a factor.
    """
    rows = lines(0.0).with_columns(pl.col("parameter_count") * 4, node_type=pl.lit(node_type))
    parameters = pl.col("parameter_count")
    several = []
    for k in devices:
        large = parameters > 12.5e6 * k
        travel = pl.when(large).then(12e-9).otherwise(9e-9) * (k - 1) / k
        more_s = factor * parameters * (2e-9 + travel)
        added = rows.with_columns(pl.col("overhead_s", "step_s") + more_s)
        several.append(
            added.with_columns(
                devices=pl.lit(k, pl.Int64), distributed=pl.lit(True), link_mbps=pl.lit(100.0)
            )
        )
    return pl.concat([rows, *several])


def more_s(overhead: DeviceOverhead, parameters: float) -> float:
    """Return what several devices add."""
    assert overhead.alone is not None
    return overhead.predict_s(parameters, 0.1) - overhead.alone.predict_s(parameters, 0.1)


def test_gradients_that_travel_take_longer_where_messages_are_large() -> None:
    rows = ring(2, 3, 4)
    _, *several = fit(rows, published=False)
    assert [line.devices for line in several] == [2, 3, 4]
    for line in several:
        k, most = line.devices, 12.5e6 * line.devices
        sent = (k - 1) / k
        assert more_s(line, most - 1e3) == pytest.approx((most - 1e3) * (2e-9 + 9e-9 * sent))
        assert more_s(line, most + 1e3) == pytest.approx((most + 1e3) * (2e-9 + 12e-9 * sent))
        assert line.error == pytest.approx(0, abs=1e-6)
    _, *paper = fit(rows, published=True)
    assert all(line.per_large_parameter_s == 0 for line in paper)


def test_what_cannot_be_fitted_is_named() -> None:
    for row in (step("a", 0.0, 1), step("a", 1.0, 1, parameter_count=None)):
        with pytest.raises(BadInput, match="expected step_s and parameter_count above 0"):
            overheads(steps(row), PROFILES)
    with pytest.raises(BadInput, match="found none for 1 steps"):
        overheads(steps(step("z", 1.0, 1)), PROFILES)
