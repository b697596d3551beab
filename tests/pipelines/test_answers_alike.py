"""The same question on the command line, in Python, over HTTP and in a sweep: the same numbers."""

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import stepcast as python
from forecasting.forecast import ForecastAnswer, predict_curves
from forecasting.sweep import begin, folder_of, forecast_part
from forecasting.sweep_file import read_sweep
from pipelines.service.app import service
from pipelines.service.checker import Checker
from pipelines.service.collector import Collector
from pipelines.service.engine import Engine
from tests.pipelines.ran import stepcast
from warehouse.history import PublishedHistory
from warehouse.warehouse import Warehouse

NODES = 4
RECIPE: dict[str, Any] = {"batch_size": 64, "image_size": 64, "precision": "bfloat16"}
TEMPLATE = {
    "dnn": "small_cnn",
    "framework": "pytorch",
    "strategy": "all_reduce",
    "worker": "p5.48xlarge",
    "workers": [NODES],
    "devices_per_node": 1,
    **RECIPE,
}
FIGURES = ("scenario_id", "system", "metric", "value", "low", "high")


def by_command(folder: Path) -> list[dict[str, Any]]:
    file = folder / "question.yaml"
    file.write_text(json.dumps([TEMPLATE]))
    answer = stepcast("predict", str(file), "--json")
    forecasts: list[dict[str, Any]] = answer.content["forecasts"]
    return forecasts


def by_python() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = python.forecast(**TEMPLATE).drop_nulls("value").to_dicts()
    return rows


def client_of(home: Path) -> TestClient:
    engine = Engine(PublishedHistory(home))
    return TestClient(service(engine, Collector(), Checker(None, 1, ["true"]), None))


def by_http(home: Path) -> list[dict[str, Any]]:
    client = client_of(home)
    nodes = {"node_type": "p5.48xlarge", "count": NODES, "devices_per_node": 1}
    question = {"workloads": [{"dnn": "small_cnn", **RECIPE}], "nodes": [nodes]}
    answer = client.post("/v1/forecasts", json=question)
    assert answer.status_code == 200, answer.text
    (forecast,) = answer.json()["forecasts"]
    assert (forecast["status"], forecast["answered_by"]) == ("forecast", "gpu_step")
    assert forecast["step_time_s"] == forecast["systems"][0]["value"]
    systems: list[dict[str, Any]] = forecast["systems"]
    return systems


def by_sweep(home: Path, folder: Path) -> list[dict[str, Any]]:
    file = folder / "sweep.yaml"
    file.write_text(json.dumps({"scenarios": [TEMPLATE]}))
    swept = folder_of(read_sweep(file), file, home)
    begin(swept, read_sweep(file), Warehouse(home))
    for part in swept.parts:
        forecast_part(swept, part.number)
    rows: list[dict[str, Any]] = swept.rows.collect().drop_nulls("value").to_dicts()
    return rows


def test_all_four_answer_alike(public_home: Path, tmp_path: Path) -> None:
    several = (
        by_command(tmp_path),
        by_python(),
        by_http(public_home),
        by_sweep(public_home, tmp_path),
    )
    command, frame, http, sweep = (
        [{name: row[name] for name in FIGURES} for row in rows] for rows in several
    )
    assert command == frame == http == sweep
    assert [row["system"] for row in command] == ["gpu_step"]


def test_what_to_rent_is_the_same_over_http(
    public_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"dnn": "small_cnn", "samples": 10**7, "max_hours": 24, **RECIPE}
    words = [
        word
        for name, value in options.items()
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
    printed = stepcast("recommend", *words, "--json")
    client = client_of(public_home)
    command, http = printed.content, client.post("/v1/recommendations", json=options).json()
    # Each is as of its own moment, and named by it.
    assert command.pop("recommendation_id") != http.pop("recommendation_id")
    assert command == http
    assert http["choice"] and http["front"] and http["forecasts"]
    # Fewer and other nodes are answered from the same forecasts, as if they had been made anew.
    hosts = list[object]()

    def noted(*given: Any, **options: Any) -> ForecastAnswer:
        hosts.append(options.get("chosen_host"))
        return predict_curves(*given, **options)

    monkeypatch.setattr("pipelines.service.asked.predict_curves", noted)
    for most in (2, 5):
        question = options | {"max_nodes": most}
        again, anew = (
            each.post("/v1/recommendations", json=question).json()
            for each in (client, client_of(public_home))
        )
        assert again.pop("recommendation_id") and anew.pop("recommendation_id")
        assert again == anew
    # Forecasts of further numbers are of the same host: it is chosen once.
    assert [host is None for host in hosts] == [True, False, True]


def test_cells_of_coverage_are_the_past_errors_that_forecasts_quote(
    public_home: Path, tmp_path: Path
) -> None:
    (forecast,) = by_command(tmp_path)
    detail = forecast["detail"]
    cells = client_of(public_home).get("/v1/coverage").json()["cells"]
    assert all(cell["n"] == len(cell["cases"]) for cell in cells)
    cases = [case for cell in cells for case in cell["cases"]]
    quoted = [
        abs(case["error_percent"])
        for case in cases
        if (case["left_out"] == "family") == bool(detail["past_devices"])
    ]
    assert len(quoted) == detail["past_n"]
    assert sum(quoted) / len(quoted) == pytest.approx(detail["past_error_percent"])
