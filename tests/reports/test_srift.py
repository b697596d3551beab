"""Errors of step times by what trains, one image on each node apart."""

from pathlib import Path

import polars as pl

from forecasting.findings.srift import step_times as found
from reports import srift
from studies.study import read_study
from tests.reports.pages import cells
from tests.synthetic import DDP, write_study

SINGLE = """  - {dnn: resnet18, framework: pytorch, strategy: all_reduce, image_size: 32,
     batch_size: 1, worker: emu.native.c25, link_mbps: 800, workers: [1, 2]}
"""
ROWS = pl.DataFrame(
    {
        "curve": [0, 0, 1, 2, 2],
        "workers": [2, 3, 3, 1, 2],
        "error_percent": [-10.0, 4.0, -2.0, 50.0, -30.0],
    }
)


def test_one_image_on_each_node_is_apart(tmp_path: Path) -> None:
    study = read_study(write_study(tmp_path, DDP + SINGLE))
    html = srift.step_times_section(found(study, ROWS))
    assert cells(html)[1:] == [
        ["emu.native.c25", "2", "−3.0 %", "7.0 %", "10.0 %", "8.6 %"],
        ["emu.avx2.c25 + emu.native.c25", "1", "−2.0 %", "2.0 %", "2.0 %", "2.0 %"],
        ["2 nodes", "1", "−10.0 %", "10.0 %", "10.0 %", "10.0 %"],
        ["3 nodes", "2", "+1.0 %", "3.0 %", "4.0 %", "1.4 %"],
        ["all", "3", "−2.7 %", "5.3 %", "10.0 %", "8.4 %"],
        ["one image on each node", "1", "−30.0 %", "30.0 %", "30.0 %", "30.0 %"],
    ]
    unknown = ROWS.with_columns(error_percent=pl.lit(None, pl.Float64))
    assert found(study, unknown) is None
    assert srift.step_times_section(None) == ""


def test_without_such_scenarios_there_is_nothing_apart(tmp_path: Path) -> None:
    study = read_study(write_study(tmp_path, DDP))
    last = cells(srift.step_times_section(found(study, ROWS.head(3))))[-1]
    assert last == ["one image on each node", "0", *["—"] * 4]
