"""The board of all systems of a study."""

from pathlib import Path

import polars as pl

from forecasting.findings.study import board as found
from reports import study_sections
from studies.rounds import Round
from tests.reports.pages import cells, headings
from warehouse.warehouse import Warehouse

ROWS = pl.DataFrame(
    {
        "system": ["ours", "theirs"],
        "n": [2, 2],
        "mape": [5.0, 40.0],
        "median_ape": [4.0, 30.0],
        "max_ape": [9.0, 70.0],
        "covered": [4, 2],
        "covered_percent": [100.0, 50.0],
        "covered_mape": [8.0, 40.0],
        "noise_floor": [3.0, None],
        "noise_n": [4, 0],
    }
)


def test_a_system_stands_beside_what_it_covers() -> None:
    html = study_sections.board_section(ROWS)
    assert headings(html) == ["All systems, on the scenarios that all forecast"]
    assert cells(html)[1:] == [
        ["ours", "2", "5.0 %", "4.0 %", "9.0 %", "4", "100.0 %", "8.0 %", "3.0 % (n = 4)"],
        ["theirs", "2", "40.0 %", "30.0 %", "70.0 %", "2", "50.0 %", "40.0 %", "— (n = 0)"],
    ]


def test_one_system_is_no_board() -> None:
    assert study_sections.board_section(ROWS.head(1)) == study_sections.board_section(None) == ""


def test_nothing_judged_is_an_empty_board(round_: Round, home: Path) -> None:
    warehouse = Warehouse(home)
    warehouse.load()
    assert found(round_, warehouse).is_empty()
