"""Figures of curves that differ in one thing."""

from forecasting.findings.async_sgd import comparisons as compared
from reports import async_sgd
from studies.rounds import Round
from tests.reports.pages import headings
from tests.reports.test_report import results


def test_jobs_that_differ_in_more_are_not_compared(round_: Round) -> None:
    assert async_sgd.comparisons_section(compared(round_.study, results(round_))) == ""
    first, second = round_.study.curves
    twin = first.model_copy(update={"batch_size": 8})
    study = round_.study.with_curves((first, twin, second))
    html = async_sgd.comparisons_section(compared(study, results(round_)))
    assert headings(html) == ["Other batch sizes", "small_cnn 16px, 200 Mb/s"]
