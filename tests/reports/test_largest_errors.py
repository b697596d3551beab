"""The table of the largest errors."""

import polars as pl

from forecasting.findings.errors import CAUSES
from reports.study_sections import largest_errors_section

ROWS = pl.DataFrame(
    {
        "label": ["small_cnn 16px b4, unshaped, W=2", "alexnet 64px b4, unshaped, W=3"],
        "error_percent": [25.0, 25.0],
        "predicted_s": [0.2, 0.3],
        "measured_s": [0.25, 0.375],
        "compute_s": [1e-9, 0.0],
        "wire_s": [0.0, 0.0],
        "overlap_s": [0.0, 0.0],
        "queueing_s": [-0.05, -0.075],
    }
)


def test_the_table_shows_them() -> None:
    html = largest_errors_section(ROWS)
    assert set(CAUSES) <= set(ROWS.columns)
    assert html.count("<tr>") == 3
    assert "small_cnn 16px b4, unshaped, W=2" in html
    assert all(cell in html for cell in ("+25.0 %", "200 ms", "250 ms", "−50 ms", "+0 ms"))


def test_without_judged_scenarios_there_is_no_table() -> None:
    assert "has been judged" in largest_errors_section(ROWS.clear())


def test_where_errors_cannot_be_told_apart_there_is_no_section() -> None:
    assert largest_errors_section(None) == ""
