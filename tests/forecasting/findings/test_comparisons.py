"""Curves are compared with those that differ in one thing."""

from pathlib import Path

import polars as pl
import pytest

from forecasting.findings.async_sgd import Varied, comparisons, curves, group_alike, shared_title
from studies.study import Study, read_study
from tests.synthetic import DDP, STUDY, write_study

JOB = "worker: emu.native.c25, server: emu.server"
JOBS = f"""
  - {{dnn: alexnet, image_size: 64, batch_size: 4, {JOB}, link_mbps: 200, workers: [1, 2]}}
  - {{dnn: alexnet, image_size: 64, batch_size: 8, {JOB}, link_mbps: 200, workers: [2, 3]}}
  - {{dnn: alexnet, image_size: 64, batch_size: 4, {JOB}, link_mbps: 100, profiled_at_mbps: 200,
     workers: [2]}}
  - {{dnn: alexnet, image_size: 64, batch_size: 4, {JOB}, link_mbps: 200, order: tic, workers: [2]}}
  - {{dnn: alexnet, image_size: 64, batch_size: 4, {JOB}, link_mbps: 200, servers: 2, workers: [2]}}
  - {{dnn: alexnet, image_size: 64, batch_size: 4, {JOB}, link_mbps: 200, servers: 2,
     placement: greedy, workers: [2]}}
  - {{dnn: small_cnn, image_size: 16, batch_size: 4, {JOB}, link_mbps: 200, workers: [2]}}
"""


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """Return a study of seven curves, of which four differ from the first in one thing each."""
    head = STUDY.partition("test:")[0]
    return read_study(write_study(tmp_path, f"{head}test:{JOBS}"))


@pytest.mark.parametrize(
    ("varied", "group"),
    [
        ("batch_size", [0, 1]),
        ("link_mbps", [0, 2]),
        ("order", [0, 3]),
        ("servers", [0, 4]),
        ("placement", [4, 5]),
    ],
)
def test_groups_differ_in_one_thing(study: Study, varied: Varied, group: list[int]) -> None:
    assert group_alike(study, varied) == [group]


def test_curves_are_examples_per_second(study: Study) -> None:
    rows = pl.DataFrame(
        [(0, 1, 2.0, None), (0, 2, 3.0, 2.5), (1, 2, 2.0, 2.0)],
        schema=["curve", "workers", "predicted", "measured"],
        orient="row",
    )
    by_label = curves(study, rows, [0, 1], "batch_size")
    assert {label: curve.rows() for label, curve in by_label.items()} == {
        "batch of 4": [(1, 8.0, None), (2, 12.0, 10.0)],
        "batch of 8": [(2, 16.0, 16.0)],
    }


def test_labels_say_what_varies_and_titles_what_does_not(study: Study) -> None:
    figures = {"predicted": pl.Float64, "measured": pl.Float64}
    rows = pl.DataFrame(schema={"curve": pl.Int32, "workers": pl.Int32, **figures})
    labels = list(curves(study, rows, [0, 2], "link_mbps"))
    assert labels == ["100 Mb/s, profiled at 200", "200 Mb/s"]
    assert shared_title(study.curves[4], "servers") == "alexnet 64px, b4, 200 Mb/s"
    assert shared_title(study.curves[3], "link_mbps") == "alexnet 64px, b4, tic"


def test_things_that_differ_come_one_after_the_other(study: Study) -> None:
    figures = {"predicted": pl.Float64, "measured": pl.Float64}
    rows = pl.DataFrame(schema={"curve": pl.Int32, "workers": pl.Int32, **figures})
    compared = comparisons(study, rows)
    assert [comparison.varied for comparison in compared] == [
        "batch_size",
        "link_mbps",
        "order",
        "servers",
        "placement",
    ]
    assert compared[0].shared == "alexnet 64px, 200 Mb/s"
    assert list(compared[0].curves) == ["batch of 4", "batch of 8"]


def test_only_throughputs_are_compared(tmp_path: Path) -> None:
    study = read_study(write_study(tmp_path, DDP))
    curve = study.curves[0]
    twin = curve.model_copy(update={"batch_size": curve.batch_size + 1})
    twice = study.with_curves((curve, twin))
    assert group_alike(twice, "batch_size") == [[0, 1]]
    assert comparisons(twice, pl.DataFrame()) == ()
