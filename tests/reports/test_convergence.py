"""Measured and simulated steps of curves on paper."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from forecasting.findings.async_sgd import convergence as found
from forecasting.simulations import FittedModels
from reports import async_sgd
from studies.rounds import Round
from tests.reports.pages import Balanced, headings
from tests.synthetic import MIXED


def test_throughput_out_of_the_barrier_is_of_the_most_workers(round_: Round, landing: Path) -> None:
    html = async_sgd.convergence_section(found(round_, landing, FittedModels(round_, landing)))
    assert headings(html)[:3] == ["How workers drift apart after the start", "small_cnn", "alexnet"]
    assert "by steps since the start, alexnet 64px b4, unshaped, W=3" in html
    assert headings(html)[3] == "When links are in use"
    assert html.count('<svg role="img"') == 4
    assert Balanced(html).open == []


def test_mixed_workers_are_simulated_from_all_their_profiles(
    landed_round: Callable[[str], Round], landing: Path
) -> None:
    round_ = landed_round(MIXED)
    models = FittedModels(round_, landing)
    html = async_sgd.convergence_section(found(round_, landing, models))
    assert "start, small_cnn 16px b4, unshaped, W=2 (1 emu.native.c15 + 1 emu.native.c25)" in html


def test_without_a_profile_there_is_nothing_to_compare(round_: Round, landing: Path) -> None:
    measured = tuple(run for run in round_.runs if run.probe != "tf_trace")
    nothing = FittedModels(replace(round_, runs=measured), landing)
    assert found(round_, landing, nothing) is None
    assert async_sgd.convergence_section(None) == ""
