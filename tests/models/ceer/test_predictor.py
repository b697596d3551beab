from typing import Any

import pytest

from models.ceer.parameters import Parameters
from models.ceer.predictor import fit, predict_steps
from tests.models.ceer.frames import MB, network, observed, operation, step, steps
from warehouse.records import BadInput

DNNS = ("a", "b", "c", "d", "e", "f")


def rows() -> list[dict[str, Any]]:
    """Return six DNNs on two node types: Conv2D 1000 us/MB (a fifth of it), Relu 50 us/MB."""
    operations = []
    for i, dnn in enumerate(DNNS, start=1):
        inputs = ((i * MB,),)
        for node, slowness in (("slow", 1.0), ("fast", 0.2)):
            us = slowness * i
            operations += [
                operation(dnn, "Conv2D", 1000 * us, node=node, inputs=inputs, count=2),
                operation(dnn, "Relu", 50 * us, node=node, inputs=inputs, count=3),
                operation(dnn, "DecodeJpeg", 10, node=node, inputs=((1,),)),
            ]
    return operations


def measured() -> list[dict[str, Any]]:
    """Return steps that take 1 ms and 1 ns per parameter more than operations, 3 ns for two."""
    step_rows = []
    for i, dnn in enumerate(DNNS, start=1):
        parameters = i * i * 10**6
        for node, slowness in (("slow", 1.0), ("fast", 0.2)):
            operations_s = (2150 * slowness * i + 10) / 1e6
            for devices, each_s in ((1, 1e-9), (2, 3e-9)):
                step_s = operations_s + 0.001 + each_s * parameters
                step_rows.append(step(dnn, step_s, parameters, node_type=node, devices=devices))
    return step_rows


def model(published: bool = False) -> Parameters:
    return fit(observed(*rows()), steps(*measured()), published)


def test_a_step_is_operations_and_overhead() -> None:
    new = network(
        operation("", "Conv2D", 0, inputs=((4 * MB,),), count=5),
        operation("", "Relu", 0, inputs=((2 * MB,),), count=7),
        operation("", "DecodeJpeg", 0, inputs=((1,),)),
        parameters=20_000_000,
    )
    forecasts = predict_steps(model(), new, "slow")
    assert forecasts.select("node_type", "devices").rows() == [("slow", 1), ("slow", 2)]
    last = forecasts.row(1, named=True)
    assert last["heavy_s"] == pytest.approx(5 * 4000e-6)
    assert last["light_s"] == pytest.approx(7 * 100e-6)
    assert last["cpu_s"] == pytest.approx(10e-6)
    assert last["overhead_s"] == pytest.approx(0.001 + 0.06)
    assert last["step_s"] == pytest.approx(0.02 + 0.0007 + 0.00001 + 0.061)
    assert last["unseen"] == []
    first = predict_steps(model(), new, "fast").row(0, named=True)
    assert first["heavy_s"] == pytest.approx(5 * 800e-6)
    assert first["step_s"] == pytest.approx(0.004 + 0.00014 + 0.00001 + 0.021)


def test_the_paper_takes_one_median_for_all_light_operations() -> None:
    paper = model(published=True)
    assert paper.light is not None
    # On two node types, of 50 to 300 and 10 to 60 us, three each: the 18th of 36 takes 50 us.
    assert paper.light.us == 50.0
    new = network(operation("", "Relu", 0, inputs=((2 * MB,),), count=7))
    step_s = predict_steps(paper, new, "fast")["light_s"][0]
    assert step_s == pytest.approx(7 * 50e-6)


def test_ablations_leave_a_part_out() -> None:
    new = network(operation("", "Conv2D", 0), operation("", "Relu", 0))
    whole, heavy, bare = (
        predict_steps(model(), new, "slow", frozenset(without)).row(0, named=True)
        for without in ((), ("light",), ("overhead",))
    )
    assert whole["step_s"] == pytest.approx(0.001 + 0.00005 + 0.001 + 0.01)
    assert heavy["step_s"] == pytest.approx(whole["step_s"] - 0.00005)
    assert (heavy["light_s"], heavy["cpu_s"]) == (0, 0)
    assert bare["step_s"] == pytest.approx(whole["step_s"] - 0.011)


def test_an_unseen_operation_that_may_be_heavy_is_named() -> None:
    new = network(
        operation("", "Conv2D", 0), operation("", "Einsum", 0, inputs=((3 * MB,),), count=2)
    )
    forecast = predict_steps(model(), new, "slow").row(0, named=True)
    assert forecast["unseen"] == ["Einsum"]
    assert forecast["step_s"] is None
    # It takes nothing, or 1000 us/MB as the slowest heavy type does.
    assert forecast["low_s"] == pytest.approx(0.001 + 0.011)
    assert forecast["high_s"] == pytest.approx(forecast["low_s"] + 2 * 3000e-6)


def test_unseen_operations_that_cannot_matter_leave_a_forecast() -> None:
    """Half of what they may take counts: of 0.6 ms in 112 ms. Twenty times as much is too much."""
    many = operation("", "Conv2D", 0, count=100)
    unseen = operation("", "Einsum", 0, inputs=((6 * MB // 10,),))
    forecast = predict_steps(model(), network(many, unseen), "slow").row(0, named=True)
    assert forecast["unseen"] == []
    assert forecast["step_s"] == pytest.approx(0.1 + 0.011 + 0.0003)
    assert forecast["low_s"] == pytest.approx(0.1 + 0.011)
    assert forecast["high_s"] == pytest.approx(0.1 + 0.011 + 0.0006)
    more = network(many, unseen | {"count": 20.0})
    assert predict_steps(model(), more, "slow")["step_s"].to_list() == [None, None]


def test_intervals_widen_with_what_was_left_out() -> None:
    noisy = [
        row | {"mean_us": row["mean_us"] * (1.2 if row["dnn"] in "ace" else 0.8)} for row in rows()
    ]
    new = network(operation("", "Conv2D", 0, inputs=((4 * MB,),)))
    exact = predict_steps(model(), new, "slow").row(0, named=True)
    loose = predict_steps(fit(observed(*noisy), steps(*measured())), new, "slow")
    assert exact["high_s"] - exact["low_s"] == pytest.approx(0, abs=1e-9)
    row = loose.row(0, named=True)
    assert row["low_s"] < row["step_s"] < row["high_s"]


def test_a_heavy_operation_of_unknown_size_is_refused() -> None:
    blind = [row | {"inputs": None} if row["type"] == "Conv2D" else row for row in rows()]
    with pytest.raises(BadInput, match=r"operations to fit: expected shapes .* of 12 \(Conv2D\)"):
        fit(operations=observed(*blind), steps=steps(*measured()))
    new = network(operation("", "Conv2D", 0) | {"inputs": None})
    with pytest.raises(BadInput, match=r"operations of new: expected shapes .* of 1 \(Conv2D\)"):
        predict_steps(model(), new, "slow")
    light = network(operation("", "Relu", 0) | {"inputs": None})
    assert predict_steps(model(), light, "slow")["unseen"].to_list() == [[], []]
