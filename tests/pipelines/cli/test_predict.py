"""`stepcast predict` on a few reference runs."""

import json
import re
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from pipelines.cli.answers import ForecastRow
from tests.made_run import judgement, made_run
from tests.pipelines.ran import Answer, Stepcast, modules_after, words
from warehouse.landing import land
from warehouse.warehouse import Warehouse

TENSORFLOW = {
    "--dnn": "small_cnn",
    "--image-size": "24",
    "--batch-size": "1",
    "--worker": "emu.native.s25",
    "--server": "emu.server",
    "--link-mbps": "200",
    "--workers": "2,8",
}
PYTORCH = {
    "--dnn": "small_cnn",
    "--framework": "pytorch",
    "--image-size": "32",
    "--batch-size": "12",
    "--worker": "emu.avx512.c15,emu.avx512.s15",
    "--link-mbps": "200",
    "--workers": "2",
}
CHANGED_AT = datetime(2031, 5, 4, 3, 2, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """This host is none whose runs are committed, whichever it is."""
    monkeypatch.setattr("profilers.steady.host.host_id", lambda: "another")


def predict(
    stepcast: Stepcast, question: dict[str, str], *options: str, **changes: str | None
) -> Answer:
    """Ask, with some options changed, None: left out."""
    return stepcast("predict", *words(question, **changes), *options)


def test_forecasts_are_shown_with_their_past_errors(
    stepcast: Stepcast, history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    lines = predict(stepcast, PYTORCH, systems="srift,ideal_scaling,async_sgd").printed.splitlines()
    assert lines[0].startswith("Backend emulated, host 47b887f2098888d8")
    rows = [line for line in lines if line.startswith(("srift ", "ideal_scaling "))]
    assert len(rows) == 4
    assert all(re.search(r" s .* %, n = 2 +held out world size$", row) for row in rows)
    assert [" to " in row for row in rows] == [row.startswith("srift ") for row in rows]
    assert (
        "async_sgd: it is about asynchronous training of tensorflow, not all_reduce of pytorch"
        in lines
    )
    assert lines[-1] == "4 forecasts are new in the ledger, marked as merely asked for."
    merely_asked = Warehouse(history).query("predictions").filter(pl.col("study").is_null())
    assert merely_asked["repeat"].to_list() == [None] * 4


def test_json_has_everything(stepcast: Stepcast, history: Path) -> None:
    output = predict(
        stepcast, TENSORFLOW, "--json", "--dry-run", systems="linear,lin,async_sgd,srift"
    ).content
    assert (output["backend"], output["this_host"], output["written"]) == ("emulated", False, 0)
    systems = [forecast["system"] for forecast in output["forecasts"]]
    assert systems == ["linear", "lin", "async_sgd"] * 2
    for forecast in output["forecasts"]:
        assert forecast.keys() == ForecastRow.model_fields.keys()
        assert forecast["split"] == "held_out_world_size"
        assert (forecast["metric"], forecast["unit"]) == ("throughput_steps_per_s", "step/s")
        assert forecast["value"] > 0
        assert forecast["past_n"] == 3
        # Judged were one to four workers; the profile is of one, which is another split.
        of = [
            (near["split"] != forecast["split"], near["distance"]) for near in forecast["nearest"]
        ]
        assert of == sorted(of)
        assert [other for other, _ in of] == [False, False, False, True]
        assert len(forecast["nearest"]) == 4
        sizes = [abs(near["error_percent"]) for near in forecast["nearest"]]
        assert forecast["nearest_mape_percent"] == pytest.approx(sum(sizes) / 4)
        inside = forecast["nearest_inside"], forecast["nearest_intervals"]
        assert inside == ((2, 4) if forecast["system"] == "async_sgd" else (0, 0))
        assert (forecast["far_out"], forecast["corrected_by"]) == (None, None)
    assert [(row["system"], row["foreign"]) for row in output["refused"]] == [("srift", True)] * 2


def test_what_no_system_knows_is_one_line(stepcast: Stepcast, history: Path) -> None:
    """Nothing of float32 by plain SGD stands for it, nor a replica for one device alone."""
    recipe = {"precision": "bf16", "optimizer": "AdamW", "accumulate": "2"}
    answer = predict(stepcast, PYTORCH, "--dry-run", **recipe)
    assert answer.code == 2, "no system has a forecast"
    refusal = "it knows training in float32 by plain SGD, not bfloat16, adamw, 2 passes a step"
    (line,) = (line for line in answer.out.splitlines() if refusal in line)
    assert line.startswith("srift, srift_paper, ceer_pytorch, ")
    assert " s  " not in answer.out
    alone = predict(stepcast, PYTORCH, "--dry-run", workers=None, link_mbps=None)
    assert alone.code == 2
    assert "\nAsked about is one device alone (single); with `--workers 1` it is" in alone.out
    # What measures itself knows whatever was measured.
    assert "ideal_scaling: no torch_compute of small_cnn 32px on emu.avx512.c15; ab" in alone.out


def test_the_time_of_an_epoch_is_that_of_its_samples(stepcast: Stepcast, history: Path) -> None:
    """Of 12 images on each of two nodes a step has 24; a worker's own step has its one image."""
    options = ("--dataset-samples", "48000", "--json", "--dry-run")
    for question, systems in ((PYTORCH, "srift"), (TENSORFLOW, "async_sgd,linear")):
        answer = predict(stepcast, question, *options, systems=systems)
        for forecast in answer.content["forecasts"]:
            seconds, least, most = forecast["epoch_s"]
            steps = 48000 / 24 if systems == "srift" else 48000
            per_step = forecast["value"] if systems == "srift" else 1 / forecast["value"]
            assert seconds == pytest.approx(steps * per_step)
            if forecast["low"] is not None:
                assert least < seconds < most
    shown = predict(stepcast, PYTORCH, *options[:2], "--dry-run", systems="srift")
    assert " epoch " in shown.out
    assert " min (" in shown.out
    wrong = predict(stepcast, PYTORCH, "--dataset-samples", "0")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)


def test_a_price_of_ones_own_counts(stepcast: Stepcast, history: Path, tmp_path: Path) -> None:
    file = tmp_path / "node_prices.csv"
    file.write_text("node_type,region,since,usd_per_hour\nemu.avx512.s15,here,2026-11-01,1.5\n")
    assert stepcast("import", "csv", str(file)).code == 0
    options = ("--json", "--dry-run")
    answer = predict(stepcast, PYTORCH, *options, systems="srift", worker="emu.avx512.s15")
    (forecast,) = json.loads(answer.out)["forecasts"]
    assert forecast["usd_per_hour"] == pytest.approx(2 * 1.5)


def test_what_is_far_out_is_refused_unless_asked_for(stepcast: Stepcast, history: Path) -> None:
    far = (
        "64 workers, where forecasts were judged from 1 to 4; first measure a scenario of 8 "
        "workers; list it under test of a study: `stepcast run` judges it"
    )
    ask = partial(predict, stepcast, TENSORFLOW, "--dry-run", systems="linear", workers="64")
    answer = ask()
    assert answer.code == 2
    assert (
        f"linear: far out: {far}; `stepcast predict --far-out` shows the number"
        in answer.out.splitlines()
    )
    shown = ask("--far-out", "--json")
    (forecast,) = json.loads(shown.out)["forecasts"]
    assert forecast["far_out"] == far
    assert f"(linear): {far}." in ask("--far-out").out


def test_a_measured_step_corrects(stepcast: Stepcast, history: Path) -> None:
    options = ("--calibrate", "workers=1,steps_per_s=2", "--json", "--dry-run")
    answer = predict(stepcast, TENSORFLOW, *options, systems="linear")
    forecasts = {
        (forecast["system"], forecast["scenario"]): forecast
        for forecast in answer.content["forecasts"]
    }
    assert len(forecasts) == 4
    for (system, scenario), forecast in forecasts.items():
        if system == "linear_calibrated":
            workers = int(scenario.partition("W=")[2].partition(" ")[0])
            # With linear scaling each worker takes what one alone does.
            assert forecast["value"] == pytest.approx(2 * workers)
            assert "W=1: 0.5 s measured" in forecast["corrected_by"]
    wrong = predict(stepcast, TENSORFLOW, "--calibrate", "0.5")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)


