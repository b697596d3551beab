"""`stepcast noise`, on ten equal rounds that were measured."""

import json
from itertools import combinations
from pathlib import Path
from statistics import fmean

import pytest

from tests.pipelines.ran import Stepcast
from warehouse.home import CHECKOUT
from warehouse.warehouse import Warehouse

VARIANCE = str(CHECKOUT / "studies" / "variance.yaml")
ANCHORED = """
name: other
backend: auto
systems: [srift]
test:
  - {{dnn: resnet18, framework: pytorch, strategy: all_reduce, image_size: 64, batch_size: 4,
     worker: emu.avx2.s15, link_mbps: 500, workers: 2}}
anchors:
  every_hours: 1
  scenarios:
    - {{dnn: small_cnn, framework: pytorch, strategy: all_reduce, image_size: 32, batch_size: 12,
       worker: {worker}, link_mbps: 200, workers: 2}}
"""


@pytest.fixture
def ask(stepcast: Stepcast, repeated: Path, monkeypatch: pytest.MonkeyPatch) -> Stepcast:
    """Return the command line on that home."""
    monkeypatch.setenv("STEPCAST_HOME", str(repeated))
    return stepcast


def test_floors_are_half_of_what_rounds_differ_by(ask: Stepcast, repeated: Path) -> None:
    answer = ask("noise", VARIANCE, "--format", "json")
    assert answer.code == 0, answer.err
    found = {row["scenario"]: row for row in json.loads(answer.out)}
    figures = Warehouse(repeated).query("figures", metric="step_time_s").to_dicts()
    steps: dict[str, list[float]] = {}
    for row in figures:
        if "torch_throughput-" in row["run_id"]:
            steps.setdefault(row["label"], []).append(row["value"])
    assert found.keys() == steps.keys()
    for label, values in steps.items():
        pairs = [abs(one - other) / (one + other) for one, other in combinations(values, 2)]
        assert found[label]["floor_percent"] == pytest.approx(100 * fmean(pairs))
        assert (found[label]["visits"], found[label]["pairs"]) == (10, 45)


def test_a_scenario_is_divided_by_what_an_anchor_took_beside_it(
    ask: Stepcast, tmp_path: Path
) -> None:
    file = tmp_path / "other.yaml"
    file.write_text(ANCHORED.format(worker="emu.avx512.s15"))
    answer = ask("noise", VARIANCE, "--anchors", str(file))
    assert answer.code == 0, answer.err
    *_, whole, others = answer.out.splitlines()
    assert whole.startswith("all, means of 2: ")
    assert others.startswith("no anchors, means of 2: ")
    assert "(n = 1); divided by anchors" in others


def test_without_anchors_nothing_is_divided(ask: Stepcast) -> None:
    *_, whole, others = ask("noise", VARIANCE, "--rounds", "1").out.splitlines()
    assert whole.startswith("all, means of 1: ")
    assert whole.endswith("(n = 2)")
    assert others.endswith("(n = 2)")


def test_what_cannot_be_asked_is_one_line(ask: Stepcast, tmp_path: Path) -> None:
    answer = ask("noise", str(CHECKOUT / "studies" / "grid_pilot.yaml"))
    assert answer.code == 2
    assert "nothing of study grid_pilot has landed in" in answer.err
    answer = ask("noise", VARIANCE, "--anchors", VARIANCE)
    assert answer.code == 2
    assert "the study has no anchors; name one that has" in answer.err
