"""Errors of judged scenarios."""

import polars as pl

from forecasting.findings.errors import errors as found
from reports import papers
from studies.rounds import Round
from tests.reports.pages import cells, headings
from tests.reports.test_report import results


def test_errors_are_of_judged_scenarios(round_: Round) -> None:
    rows = results(round_)
    html = papers.errors_section(found(round_.study, rows))
    assert cells(html)[1:] == [
        ["alexnet", "4", "1", "+25.0 %", "25.0 %", "25.0 %"],
        ["small_cnn", "4", "1", "+5.0 %", "5.0 %", "5.0 %"],
    ]
    assert headings(html)[1:] == ["small_cnn", "alexnet"]
    busy = rows.with_columns(host_busy=pl.col("dnn") == "alexnet")
    assert [row[0] for row in cells(papers.errors_section(found(round_.study, busy)))[1:]] == [
        "small_cnn"
    ]
    # One number of workers is no curve: the table tells all of it.
    alone = rows.filter((pl.col("dnn") == "small_cnn") | (pl.col("workers") == 3))
    assert headings(papers.errors_section(found(round_.study, alone)))[1:] == ["small_cnn"]
    unknown = rows.with_columns(error_percent=pl.lit(None, pl.Float64))
    assert found(round_.study, unknown) is None
    assert papers.errors_section(None) == ""
