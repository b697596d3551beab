"""A sweep's grid, its parts, and the rows of a part."""

from datetime import date
from pathlib import Path
from shutil import copytree

import polars as pl
import pytest

from forecasting import sweep_file
from forecasting.forecast import predict_curves
from forecasting.forecast_rows import SCHEMA
from forecasting.inputs import systems_named
from forecasting.sweep import SweepFolder, begin, folder_of, forecast_part
from forecasting.sweep_file import Grid, count_scenarios, parts_of, read_sweep
from models.gpu_step import scenario_steps
from networks.own_model import OwnModel
from studies.curve import Curve
from tests.models.gpu_step.public import made_up_steps
from warehouse.home import HISTORY
from warehouse.records import BadInput
from warehouse.warehouse import Warehouse

TEXT = """
systems: [gpu_step]
prices_on: [2026-07-25, 2026-11-01]
scenarios:
  - worker: [g4dn.xlarge, gpu.h100, p5.48xlarge]
    dnn: [small_cnn, resnet18]
    framework: pytorch
    strategy: all_reduce
    image_size: [32, 64]
    batch_size: 64
    precision: [float32, bfloat16]
    devices_per_node: 1
    workers: [4, 1]
  - {dnn: small_cnn, framework: pytorch, image_size: 32, batch_size: [8, 16], worker: gpu.h100}
"""


@pytest.fixture(scope="module")
def folder(public_history: Path, tmp_path_factory: pytest.TempPathFactory) -> SweepFolder:
    """Return a sweep of which all parts are there."""
    home = Path(copytree(public_history, tmp_path_factory.mktemp("sweep") / "home"))
    file = home / "gpus.yaml"
    file.write_text(TEXT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scenario_steps, "gpu_steps", made_up_steps)
        patch.setattr(sweep_file, "PART_SCENARIOS", 10)
        swept = folder_of(read_sweep(file), file, home)
        begin(swept, read_sweep(file), Warehouse(home))
        for part in swept.parts:
            forecast_part(swept, part.number)
    return swept


def test_what_a_step_has_to_do_varies_last_and_curves_are_numbered() -> None:
    grid = Grid({"worker": ["a", "b"], "batch_size": [8, 16], "dnn": ["x", "y"], "workers": [1, 2]})
    assert (list(grid.axes), len(grid)) == (["dnn", "batch_size", "worker"], 8)
    met = [tuple(grid.fields(number)[name] for name in grid.axes) for number in range(8)]
    assert met == sorted(met)


