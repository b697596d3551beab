"""A round of made-up networks that has landed: steps are a closed form, each run takes 10 s."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from forecasting.evaluation import SCHEMA
from forecasting.inputs import inputs_of_study
from networks import extraction
from networks.primitives import PrimitiveGraph
from profilers.probe import PlannedRun
from studies.rounds import Round
from studies.study import read_study
from tests.made_run import made_run, raw_table
from tests.pipelines.service.made_up import at_hand, chain, convolutions
from tests.synthetic import write_study
from warehouse.landing import land
from warehouse.records import Run, Scenario

SIDE = 64
LAYERS: Mapping[str, int] = {"resnet18": 18, "vgg11": 11, "squeezenet": 24, "mobilenet": 28}
"""Networks, and how many convolutions each is taken for; the last two are never trained on."""
RUN_S = 10.0
FIT_ID = "fit-1"
"""Of all forecasts."""
_COMMON = (
    "framework: pytorch, strategy: all_reduce, image_size: 64, worker: emu.native.c25, "
    "link_mbps: 500"
)
STUDY = f"""
name: reused
backend: loopback
systems: [predictddl, predictddl_paper, ernest_pooled]
train:
  - {{dnn: [resnet18, vgg11], {_COMMON}, batch_size: [4, 12], workers: [1, 2]}}
test:
  - {{dnn: resnet18, {_COMMON}, batch_size: 8, workers: [3]}}
  - {{dnn: [squeezenet, mobilenet], {_COMMON}, batch_size: 4, workers: [2, 3]}}
"""


def graphs() -> dict[tuple[str, int], PrimitiveGraph]:
    """Return what stands for traced networks."""
    return {(dnn, SIDE): chain(convolutions(count), dnn) for dnn, count in LAYERS.items()}


def step_s(scenario: Scenario) -> float:
    """Return a step: so much for each convolution of an image, and for each server."""
    load = scenario.workload
    return 0.001 * LAYERS[load.dnn] * load.batch_size + 0.01 * scenario.strategy.workers


def landed(folder: Path, patch: pytest.MonkeyPatch) -> Round:
    """Return the round, with all its steps in `folder`; networks have made-up graphs."""
    patch.setattr(extraction, "_PRIMITIVES", at_hand(graphs()))
    study = read_study(write_study(folder.parent, STUDY))
    empty = Round(study, inputs_of_study(study), "loopback", "host-1", 1, ())
    needed = [need for need in empty.needs if need.probe == "torch_throughput"]
    runs = tuple(_land(folder, place, need) for place, need in enumerate(needed))
    return Round(study, inputs_of_study(study), "loopback", "host-1", 1, runs)


def judged(round_: Round, factors: Mapping[str, float]) -> pl.DataFrame:
    """Return forecasts of all test scenarios: so many times the measured step, by system."""
    rows: list[tuple[object, ...]] = []
    curves = [curve for curve in round_.study.curves if curve.is_judged]
    for scenario in (scenario for curve in curves for scenario in curve.scenarios("loopback")):
        asked = scenario.workload.dnn, scenario.strategy.workers
        measured_s = step_s(scenario)
        for system, factor in factors.items():
            of = (system, scenario.scenario_id, *asked, factor * measured_s, measured_s)
            rows.append((*of, 100 * (factor - 1), None, FIT_ID))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row").sort("system", maintain_order=True)


def _land(folder: Path, place: int, need: PlannedRun) -> Run:
    scenario = need.scenario
    began = datetime(2030, 1, 1, tzinfo=UTC) + timedelta(minutes=place)
    run = made_run(
        f"steps-{place}",
        "torch_throughput",
        began,
        purpose=need.purpose,
        study="reused",
        scenario_id=scenario.scenario_id,
        backend="loopback",
        ended_at=began + timedelta(seconds=RUN_S),
        host_id="host-1",
        config={"settings": json.dumps(need.settings)},
    )
    rows = [("step_time_s", "s", 0, step_s(scenario))]
    sample = raw_table("sample", "metric unit window value", rows)
    land(folder, run, scenario, {"sample": sample})
    return run
