"""Scaling as others measured it: what is read, what is forecast, and what stays unseen."""

from dataclasses import replace
from functools import cache
from math import log
from statistics import fmean

import polars as pl
import pytest

from models.gpu_step import collectives
from models.gpu_step.collectives import Collectives
from models.gpu_step.data_parallel import Interference
from models.gpu_step.measurements import Measurements, read_measurements
from models.gpu_step.scaling import Scaling, fit_interference, forecast_s, judged_sources
from tests.models.gpu_step.public import PUBLIC
from warehouse.sets import kept_runs, kept_tables

SETS = ("ddp_step_time_sia", "mpt_training_a100", "nccl_tests_aws", "tf_cnn_benchmarks_lambda")


@cache
def measured() -> Measurements:
    kept = [
        kept_tables(PUBLIC / name, run.run_id) for name in SETS for run in kept_runs(PUBLIC / name)
    ]
    names = ("run", "source", "external")
    return read_measurements(
        {name: pl.concat([pl.DataFrame(tables[name]) for tables in kept]) for name in names}
    )


@cache
def known() -> Collectives:
    return collectives.fit(measured().collectives)


def scalings(source: str) -> list[Scaling]:
    return [one for one in measured().scalings if one.source == source]


def test_sources_are_read() -> None:
    timed = measured().collectives
    assert set(timed["cluster"]) == {"p4de"}
    assert timed["size_bytes"].min() == pytest.approx(8)
    (bert,) = [
        one
        for one in scalings("ddp_step_time_sia")
        if one.network == "bert"
        and one.more.ranks == 4
        and one.more.nodes == 1
        and one.fewest_s == pytest.approx(0.4553, abs=1e-3)
    ]
    assert bert.factor == pytest.approx(1.17, abs=0.01)
    assert sum(bert.sizes_bytes) == pytest.approx(4 * 109.5e6)
    sharded = scalings("mpt_training_a100")
    assert {one.kind for one in sharded} == {"sharded"}
    assert {one.fewest.ranks for one in sharded} == {16, 32}
    assert max(one.more.ranks for one in sharded) == 128
    assert {one.more.nodes for one in scalings("tf_cnn_benchmarks_lambda")} == {1}


def test_no_placement_is_uneven() -> None:
    for one in measured().scalings:
        assert one.more.ranks == one.more.devices * one.more.nodes
        assert one.more.ranks > one.fewest.ranks


@pytest.mark.parametrize(
    ("source", "most"), [("ddp_step_time_sia", 0.6), ("mpt_training_a100", 1.0)]
)
def test_forecasts_are_nearer_than_linear_scaling(source: str, most: float) -> None:
    """By how much: `stepcast bench gpu` prints it."""
    judged = [
        one for one in judged_sources(measured().scalings, known()) if one.scaling.source == source
    ]
    ours = fmean(abs(one.error) for one in judged)
    linear = fmean(abs(log(one.scaling.factor)) for one in judged)
    assert ours < most * linear


def test_a_source_that_is_left_out_has_no_influence_on_its_forecasts() -> None:
    wrong = tuple(
        replace(one, more_s=3 * one.more_s) if one.source == "ddp_step_time_sia" else one
        for one in measured().scalings
    )

    def forecasts(given: tuple[Scaling, ...]) -> list[float]:
        judged = judged_sources(given, known())
        return [one.forecast_s for one in judged if one.scaling.source == "ddp_step_time_sia"]

    assert forecasts(wrong) == forecasts(measured().scalings)


def test_the_fewest_gpus_are_met_exactly() -> None:
    one = scalings("mpt_training_a100")[0]
    same = replace(one, more=one.fewest)
    forecast = forecast_s(same, known(), Interference(0.2, 0.01))
    assert forecast == pytest.approx(one.fewest_s, rel=1e-3)


def test_interference_is_found_again() -> None:
    true = Interference(0.3, 0.01)
    given = [
        replace(one, more_s=forecast_s(one, known(), true)) for one in scalings("ddp_step_time_sia")
    ]
    assert fit_interference(given, known()) == true
    assert fit_interference([], known()) == Interference()
