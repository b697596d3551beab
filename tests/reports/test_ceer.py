"""What a report says of operations and devices: of DNNs that follow a law, and of the reference."""

import re
from dataclasses import replace

import polars as pl
import pytest

from forecasting import ceer_study
from forecasting.ceer_study import CeerMeasurements
from forecasting.findings.ceer import choices as chosen
from forecasting.findings.ceer import devices as several
from forecasting.findings.ceer import operations as timed
from forecasting.findings.ceer import unseen_errors as judged
from models.ceer import predictor
from models.ceer.predictor import Ceer
from reports import ceer
from studies.rounds import Round
from tests.models.ceer.frames import observed, steps
from tests.models.ceer.test_predictor import measured, rows
from tests.reference import REFERENCE, first_round

TYPES = {"slow": "emu.sse41.s40", "fast": "emu.avx512.s40"}


@pytest.fixture(scope="module")
def lawful() -> CeerMeasurements:
    """Six DNNs whose steps follow a law, two of them unseen; the dearer type is 5 times as fast."""
    named = pl.col("node_type").replace(TYPES)
    varying = observed(*rows()).with_columns(named, sd_us=pl.col("mean_us") * 0.05)
    return CeerMeasurements(varying, steps(*measured()).with_columns(named), ("e", "f"))


@pytest.fixture(scope="module")
def reference() -> Round:
    return first_round("reference_ceer_steady")


def model_of(measured: CeerMeasurements) -> Ceer:
    """Return a model that is fitted to the DNNs that predictors saw."""
    operations, steps = measured.fitted
    return predictor.fit(operations=operations, steps=steps)


def lines(html: str, table: int = 0) -> list[list[str]]:
    """Return the cells of a table, line by line."""
    body = re.findall(r"<tbody>(.*?)</tbody>", html, re.DOTALL)[table]
    rows = re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    return [re.findall(r"<td[^>]*>(.*?)</td>", line) for line in rows]


def titles(html: str) -> list[str]:
    return re.findall(r"<h3>(.*?)</h3>", html)


def test_heavy_operations_are_shown_with_what_fits_them(lawful: CeerMeasurements) -> None:
    html = ceer.operations_section(timed(lawful, model_of(lawful)))
    assert titles(html) == [
        "Time of heavy operations",
        "Cost of heavy operations",
        "How much they vary",
        "Conv2D by input",
    ]
    assert html.count("Below 0.1: emu.avx512.s40 100.0 %, emu.sse41.s40 100.0 %.") == 1
    # 2 of 1000, 3 of 50, 1 of 10 µs; on a fifth of them the last counts more.
    assert lines(html)[0] == ["a", "emu.avx512.s40", "90.9 %", "6.8 %", "2.3 %"]
    assert lines(html)[1][:3] == ["a", "emu.sse41.s40", "92.6 %"]
    assert {line[0] for line in lines(html)} == {"a", "b", "c", "d"}, "fitted ones only"
    (conv,) = lines(html, 1)
    assert conv == ["Conv2D", "proportional", "1.00 to 1.00", "0.0% to 0.0%", "4"]


def test_a_study_without_heavy_operations_says_so(lawful: CeerMeasurements) -> None:
    brief = replace(
        lawful, operations=lawful.operations.with_columns(pl.col("mean_us", "sd_us") / 1000)
    )
    html = ceer.operations_section(timed(brief, model_of(brief)))
    assert not titles(html)
    assert "No type takes that long" in html
    assert {(line[0], line[2]) for line in lines(html)} == {(dnn, "0.0 %") for dnn in "abcd"}
    assert lines(ceer.unseen_section(judged(brief, model_of(brief), None)), 1) == [], (
        "nothing heavy to be wrong about"
    )


def test_devices_are_compared_with_one(lawful: CeerMeasurements) -> None:
    html = ceer.devices_section(several(lawful))
    assert titles(html) == [
        *(f"{dnn} on several devices" for dnn in "abcd"),
        "S of one device",
        "S of 2 devices",
    ]
    assert html.count("lines of least squares: R² 1.00 to 1.00") == 2


def test_unseen_dnns_that_follow_the_law_are_forecast(lawful: CeerMeasurements) -> None:
    html = ceer.unseen_section(judged(lawful, model_of(lawful), noise=0.02))
    whole, no_light, no_overhead, *each = lines(html)
    assert (whole[0], whole[1], *whole[3:]) == ("test set, all", "0.0 %", "0.0 %", "8", "0")
    assert no_light[2].startswith("−")
    assert no_overhead[2].startswith("−")
    assert [line[0] for line in each] == [f"{dnn} by itself" for dnn in "abcdef"]
    ((kind, n, error, _, share),) = lines(html, 1)
    # 2000 of 2160 us or so, by node type and network; heavy ones alone are listed.
    assert (kind, n, error, share) == ("Conv2D", "4", "0.0 %", "92.8 %")
    assert lines(html, 2) == [["e", "2", "2", "0"], ["f", "2", "2", "0"]]


def test_steps_without_a_forecast_say_which_operations_no_other_dnn_has(
    lawful: CeerMeasurements,
) -> None:
    einsum = lawful.operations.filter(
        pl.col("dnn") == "c", pl.col("type") == "Conv2D"
    ).with_columns(type=pl.lit("Einsum"))
    more = replace(lawful, operations=pl.concat([lawful.operations, einsum]))
    html = ceer.unseen_section(judged(more, model_of(more), noise=None))
    not_known = {line[0]: line[-1] for line in lines(html)}
    assert not_known["c by itself"] == "4 (Einsum)"
    assert {unknown for name, unknown in not_known.items() if name != "c by itself"} == {"0"}


def test_choices_are_judged_by_what_was_measured(lawful: CeerMeasurements) -> None:
    choices = lines(ceer.CHOICES.html(chosen(lawful)))
    assert [line[0] for line in choices[::2]] == [
        "hourly budget",
        "total budget",
        "cheapest",
        "market prices",
    ]
    assert {line[4] for line in choices} == {"0.0 %"}, "who knows the law regrets nothing"
    cheapest = next(line for line in choices if line[:2] == ["cheapest", "e"])
    # 10.8 ms of operations or 2.2, and 26 of S on both: speed is not worth three times the price.
    assert cheapest[2] == cheapest[3] == "1 emu.sse41.s40"
    assert cheapest[5] == "0.0 %"
    assert float(cheapest[6].split()[0]) > 100
    unpriced = replace(
        lawful, operations=lawful.operations.with_columns(node_type=pl.lit("p3.2xlarge"))
    )
    assert ceer.CHOICES.html(chosen(unpriced)) == ""


@pytest.mark.exhaustive
def test_the_reference_is_shown(reference: Round) -> None:
    measurements = ceer_study.read_measurements(reference, REFERENCE)
    model = ceer_study.fitted_model(reference, REFERENCE)
    assert measurements is not None and model is not None
    assert set(measurements.unseen) & set(model.parameters.dnns) == set()
    assert {"alexnet", "vgg19"} <= set(measurements.unseen)
    html = (
        ceer.unseen_section(judged(measurements, model, None))
        + ceer.operations_section(timed(measurements, model))
        + ceer.devices_section(several(measurements))
    )
    assert "nan" not in html
    assert len(lines(ceer.CHOICES.html(chosen(measurements)))) == 4 * len(measurements.unseen)
