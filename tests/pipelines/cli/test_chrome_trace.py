"""`stepcast predict --chrome-trace`, on profiles that exist on paper."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forecasting.async_sgd import STEPS
from forecasting.inputs import inputs_of_study
from profilers.steady.host import host_id
from studies.rounds import open_round
from studies.study import read_study
from tests import synthetic
from tests.synthetic import PaperProbes, write_study
from warehouse.warehouse import Warehouse

LABEL = "small_cnn 16px b4, unshaped, W=2"
ALONE = "small_cnn 16px b4, unshaped, W=1"


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a home in which a study has been profiled; predictions are short."""
    home = tmp_path_factory.mktemp("profiled")
    with pytest.MonkeyPatch.context() as patch:
        PaperProbes().install(patch)
        landing = home / "landing"
        study = read_study(write_study(home))
        round_ = open_round(study, inputs_of_study(study), "loopback", host_id(), [])
        synthetic.profiled(round_, landing)
        Warehouse(home).load()
        yield home


@pytest.fixture
def predict(
    stepcast: Callable[..., Any], profiled: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """Return the command about that study's network."""
    monkeypatch.setenv("STEPCAST_HOME", str(profiled))
    workload = ["--dnn", "small_cnn", "--image-size", "16", "--batch-size", "4", "--dry-run"]
    nodes = ["--worker", "emu.native.c25", "--server", "emu.server", "--link-mbps", "200"]
    return lambda *arguments: stepcast("predict", *workload, *nodes, *arguments)


def test_simulated_steps_are_written(predict: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "w2.json"
    options = ["--workers", "2", "--systems", "async_sgd,linear", "--json"]
    answer = predict(*options, "--chrome-trace", str(file))
    assert answer.code == 0, answer.err
    trace = json.loads(file.read_text())
    assert trace["otherData"]["scenario"] == LABEL
    assert trace["otherData"]["seed"] == 0
    steps = [event for event in trace["traceEvents"] if event["ph"] == "X" and event["tid"] == 0]
    assert {event["pid"] for event in trace["traceEvents"]} == {0, 1}
    assert len(steps) == 2 * STEPS
    shown, without = (json.loads(reply.out)["forecasts"] for reply in (answer, predict(*options)))
    assert [forecast["value"] for forecast in shown] == [forecast["value"] for forecast in without]
    assert len(shown) == 2


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--workers", "1,2"], f"--chrome-trace: expected one scenario, found {ALONE}; {LABEL}; "),
        (["--workers", "2", "--systems", "linear"], "--chrome-trace: async_sgd forecasts nothing"),
        (["--workers", "2"], "/no/where cannot be written: No such"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_2(
    predict: Callable[..., Any], arguments: list[str], expected: str
) -> None:
    answer = predict(*arguments, "--chrome-trace", "/no/where")
    assert answer.code == 2
    assert answer.out == ""
    assert expected in answer.err.splitlines()[-1]
