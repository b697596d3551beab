"""`stepcast sweep` on processes: the same files as in a loop, also after a kill."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from shutil import copytree
from typing import Any

import polars as pl
import pytest

from forecasting.sweep import begin, folder_of, forecast_part
from forecasting.sweep_file import read_sweep
from tests.networks.test_own_huggingface import TINY
from tests.pipelines.ran import Stepcast
from warehouse.warehouse import Warehouse

TEMPLATE = """
  - dnn: small_cnn
    framework: pytorch
    strategy: all_reduce
    image_size: 32
    batch_size: {batch}
    worker: [emu.avx512.c15, emu.avx512.s15]
    link_mbps: 200
    workers: [2, 4, 8]"""
TEXT = "systems: [ideal_scaling]\nscenarios:" + "".join(
    TEMPLATE.format(batch=batch) for batch in (12, 24)
)


@pytest.fixture
def file(history: Path) -> Path:
    """Return a sweep of two parts."""
    path = history / "small.yaml"
    path.write_text(TEXT)
    return path


def parts(home: Path) -> Mapping[str, bytes]:
    (folder,) = (path for path in (home / "sweeps").iterdir() if path.is_dir())
    return {path.name: path.read_bytes() for path in folder.glob("part-*.parquet")}


HEARS_CTRL_C = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from pipelines.cli.main import main; main(sys.argv[1:])"
)
"""What is started in the background ignores it otherwise."""


def started(file: Path, home: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", HEARS_CTRL_C, "sweep", str(file), "--workers", "1"]
    return subprocess.Popen(
        command, env=os.environ | {"STEPCAST_HOME": str(home)}, stderr=subprocess.DEVNULL
    )


def steps_of(home: Path) -> list[int]:
    """Return processes that work at a home and are no test."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"STEPCAST_HOME={home}".encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


def plain_loop(file: Path, home: Path) -> None:
    """Make the parts of a sweep one after the other in this process."""
    asked = read_sweep(file)
    folder = folder_of(asked, file, home)
    begin(folder, asked, Warehouse(home))
    for part in folder.parts:
        forecast_part(folder, part.number)


def end_after_a_part(file: Path, home: Path, by: signal.Signals) -> None:
    """Begin a sweep of two parts, and end it when one of them is there."""
    killed = started(file, home)
    while not list(home.glob("sweeps/*/part-*.parquet")):
        assert killed.poll() is None
        time.sleep(0.02)
    killed.send_signal(by)
    assert killed.wait() in (0, 130, -signal.SIGKILL)
    deadline = time.monotonic() + 20
    while steps_of(home):
        assert time.monotonic() < deadline, "a step outlives its command"
        time.sleep(0.05)
    for last in home.glob("sweeps/*/part-00001.parquet"):
        last.unlink()  # it was quicker than the signal; something has to be left to do


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT])
def test_a_sweep_that_was_ended_goes_on_and_has_what_a_plain_loop_has(
    by: signal.Signals, file: Path, home: Path, tmp_path: Path, stepcast: Stepcast
) -> None:
    copytree(home, tmp_path / "other")
    end_after_a_part(file, home, by)
    answer = stepcast("sweep", str(file))
    assert "12 of 12 scenarios are forecast, in 12 rows" in answer.printed
    assert re.search(r"small_cnn 32px +\d emu.avx512.[cs]15 +\d+ ", answer.printed)
    plain_loop(file, tmp_path / "other")
    assert len(parts(home)) == 2
    assert parts(home) == parts(tmp_path / "other")


MODELS = """
scenarios:
  - dnn: hf:config.json
    sequence_length: [8, 16]
    strategy: all_reduce
    batch_size: 2
    precision: bf16
    optimizer: adamw
    worker: [p5.48xlarge, gpu.v100]
    devices_per_node: [1, 8]
    workers: [1, 2]
"""
OF_FUNCTION = """
systems: [gpu_step]
scenarios:
  - {dnn: "mine:build", batch_size: [2, 4], worker: [gpu.h100, g5.xlarge]}
"""
FUNCTION = """
import torch

def build(batch_size):
    return torch.nn.Linear(12, 5), torch.zeros(batch_size, 12)
"""

SAME = ("value", "low", "high", "metric", "split", "usd_per_hour", "usd_per_million_samples")
IN_DETAIL = ("binds", "fits", "past_error_percent", "past_n")


