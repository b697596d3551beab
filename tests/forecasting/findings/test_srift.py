"""Errors of step times by what trains, and of parts that fits did not see."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import polars as pl
import pytest

from forecasting.findings import srift
from forecasting.findings.figure import MeasuredRound
from forecasting.findings.store import Store
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


def test_one_image_on_each_node_is_apart(tmp_path: Path) -> None:
    times = srift.step_times(found(tmp_path, DDP + SINGLE, ROWS))
    assert times is not None
    rows = {row[0]: row[1:] for row in times.iter_rows()}
    assert rows["emu.native.c25"] == pytest.approx((2, -3.0, 7.0, 10.0, 8.6))
    assert rows["emu.avx2.c25 + emu.native.c25"] == pytest.approx((1, -2.0, 2.0, 2.0, 2.0))
    assert rows["3 nodes"] == pytest.approx((2, 1.0, 3.0, 4.0, 1.4))
    assert rows["all"] == pytest.approx((3, -8 / 3, 16 / 3, 10.0, 8.4))
    assert rows["one image on each node"] == pytest.approx((1, -30.0, 30.0, 30.0, 30.0))
    unknown = ROWS.with_columns(error_percent=pl.lit(None, pl.Float64))
    assert srift.step_times(found(tmp_path, DDP + SINGLE, unknown)) is None
    bare = srift.step_times(found(tmp_path, DDP, ROWS.head(3)))
    assert bare is not None and bare.row(-1) == ("one image on each node", 0, *[None] * 4)


def test_underestimation_is_a_distribution(tmp_path: Path) -> None:
    shares = srift.underestimated(found(tmp_path, DDP + SINGLE, ROWS))
    assert shares is not None
    assert shares["underestimated_percent"].to_list() == [0, 2, 10, 30]
    assert shares["scenarios_percent"].to_list() == [25, 50, 75, 100]


@pytest.mark.exhaustive
def test_passes_and_all_reduces_stand_beside_their_floors() -> None:
    reference = first_round("reference_ddp")
    of = cast("MeasuredRound", SimpleNamespace(round=reference, landing=REFERENCE, store=Store()))
    timed = [part.profiles for part in reference.runs_of("torch_compute")]
    passes, held_out = srift.passes_left_out(of), srift.passes_held_out(of)
    assert passes is not None and passes.height == timed.count(True) + 1
    assert held_out is not None and held_out.height == timed.count(False) + 1
    reduced = srift.allreduces_left_out(of)
    assert reduced is not None
    assert dict(reduced.group_by("model").len().iter_rows()) == dict.fromkeys(
        ("trees", "alpha_beta", "rated"), 4
    ), "two sizes, left out in two ways"
    nothing = cast(
        "MeasuredRound",
        SimpleNamespace(round=replace(reference, runs=()), landing=REFERENCE, store=Store()),
    )
    assert srift.passes_left_out(nothing) is None
    assert srift.allreduces_left_out(nothing) is None
