"""How far steps are underestimated, and errors of passes that fits did not see."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import polars as pl

from forecasting.findings import srift
from forecasting.findings.figure import MeasuredRound
from studies.study import read_study
from tests.reference import REFERENCE, first_round
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


def found(folder: Path, text: str, rows: pl.DataFrame) -> MeasuredRound:
    study = read_study(write_study(folder, text))
    round_ = SimpleNamespace(study=study, runs_of=lambda *_: {"profiled": "run"})
    return cast("MeasuredRound", SimpleNamespace(round=round_, rows=rows))


def test_underestimation_is_a_distribution(tmp_path: Path) -> None:
    shares = srift.underestimated(found(tmp_path, DDP + SINGLE, ROWS))
    assert shares is not None
    assert shares["underestimated_percent"].to_list() == [0, 2, 10, 30]
    assert shares["scenarios_percent"].to_list() == [25, 50, 75, 100]


def test_passes_stand_beside_their_floor() -> None:
    reference = first_round("reference_ddp")
    of = cast("MeasuredRound", SimpleNamespace(round=reference, landing=REFERENCE))
    timed = [part.profiles for part in reference.runs_of("torch_compute")]
    held_out = srift.passes_held_out(of)
    assert held_out is not None and held_out.height == timed.count(False) + 1
    nothing = cast(
        "MeasuredRound", SimpleNamespace(round=replace(reference, runs=()), landing=REFERENCE)
    )
    assert srift.passes_held_out(nothing) is None
