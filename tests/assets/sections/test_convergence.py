"""Measured and simulated steps of jobs on paper."""

from pathlib import Path

from assets.rounds import Round
from assets.sections import convergence
from assets.simulations import FittedModels
from tests.assets.pages import Balanced, headings


def test_throughput_out_of_the_barrier_is_of_the_most_workers(round_: Round, landing: Path) -> None:
    html = convergence.section(round_, landing, FittedModels(round_, landing))
    assert headings(html)[:3] == ["Out of the initial synchronisation", "small_cnn", "alexnet"]
    assert "by steps since the start, alexnet 64px b4, unshaped, W=3" in html
    assert headings(html)[3] == "Links in use"
    assert html.count('<svg role="img"') == 4
    assert Balanced(html).open == []


def test_without_a_profile_there_is_nothing_to_compare(round_: Round, landing: Path) -> None:
    assert convergence.section(round_, landing, {}) == ""
