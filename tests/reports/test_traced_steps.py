"""Traced steps of curves on paper."""

from dataclasses import replace
from pathlib import Path

from forecasting.findings.async_sgd import traced_steps as found
from reports import async_sgd
from studies.rounds import Round
from tests.reports.pages import Balanced, headings


def test_each_network_has_a_figure(round_: Round, landing: Path) -> None:
    html = async_sgd.traced_steps_section(found(round_, landing))
    assert headings(html) == ["What a profiled step consists of", "small_cnn", "alexnet"]
    assert "in 3 traced steps, small_cnn 16px b4, unshaped, W=1" in html
    assert Balanced(html).open == []


def test_without_profiles_there_is_no_section(round_: Round, landing: Path) -> None:
    assert async_sgd.traced_steps_section(found(replace(round_, runs=()), landing)) == ""
