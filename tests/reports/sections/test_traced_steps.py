"""Traced steps of curves on paper."""

from dataclasses import replace
from pathlib import Path

from forecasting.findings.traced_steps import traced_steps as found
from reports.sections import traced_steps
from studies.rounds import Round
from tests.reports.pages import Balanced, headings


def test_each_network_has_a_figure(round_: Round, landing: Path) -> None:
    html = traced_steps.section(found(round_, landing))
    assert headings(html) == ["What a profiled step consists of", "small_cnn", "alexnet"]
    assert "in 3 traced steps, small_cnn 16px b4, unshaped, W=1" in html
    assert Balanced(html).open == []


def test_without_profiles_there_is_no_section(round_: Round, landing: Path) -> None:
    assert traced_steps.section(found(replace(round_, runs=()), landing)) == ""