def change(home: Path, node_type: str) -> None:
    """Let the fleet find that a node type has become slower since the reference was measured."""
    host = "47b887f2098888d8"
    study, config = f"watch.{node_type}", {"worker": node_type}
    for run_id, name in (("probe", "watch"), ("judge", "drift")):
        run = made_run(run_id, name, CHANGED_AT, study=study, host_id=host, config=config)
        land(
            home / "landing",
            run,
            None,
            {"judgement": judgement(node_type=node_type)} if name == "drift" else {},
        )
    Warehouse(home).load()


def test_what_has_changed_since_it_was_profiled_is_told(stepcast: Stepcast, history: Path) -> None:
    ask = partial(predict, stepcast, PYTORCH, "--dry-run", systems="srift,ideal_scaling")
    assert "Stale" not in ask().out
    before = json.loads(ask("--json").out)["forecasts"]
    assert [forecast["changed_since"] for forecast in before] == [[]] * 4
    change(history, "emu.avx512.s15")
    (line,) = [line for line in ask().out.splitlines() if line.startswith("Stale")]
    assert line == (
        "Stale: emu.avx512.s15 has changed since it was profiled (time of a step 50 % worse, "
        "confirmed 2031-05-04 03:02); forecasts of srift, ideal_scaling rest on profiles from "
        "before. `stepcast fleet run emu.avx512.s15` profiles it again."
    )
    after = json.loads(ask("--json").out)["forecasts"]
    assert [forecast["value"] for forecast in after] == [forecast["value"] for forecast in before]
    alarm = {
        "node_type": "emu.avx512.s15",
        "since": "2031-05-04T03:02:00Z",
        "metric": "watch_step_time_s",
        "percent": 50.0,
    }
    # One fit of a system is of both types that were asked for.
    assert [forecast["changed_since"] for forecast in after] == [[alarm]] * 4
    alone = json.loads(ask("--json", worker="emu.avx512.c15").out)["forecasts"]
    # Alone, that other type shares with it only the links of their round.
    assert {forecast["system"]: forecast["changed_since"] for forecast in alone} == {
        "srift": [alarm],
        "ideal_scaling": [],
    }