@pytest.fixture
def models(
    public_history: Path, home: Path, quickly_traced: None, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Return a sweep of two parts about models of a folder, which is the one that we are in."""
    copytree(public_history, home, dirs_exist_ok=True)
    monkeypatch.chdir(home.parent)
    Path("config.json").write_text(json.dumps(TINY))
    Path("mine.py").write_text(FUNCTION)
    path = Path("models.yaml").absolute()
    path.write_text(MODELS)
    return path


def predicted(
    stepcast: Stepcast, target: str, **options: str
) -> Mapping[str, list[dict[str, Any]]]:
    """Return the forecasts and refusals of `stepcast predict`, by scenario."""
    words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    told = stepcast("predict", target, *words, "--json", "--dry-run").content
    by_scenario: dict[str, list[dict[str, Any]]] = {}
    for one in told["forecasts"] + told["refused"]:
        by_scenario.setdefault(one["scenario_id"], []).append(one)
    return by_scenario


def check_rows(rows: pl.DataFrame, answers: Mapping[str, list[dict[str, Any]]]) -> None:
    """Compare rows of a sweep with the answers of `stepcast predict`, value by value."""
    assert set(rows["scenario_id"]) == answers.keys()
    assert set(rows.drop_nulls("value").select("scenario_id", "system").rows()) == {
        (one["scenario_id"], one["system"])
        for answer in answers.values()
        for one in answer
        if "reason" not in one
    }
    for row in rows.to_dicts():
        answer = answers[row["scenario_id"]]
        refused = [one for one in answer if "reason" in one]
        forecasts = {one["system"]: one for one in answer if "reason" not in one}
        if row["value"] is None:
            ours = [one for one in refused if not one["foreign"]] or refused
            assert not forecasts
            assert row["refusal"] == "; ".join(f"{one['system']}: {one['reason']}" for one in ours)
            continue
        forecast = forecasts[row["system"]]
        assert {name: row[name] for name in SAME} == {name: forecast[name] for name in SAME}
        detail = forecast["detail"]
        assert {name: row[name] for name in IN_DETAIL} == {name: detail[name] for name in IN_DETAIL}
        assert row["needed_gib"] == detail["needed_bytes"] / 2**30


def test_models_of_ones_own_are_forecast_as_predict_does(
    models: Path, home: Path, stepcast: Stepcast
) -> None:
    answer = stepcast("sweep", str(models))
    assert re.search(r"hf:config.json, 8 words, is own-[0-9a-f]{8}: [\d,]+ parameters", answer.err)
    assert re.search(r"hf:config.json 16 words bfloat16 +1 p5.48xlarge", answer.printed)
    (folder,) = home.glob("sweeps/models-????????")
    rows = pl.read_parquet(folder / "part-*.parquet")
    assert rows["scenario"].n_unique() == 2 * 8
    options = {
        **{"batch_size": "2", "optimizer": "adamw", "precision": "bf16"},
        **{"worker": "p5.48xlarge,gpu.v100", "devices_per_node": "1,8", "workers": "1,2"},
    }
    for words in (8, 16):
        answers = predicted(stepcast, "hf:config.json", sequence_length=f"{words}", **options)
        check_rows(rows.filter(dnn="hf:config.json", sequence_length=words), answers)


def test_a_model_whose_code_has_changed_is_another_sweep(
    models: Path, home: Path, stepcast: Stepcast
) -> None:
    models.write_text(OF_FUNCTION)

    def swept() -> set[Path]:
        answer = stepcast("sweep", str(models))
        assert answer.code == 0, answer.err
        return set(home.glob("sweeps/models-????????"))

    before = swept()
    assert swept() == before
    asked = {"batch_size": "2,4", "worker": "gpu.h100,g5.xlarge", "systems": "gpu_step"}
    answers = predicted(stepcast, "mine:build", **asked)
    check_rows(pl.read_parquet([folder / "part-*.parquet" for folder in before]), answers)
    Path("mine.py").write_text(FUNCTION.replace("12", "24"))
    (other,) = swept() - before
    changed = predicted(stepcast, "mine:build", **asked)
    assert changed.keys().isdisjoint(answers)
    check_rows(pl.read_parquet(other / "part-*.parquet"), changed)
    Path("mine.py").write_text(FUNCTION)
    assert swept() == {*before, other}


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (
            MODELS,
            "[8, 16]",
            "[41]",
            "models.yaml: hf:config.json: sequence_length: expected at most 40, the posit",
        ),
        (MODELS, "    strategy", "    image_size: 32\n    strategy", "leave out image_size"),
        (
            OF_FUNCTION,
            '"mine:build"',
            '"mine:build", sequence_length: 8',
            "only models by a config, hf:CONFIG",
        ),
        (OF_FUNCTION, '"mine:build"', '"mine:build", head: none', "head: only models by a config"),
        (MODELS, "hf:config.json", "[hf:bert, resnet18]", "dnn: hf:bert is a model of your own"),
    ],
)
def test_a_model_that_cannot_be_is_one_line(
    text: str, old: str, new: str, message: str, models: Path, stepcast: Stepcast
) -> None:
    models.write_text(text.replace(old, new))
    answer = stepcast("sweep", str(models))
    assert message in answer.refusal and "--" not in answer.refusal
