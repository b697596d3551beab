"""The page of error figures says what rows say; the committed one, what sealed files say."""

import re
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from reports.accuracy_page import page, with_gpus
from tests.reference import REFERENCE
from tests.reports.pages import rows_of
from warehouse.home import CHECKOUT
from warehouse.seal import FOLDER
from warehouse.sets import copy_kept_runs, kept_runs
from warehouse.warehouse import Warehouse

COMMITTED = CHECKOUT / "docs" / "accuracy.md"
_README_ROW = re.compile(
    r"^\| [^|]+ \| `(?P<study>\w+)` \| (?P<split>[a-z ]+) \| `(?P<system>\w+)` \| (?P<n>\d+) \| "
    r"\**(?P<mean>[\d.]+)\** \| `(?P<other>\w+)`: (?P<other_mean>[\d.]+) \((?P<other_n>\d+)\) \|$",
    re.MULTILINE,
)


def study(name: str) -> str:
    return f"[`{name}`](../studies/{name}.yaml)"


def test_missing_figures_are_dashes_and_no_zeros() -> None:
    sealed = pl.DataFrame(
        {
            "study": ["mine"], "split": ["held_out_dnn"], "system": ["linear"], "n": [3],
            "mape": [12.345], "median_ape": [9.0], "max_ape": [30.06], "inside_percent": [None],
            "noise_floor": [None], "noise_n": [0],
            "sealed_at": [datetime(2026, 11, 26, 14, 24, tzinfo=UTC)],
            "first_measured_at": [datetime(2026, 11, 26, 14, 27, tzinfo=UTC)],
        }
    )  # fmt: skip
    board = pl.DataFrame(
        {
            "study": ["mine"], "system": ["linear"], "covered": [4], "covered_mape": [11.04],
            "n": [0], "mape": [None], "median_ape": [None], "max_ape": [None],
            "noise_floor": [2.0], "noise_n": [4],
        }
    )  # fmt: skip
    assert rows_of(page(sealed, board)) == {
        ("Sealed", study("mine"), "held out dnn", "`linear`"): [
            "3", "12.3", "9.0", "30.1", "–", "not known",
        ],
        ("Today's code, after the fact", study("mine"), "`linear`"): [
            "4", "11.0", "0", "–", "–", "–", "2.0 (4)",
        ],
    }  # fmt: skip
    when = "Sealed 2026-11-26 14:24, first measured 2026-11-26 14:27 (UTC)."
    assert when in page(sealed, board).splitlines()
    assert "## Sealed" not in page(sealed.clear(), board), "nothing of it was sealed"


def test_figures_of_gpus_are_the_last_section_once() -> None:
    figure = {
        "judged": "steps", "n": 3, "error": 1.25, "median": 1.0, "largest": 2.0, "goal": "9 %",
        "floor": None, "beside": "linear 4.0 %, theirs 1.1 %, ours again 1.2 % (n = 3; holds 1 %)",
    }  # fmt: skip
    text = "# How wrong were forecasts?\n\n## Sealed\n"
    twice = with_gpus(with_gpus(text, [figure]), [figure | {"n": 4}])
    assert twice.startswith(text)
    assert rows_of(twice) == {
        ("GPUs, by public measurements, after the fact", "", "steps"): [
            "4", "1.2", "1.0", "2.0", "9 %", "–",
            "linear 4.0 %, theirs **1.1 %**, ours again 1.2 % (n = 3; holds 1 %)",
        ]
    }  # fmt: skip


@pytest.mark.exhaustive
def test_committed_sealed_rows_are_those_of_the_sealed_files(tmp_path: Path) -> None:
    """Fits nothing: sealed forecasts, the runs they rest on and measurements are committed."""
    warehouse = Warehouse(tmp_path)
    rested_on = ("reference_grid", "grid_third")
    runs = [
        run.run_id
        for run in kept_runs(REFERENCE)
        if run.probe == "torch_throughput"
        and (run.study == "grid_few" or (run.study in rested_on and run.purpose == "profile"))
    ]
    copy_kept_runs(REFERENCE, warehouse.landing, runs, durable=False)
    warehouse.load()
    warehouse.load_sealed(REFERENCE / FOLDER)
    made = rows_of(page(warehouse.query("sealed", study="grid_few"), warehouse.query("board")))
    of_study = {key: row for key, row in made.items() if key[:2] == ("Sealed", study("grid_few"))}
    assert len(of_study) == 3
    committed = rows_of(COMMITTED.read_text())
    assert of_study == {key: row for key, row in committed.items() if key in of_study}


def test_readme_quotes_the_page() -> None:
    committed = rows_of(COMMITTED.read_text())
    quoted = list(_README_ROW.finditer((CHECKOUT / "README.md").read_text()))
    assert len(quoted) == 5
    for row in quoted:
        for system, n, mean in (("system", "n", "mean"), ("other", "other_n", "other_mean")):
            key = ("Sealed", study(row["study"]), row["split"], f"`{row[system]}`")
            assert committed[key][:2] == [row[n], row[mean]], key
