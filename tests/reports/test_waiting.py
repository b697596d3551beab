"""Time before an answer: seconds of each system, and Ernest's over PredictDDL's."""

import polars as pl

from forecasting.findings import collection_time
from forecasting.findings.collection_time import COLUMNS
from reports import predictddl
from tests.reports.pages import Balanced, cells, headings

WAITED = pl.DataFrame(
    [("predictddl", n, 3000.0, False, n, 6.0) for n in (1, 2, 3)]
    + [("ernest", n, 200.0 * n, False, n, 7.0) for n in (1, 2, 3)],
    schema=COLUMNS,
    orient="row",
)


def test_ratios_stand_beside_the_paper_s() -> None:
    compared = collection_time.compare_with_ernest(WAITED, [10.0, 12.5, 15.0])
    html = predictddl.waiting_section(WAITED, compared)
    assert not Balanced(html).open
    assert headings(html) == ["Time before an answer", "Measuring", "Errors"]
    rows = cells(html)
    assert ["2", "400 s", "12.5 s", "3,000 s", "32 x", "0.13 x", "2.6 x"] in rows
    assert ["3", "600 s", "15.0 s", "3,000 s", "40 x", "0.20 x", "—"] in rows
    assert ["ernest", "400 s", "600 s", "7.0 %", "3"] in rows
    assert "predictddl: fit and forecasts only" in html
    told = "3 workloads: ernest 600 s, 40 x as long as predictddl; 0.20 x if the runs"
    assert told in predictddl.in_short(WAITED, compared)


def test_what_a_plan_expects_is_marked_and_not_compared() -> None:
    planned = WAITED.with_columns(expected=pl.col("system") == "ernest")
    compared = collection_time.compare_with_ernest(planned, [10.0, 12.5, 15.0])
    html = predictddl.waiting_section(planned, compared)
    assert "Ernest over fit and forecasts" not in html
    assert ["ernest *", "400 s", "600 s", "7.0 %", "3"] in cells(html)
    assert "ernest *, 3 workloads: 600 s" in predictddl.in_short(planned, compared)


def test_nothing_waited_for_is_said() -> None:
    none, compared = (
        pl.DataFrame(schema=COLUMNS),
        pl.DataFrame(schema=collection_time.ERNEST_COLUMNS),
    )
    assert "No system rests on runs" in predictddl.waiting_section(none, compared)
    assert predictddl.in_short(none, compared) == ""
