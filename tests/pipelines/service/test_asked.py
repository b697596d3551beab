"""Questions of the command line over HTTP: no code, progress, an end, and what can be asked."""

import asyncio
import json
import signal
import subprocess
import time
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from starlette.testclient import TestClient

from pipelines.service.admission import NDJSON, Admission
from pipelines.service.app import service
from pipelines.service.asked import Answers, AskedJob
from pipelines.service.checker import Checker
from pipelines.service.collector import Collector
from tests.pipelines.ran import stepcast
from tests.pipelines.service.conftest import TOKEN, Halves
from warehouse import limits
from warehouse.records import BadInput
from warehouse.warehouse import Warehouse

JOB: dict[str, Any] = {"batch_size": 8, "samples": 1000}


@pytest.mark.parametrize(
    "named",
    [
        *({"dnn": "package.module:build"}, {"dnn": "hf:/etc/passwd"}, {"dnn": "hf:../mine"}),
        *({"dnn": "hf:config.json"}, {"dnn": "hf:gpt2?head=none"}, {"dnn": ["alexnet", "a:b"]}),
        *({"dnn": "hf:gpt2", "head": "none?lora=8"}, {"dnn": "hf:gpt2", "lora_targets": "a?b"}),
        *(
            {},
            {"dnn": "hf:gpt2", "config": {"model_type": "gpt2"}},
            {"config": {"a": "b" * 70_000}},
        ),
        *({"dnn": "alexnet", "file": "/etc/passwd"}, {"dnn": "alexnet", "dry_run": False}),
    ],
)
def test_code_and_files_are_not_named_over_http(named: dict[str, Any], client: TestClient) -> None:
    if "file" in named:
        answer = client.post("/v1/forecasts", json=named)
    else:
        answer = client.post("/v1/recommendations", json=JOB | named)
    assert answer.status_code == 422, answer.text


def test_a_config_that_comes_is_a_file_of_the_service_and_its_code_is_not_run() -> None:
    answers = Answers()
    config = {"model_type": "gpt2", "n_layer": 2}
    options = answers._options(AskedJob.model_validate(JOB | {"config": config}))  # noqa: SLF001
    file = Path(options["dnn"].removeprefix("hf:"))
    assert json.loads(file.read_text()) == config
    with pytest.raises(BadInput, match="auto_map"):
        code = {"model_type": "gpt2", "auto_map": {"AutoModel": "mine--code.Model"}}
        answers._options(AskedJob.model_validate(JOB | {"config": code}))  # noqa: SLF001
    answers.close()
    assert not file.exists()


def test_work_that_nobody_waits_for_ends() -> None:
    began, ended = Event(), Event()

    def work() -> str:
        try:
            began.set()
            while True:
                time.sleep(0.01)
        finally:
            ended.set()

    async def asked() -> None:
        task = asyncio.create_task(admission.run(work))
        await asyncio.to_thread(began.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(ended.wait, 30)
        assert await admission.run(lambda: "next") == "next"  # its turn is free again

    admission = Admission(at_once=1)
    asyncio.run(asked())


def test_progress_comes_before_the_answer_and_a_refusal_instead(client: TestClient) -> None:
    question = {"dnn": "alexnet", **JOB}
    lines = client.post("/v1/recommendations", json=question, headers={"Accept": NDJSON})
    first, *_, last = [json.loads(line) for line in lines.text.splitlines() if line]
    assert first == {"progress": "asked"}
    assert last["detail"].startswith("no history in ")
    plain = client.post("/v1/recommendations", json=question)
    assert (plain.status_code, plain.json()) == (400, last)


def test_lists_are_those_of_the_commands(home: Path, client: TestClient) -> None:
    Warehouse(home).load()
    types = client.get("/v1/node-types").json()
    printed = json.loads(stepcast("node-types", "--format", "json").out)
    assert [dict(zip(types["columns"], row, strict=True)) for row in types["rows"]] == printed
    queries = {each["name"]: each for each in client.get("/v1/history/queries").json()["queries"]}
    assert queries["accuracy"]["params"] == ["metric", "repeat", "study"]
    assert "FROM report.accuracy" in queries["accuracy"]["sql"]
    assert client.get("/v1/history/queries/runs").json()["rows"] == []
    assert client.get("/v1/history/queries/runs?nobody=1").status_code == 400
    support = client.get("/v1/support").json()
    assert {"llama-3-8b", "llama", "bert", "vit"} <= {each["name"] for each in support["models"]}


def test_sql_is_taken_only_where_it_is_allowed(
    home: Path, client: TestClient, checker: Checker
) -> None:
    Warehouse(home).load()
    select = {"sql": "SELECT 6 * 7 AS answer"}
    assert client.post("/v1/history/sql", json=select).status_code == 400
    app = service(Halves(), Collector(), checker, None, allows_sql=True)
    allowed = TestClient(app, raise_server_exceptions=False)
    answer = allowed.post("/v1/history/sql", json=select).json()
    assert answer == {"columns": ["answer"], "rows": [[42]], "left_out": 0}
    for statement in ("DROP TABLE raw.run", "SELECT 1; SELECT 2", "COPY raw.run TO '/tmp/x'"):
        refused = allowed.post("/v1/history/sql", json={"sql": statement})
        assert refused.status_code == 400, statement


@pytest.mark.parametrize(
    ("bound", "most", "statement", "why"),
    [
        (
            "ANSWER_S",
            0.5,
            "SELECT count(*) FROM range(1000000000) a, range(1000000000) b",
            "more than 0.5 s",
        ),
        ("ANSWER_BYTES", 1 << 20, "SELECT range AS n FROM range(100000000)", "more than 1 MiB"),
    ],
)
def test_sql_over_http_ends_where_it_is_bounded(
    bound: str,
    most: float,
    statement: str,
    why: str,
    home: Path,
    checker: Checker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Warehouse(home).load()
    started: list[subprocess.Popen[bytes]] = []

    class Started(subprocess.Popen[bytes]):
        def __init__(self, words: list[str], **options: Any) -> None:
            super().__init__(words, **options)
            started.append(self)

    monkeypatch.setattr(limits, bound, most)
    monkeypatch.setattr(subprocess, "Popen", Started)
    app = service(Halves(), Collector(), checker, None, allows_sql=True)
    answer = TestClient(app).post("/v1/history/sql", json={"sql": statement})
    assert (answer.status_code, why in answer.json()["detail"]) == (400, True), answer.text
    assert [child.poll() for child in started] == [-signal.SIGKILL]


def test_the_page_is_for_everybody_and_loads_only_its_own(client: TestClient) -> None:
    bare = {"Authorization": ""}
    page = client.get("/", headers=bare)
    policy = page.headers["Content-Security-Policy"]
    assert page.status_code == 200 and TOKEN not in page.text
    assert "script-src 'self'; " in policy and "unsafe" not in policy
    for name in ("style.css", "d3.min.js", "plot.umd.min.js", "ask.js"):
        assert f"files/{name}" in page.text
        assert client.get(f"/files/{name}", headers=bare).status_code == 200
    assert client.get("/files/other.js", headers=bare).status_code == 401
    assert client.get("/v1/support", headers=bare).status_code == 401
