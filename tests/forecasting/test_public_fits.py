"""Studies whose forecasts rest on public measurements: sealed, judged, and told apart by device."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from assets.study_lineage import read_lineage
from forecasting.history_scope import RunIndex, host_here, visible_runs
from forecasting.inputs import systems_of
from forecasting.round_forecasts import check_predicted, predict_missing
from forecasting.scope import HistoryScope
from forecasting.study_checks import check_forecasts
from models.gpu_step import scenario_steps
from models.gpu_step.system import GPU_STEP
from studies.messages import Progress
from studies.rounds import Round
from studies.study import read_study
from tests import my_history, synthetic
from tests.fleet.paper_watch import Told
from tests.made_run import ddp_curve, raw_table
from tests.models.gpu_step.public import made_up_steps
from tests.synthetic import write_study
from warehouse.landing import land, landed_runs
from warehouse.records import BadInput
from warehouse.warehouse import Warehouse

THERE = "5e1f5e1f5e1f5e1f"
STUDY = """
name: gpus
backend: loopback
systems: [gpu_step]
probes:
  torch_throughput: {iterations: 20}
test:
  - {dnn: small_cnn, framework: pytorch, strategy: single, image_size: 32, batch_size: [64, 128],
     worker: gpu.h100, optimizer: adamw}
  - {dnn: small_cnn, framework: pytorch, strategy: single, image_size: 32, batch_size: 64,
     worker: gpu.l4, precision: bfloat16}
"""


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenario_steps, "gpu_steps", made_up_steps)


def opened(home: Path, folder: Path) -> Round:
    """Return the round of a host with GPUs, as landed."""
    study = read_study(write_study(folder, STUDY))
    return synthetic.opened(study, "loopback", THERE, landed_runs(home / "landing"))


def measure(home: Path, round_: Round, slower: float = 1.25) -> None:
    """Land what judges forecasts: steps that take so many times as long as forecast."""
    values = dict(
        Warehouse(home)
        .query("predictions", study="gpus", repeat=1)
        .select("subject_id", "value")
        .iter_rows()
    )
    for place, need in enumerate(round_.missing):
        step_s = slower * values[need.scenario.scenario_id]
        rows = [("step_time_s", "s", window, step_s) for window in range(3)]
        sample = raw_table("sample", "metric unit window value", rows)
        run = my_history.of_host(need.probe, f"step-{place}", {}, need.scenario, THERE, "gpus")
        later = {"purpose": "measurement", "started_at": run.started_at + timedelta(days=9000)}
        later["ended_at"] = later["started_at"]
        run = run.model_copy(update=later)
        land(home / "landing", run, need.scenario, {"sample": sample})
    Warehouse(home).load()


def forecast(home: Path, round_: Round, progress: Progress) -> pl.DataFrame:
    (gpu_step,) = systems_of(round_.study)
    warehouse = Warehouse(home)
    return predict_missing(gpu_step, round_, warehouse, progress)


def test_a_study_forecasts_single_gpus_and_judges_that(public_home: Path, tmp_path: Path) -> None:
    """Steps take 1.25 times as long as forecast: forecasts are 20 % too short."""
    home = public_home
    round_ = opened(home, tmp_path)
    assert {(need.probe, need.purpose) for need in round_.missing} == {
        ("torch_throughput", "measurement")
    }
    progress = Told()
    ledger = forecast(home, round_, progress)
    assert progress.warnings == []
    assert ledger.height == 3 and (ledger["low"] < ledger["value"]).all()
    check_predicted(round_, ledger)
    warehouse = Warehouse(home)
    saw = warehouse.query("fit_inputs", fit_id=None, system="gpu_step")
    assert set(saw["run_id"]) == set(warehouse.visible("external")["run_id"])
    path, count = warehouse.seal(
        "gpus", 1, [need.scenario for need in round_.missing], tmp_path, datetime.now(UTC)
    )
    assert count == 3 and path.name == "gpus.1.parquet"

    measure(home, round_)
    judged = warehouse.query("judged").filter(system="gpu_step").sort("predicted")
    assert judged["error_percent"].to_list() == [pytest.approx(-20)] * 3
    assert dict(judged.select("label", "split").iter_rows()) == {
        "small_cnn 32px b64, adamw, single (1 gpu.h100)": "held_out_dnn",
        "small_cnn 32px b128, adamw, single (1 gpu.h100)": "held_out_dnn",
        "small_cnn 32px b64, bfloat16, single (1 gpu.l4)": "held_out_device",
    }
    board = warehouse.query("leaderboard").filter(system="gpu_step")
    assert dict(board.select("split", "n").iter_rows()) == {"held_out_dnn": 2, "held_out_device": 1}
    warehouse.load_sealed(tmp_path)
    sealed = warehouse.query("sealed")
    assert dict(sealed.select("split", "n").iter_rows()) == dict(
        board.select("split", "n").iter_rows()
    )


def test_without_public_measurements_nothing_is_measured(tmp_path: Path) -> None:
    home = tmp_path / "home"
    round_ = opened(home, tmp_path)
    progress = Told()
    Warehouse(home).load()
    ledger = forecast(home, round_, progress)
    assert ledger.is_empty()
    (warning,) = progress.warnings
    assert "gpu_step is left out" in warning and "`stepcast load public`" in warning
    with pytest.raises(BadInput, match="no prediction of it for round 1 of gpus"):
        check_predicted(round_, ledger)


def test_a_host_without_the_gpu_is_refused(tmp_path: Path) -> None:
    file = write_study(tmp_path, STUDY)
    with pytest.raises(BadInput, match=r"node type 'gpu\.h100' .*this host") as refused:
        check_forecasts(read_study(file), file, "loopback")
    assert "\n" not in str(refused.value)


def test_lineage_shows_fits_that_rest_on_nothing_of_the_study(tmp_path: Path) -> None:
    of = read_lineage(write_study(tmp_path, STUDY), "loopback")
    assert [system.name for system in of.systems] == ["gpu_step"]
    assert (of.profiling, of.measuring) == ((), ("torch_throughput",))


def test_a_fit_to_public_measurements_needs_no_exchange_of_ours(public_home: Path) -> None:
    """What other systems learn of exchanges is from runs of several devices; it has none here."""
    warehouse = Warehouse(public_home)
    curve = ddp_curve("g5.xlarge", [2])
    (scenario,) = curve.scenarios("loopback")
    alone = curve.model_copy(update={"strategy": "single"}).scenario(1, "loopback")
    inputs = GPU_STEP.inputs(alone)
    able = replace(GPU_STEP, inputs=lambda _: inputs)
    public = visible_runs(warehouse, public=True)
    scope = HistoryScope(host_here(), RunIndex(public), RunIndex([]))
    rests = scope.select(able, curve, [scenario])[scenario]
    assert isinstance(rests, tuple) and len(rests) == len(public)
