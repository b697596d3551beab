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


def test_the_mean_over_scenarios_is_told(ask: Stepcast) -> None:
    rows = json.loads(ask("noise", VARIANCE, "--rounds", "1", "--format", "json").out)
    floor = fmean(row["floor_percent"] for row in rows)
    *_, whole = ask("noise", VARIANCE, "--rounds", "1").out.splitlines()
    assert whole == f"all, means of 1: {floor:.1f} % (n = 2)"


def test_what_cannot_be_asked_is_one_line(ask: Stepcast) -> None:
    answer = ask("noise", str(CHECKOUT / "studies" / "grid_pilot.yaml"))
    assert answer.code == 2
    assert "nothing of study grid_pilot has landed in" in answer.err