def test_what_is_lacking_comes_with_a_study_file(
    stepcast: Stepcast, history: Path, tmp_path: Path
) -> None:
    answer = predict(stepcast, PYTORCH, dnn="resnet50", image_size="64")
    assert answer.code == 2, "nothing was measured of it"
    assert "srift: no torch_compute of resnet50 64px on emu.avx512.c15; about" in answer.out
    assert "For other kinds of training: async_sgd," in answer.out
    lines = answer.out.splitlines()
    first = next(place for place, line in enumerate(lines) if line == "  name: asked")
    study = tmp_path / "asked.yaml"
    study.write_text("\n".join(line[2:] for line in lines[first : first + 4]))
    from studies.study import read_study

    read = read_study(study)
    assert read.systems == ("srift", "srift_paper", "ideal_scaling")
    assert [curve.dnn for curve in read.curves] == ["resnet50"] * 2
    assert lines[-1].startswith("What learns from other networks needs a study that lists some")


def test_templates_may_be_in_a_file(stepcast: Stepcast, history: Path, tmp_path: Path) -> None:
    file = tmp_path / "templates.yaml"
    file.write_text(
        "- {dnn: small_cnn, image_size: 24, batch_size: 1, worker: emu.native.s25, "
        "server: emu.server, link_mbps: 200, workers: [2, 3]}\n"
        "- {dnn: small_cnn, framework: pytorch, strategy: all_reduce, image_size: 32, "
        "batch_size: 12, worker: emu.avx512.c15, link_mbps: 200, workers: 2}\n"
    )
    answer = stepcast(
        "predict", str(file), "--json", "--dry-run", "--systems", "linear,ideal_scaling"
    )
    systems = [forecast["system"] for forecast in answer.content["forecasts"]]
    assert systems == ["linear", "linear", "ideal_scaling"]
    both = stepcast("predict", str(file), "--dnn", "vgg11")
    assert (both.code, "expected either options or a file" in both.err) == (2, True)
    file.write_text("dnn: small_cnn\n")
    assert "expected a list of templates" in stepcast("predict", str(file)).refusal
    file.write_text("- {dnn: small_cnn, image_sise: 24}\n")
    wrong = stepcast("predict", str(file))
    assert wrong.code == 2
    assert f"{file}: [0].image_sise: no such key; did you mean image_size?" in wrong.err


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"systems": "linaer"}, "systems: no system 'linaer'; there are async_sgd"),
        ({"batch_size": "0"}, "--batch-size: input should be greater than or equal to 1, found 0"),
        (
            {"batch_size": None, "worker": None},
            "--batch-size, --worker: missing, and have no default",
        ),
        ({"worker": "h100"}, "unknown node type 'h100'; did you mean gpu.h100, p5.4xlarge"),
        ({"server": None}, "--server: missing; name the node type of the parameter servers"),
    ],
)
def test_wrong_questions_are_one_line(
    stepcast: Stepcast, history: Path, changes: dict[str, str | None], told: str
) -> None:
    assert told in predict(stepcast, TENSORFLOW, **changes).refusal


def test_without_a_question_or_a_history_it_says_what_to_do(stepcast: Stepcast, home: Path) -> None:
    assert "nothing asked: give --dnn" in stepcast("predict").refusal
    answer = predict(stepcast, TENSORFLOW)
    assert "nothing has been measured in" in answer.refusal
    assert "`stepcast run STUDY.yaml`" in answer.refusal
    assert not list(home.iterdir())


def test_it_loads_neither_dagster_nor_a_framework(history: Path) -> None:
    arguments = " ".join(words(TENSORFLOW, systems="linear"))
    loaded = modules_after(history, f"predict {arguments} --dry-run")
    assert "forecasting.forecast" in loaded
    assert not loaded & {"dagster", "tensorflow", "torch", "matplotlib", "boto3", "scipy.stats"}