def test_each_way_to_train_a_model_of_hugging_face_is_a_model(tmp_path: Path) -> None:
    file = tmp_path / "tuned.yaml"
    file.write_text(
        "scenarios:\n  - {dnn: 'hf:gpt2', worker: gpu.h100, batch_size: [4, 8], lora: [8, 16],\n"
        "     checkpoint_activations: [true, false], precision: [bf16, float32], compiled: true}\n"
    )
    sweep = read_sweep(file)
    targets = [template["dnn"] for template in sweep.scenarios]
    assert len(set(targets)) == 2 * 2 * 2 and count_scenarios(sweep) == 16
    assert targets[0] == "hf:gpt2?lora=8?checkpointed=1?weights=bfloat16"
    first = Grid(sweep.scenarios[0]).curves_of_values()[0]
    assert (first.precision, first.compiled) == ("bfloat16", "default")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[32, 64]", "[32, 32]", r"scenarios\[0\]: image_size: 32 is there twice"),
        ("[32, 64]", "[]", r"scenarios\[0\]: image_size: .* found an empty list"),
        ("resnet18]", "resnet81]", "unknown DNN 'resnet81'"),
        ("gpu.h100,", "gpu.h101,", "unknown node type 'gpu.h101'; did you mean gpu.h100"),
        ("[gpu_step]", "[gpu_steps]", "no system 'gpu_steps'"),
        ("2026-11-01", "2126-11-01", r"prices_on\[1\]"),
        ("devices_per_node: 1", "is_judged: true", "not of a sweep"),
        ("devices_per_node: 1", "lora: 16", r"scenarios\[0\]: lora: only models by a config"),
    ],
)
def test_a_wrong_value_is_told_before_anything_is_forecast(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "gpus.yaml"
    file.write_text(TEXT.replace(old, new))
    with pytest.raises(BadInput, match=message):
        read_sweep(file)


def test_each_scenario_has_rows_for_each_day_or_one_with_its_refusal(folder: SweepFolder) -> None:
    rows = folder.rows.collect()
    assert dict(rows.schema) == dict(SCHEMA)
    assert rows["scenario"].unique().to_list() == list(range(count_scenarios(folder.sweep)))
    assert rows["scenario"].is_sorted()
    forecast = rows.filter(pl.col("refusal").is_null())
    days = forecast.group_by("scenario").agg("priced_on")["priced_on"].to_list()
    assert days == [[date(2026, 7, 25), date(2026, 11, 1)]] * len(days)
    named = pl.concat_str("dnn", "image_size", "node_type", "precision", separator=" ")
    told = dict(rows.drop_nulls("refusal").select(named, "refusal").rows())
    assert "needs images of at least 33" in told["resnet18 32 gpu.h100 float32"]
    assert "t4 has no matrix units" in told["small_cnn 32 g4dn.xlarge bfloat16"]
    assert len(told) == 6 + 3


def test_rows_say_what_predict_says(folder: SweepFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenario_steps, "gpu_steps", made_up_steps)
    rows = folder.rows.filter(node_type="p5.48xlarge", dnn="small_cnn").collect()
    template = {**folder.sweep.scenarios[0], "dnn": "small_cnn", "worker": "p5.48xlarge"}
    curve = Curve.model_validate({**template, "image_size": 64, "precision": "bfloat16"})
    answer = predict_curves(folder.open(), [curve], systems_named(["gpu_step"]), dry_run=True)
    for forecast in answer.forecasts:
        ours = rows.filter(scenario_id=forecast.scenario.scenario_id).row(1, named=True)
        assert ours["value"] == forecast.value
        assert (ours["low"], ours["high"]) == (forecast.low, forecast.high)
        assert ours["usd_per_million_samples"] == forecast.usd_per_million_samples
        assert ours["usd_per_hour"] == forecast.usd_per_hour
        assert ours["nodes"] == forecast.scenario.strategy.workers
    assert len(answer.forecasts) == 2


def test_parts_are_the_same_bytes_in_any_order_whatever_was_published_since(
    folder: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scenario_steps, "gpu_steps", made_up_steps)
    monkeypatch.setattr(sweep_file, "PART_SCENARIOS", 10)
    before = {part.file: (folder.path / part.file).read_bytes() for part in folder.parts}
    published = folder.path.parents[1] / HISTORY
    fresh = published.with_name("fresh")
    fresh.write_bytes(b"another history")
    fresh.replace(published)
    again = SweepFolder(folder.path)
    for part in reversed(again.parts[:4]):
        (folder.path / part.file).unlink()
    assert [part.number for part in again.missing] == [0, 1, 2, 3]
    for part in reversed(again.missing):
        forecast_part(again, part.number)
    assert {part.file: (folder.path / part.file).read_bytes() for part in again.parts} == before


def test_parts_are_of_one_template(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sweep_file, "PART_SCENARIOS", 10)
    (tmp_path / "gpus.yaml").write_text(TEXT)
    parts = parts_of(read_sweep(tmp_path / "gpus.yaml"))
    assert [(part.template, part.stop - part.start) for part in parts] == [
        *[(0, 5), (0, 5), (0, 5), (0, 5), (0, 4)],
        (1, 2),
    ]
    assert [part.first_scenario for part in parts] == [0, 10, 20, 30, 40, 48]


def test_a_model_in_half_precision_is_asked_about_in_it() -> None:
    template = {"dnn": "a:b", "batch_size": 8, "precision": "float32", "strategy": "single"}
    for half, precision in (("bfloat16", "bfloat16"), ("", "float32")):
        own = OwnModel("own-1", "pytorch", 0, 1, None, {}, half=half)
        assert Grid(template, own).fields(0)["precision"] == precision
