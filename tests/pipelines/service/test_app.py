"""The service over HTTP: what is asked well gets its answer, the rest one line and no 500."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Semaphore
from typing import Any, Protocol

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.testclient import TestClient

from pipelines.service import contracts
from pipelines.service.admission import FORECASTING, Admission
from pipelines.service.app import service
from pipelines.service.checker import Checker
from pipelines.service.collector import Collector
from tests.pipelines.service.conftest import TOKEN, Halves
from tests.pipelines.service.reports import report
from warehouse.records import WarehouseBusy

ASKED: dict[str, Any] = {
    "workloads": [{"dnn": "vgg11"}],
    "nodes": [{"node_type": "emu.avx2.s15", "count": 2}],
    "link_mbps": 500,
}
JSON = {"Content-Type": "application/json"}


class Answer(Protocol):
    """What a test client returns: of httpx or of its successor, whichever is installed."""

    @property
    def status_code(self) -> int: ...
    @property
    def text(self) -> str: ...
    @property
    def headers(self) -> Any: ...
    def json(self) -> Any: ...


def detail(answer: Answer, code: int) -> str:
    """Return the one line of a refusal."""
    assert answer.status_code == code, answer.text
    assert answer.json().keys() == {"detail"}
    line = answer.json()["detail"]
    assert isinstance(line, str) and "\n" not in line
    return line


def post(client: TestClient, content: bytes | str) -> Answer:
    """Send a body as it is."""
    return client.post("/v1/forecasts", content=content, headers=JSON)


def test_named_nodes_have_forecasts(client: TestClient) -> None:
    answer = client.post("/v1/forecasts", json=ASKED)
    assert answer.status_code == 200
    assert answer.json()["nodes"] == {"emu.avx2.s15": 2}
    assert [forecast["step_time_s"] for forecast in answer.json()["forecasts"]] == [1.0]
    assert answer.json()["devices_per_node"] == 1
    assert (answer.json()["backend"], answer.json()["host_id"]) == ("emulated", "host-1")


def test_nodes_register_train_and_leave(client: TestClient) -> None:
    for name in ("a", "b"):
        answer = client.put(f"/v1/cluster/{name}", content=report().model_dump_json(), headers=JSON)
        assert answer.status_code == 200
    listed = client.get("/v1/cluster").json()["nodes"]
    assert [node["name"] for node in listed] == ["a", "b"]
    assert client.get("/v1/cluster/a/wanted").status_code == 204
    question = {"workloads": ASKED["workloads"]}
    assert client.post("/v1/forecasts", json=question).json()["nodes"] == {"lab.xeon": 2}
    for _ in range(2):
        assert client.delete("/v1/cluster/a").status_code == 204
    assert client.post("/v1/forecasts", json=question).json()["nodes"] == {"lab.xeon": 1}


def test_a_new_type_of_dataset_is_trained_for(client: TestClient, checker: Checker) -> None:
    question = {
        **ASKED,
        "workloads": [{"dnn": "vgg11"}, {"dnn": "vgg11", "dataset": {"type": "pairs"}}],
    }
    answer = client.post("/v1/forecasts", json=question)
    assert answer.status_code == 202
    known, new = answer.json()["forecasts"]
    assert known["status"] == "forecast"
    assert new["retraining"] == "/v1/retraining/pairs"
    assert client.get(new["retraining"]).json()["dataset"] == "pairs"
    assert client.post(new["retraining"]).status_code == 202


def test_a_type_that_nobody_has_images_of_is_refused(client: TestClient) -> None:
    question = {**ASKED, "workloads": [{"dnn": "vgg11", "dataset": {"type": "birds"}}]}
    answer = client.post("/v1/forecasts", json=question)
    assert answer.status_code == 200
    (forecast,) = answer.json()["forecasts"]
    assert forecast["status"] == "refused"
    assert forecast["reason"].startswith("no embedder for datasets of type 'birds'")
    assert "nobody trains" in detail(client.get("/v1/retraining/birds"), 400)


@pytest.mark.parametrize("sent", ["", "Bearer", "Bearer other", f"Basic {TOKEN}", "Bearer \xff"])
def test_no_token_no_answer(client: TestClient, sent: str) -> None:
    headers = {b"Authorization": sent.encode("latin-1")}
    for path in ("/v1/cluster", "/v1/nothing"):
        answer = client.get(path, headers=headers)
        assert "Authorization: Bearer TOKEN" in detail(answer, 401)
        assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_what_describes_the_service_is_open(client: TestClient) -> None:
    for path in ("/docs", "/openapi.json"):
        assert client.get(path, headers={"Authorization": ""}).status_code == 200


def test_nobody_is_asked_where_there_is_no_token(collector: Collector, checker: Checker) -> None:
    client = TestClient(service(Halves(), collector, checker, None))
    assert client.get("/v1/cluster").status_code == 200


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        (b"", 422, "body: Field required"),
        (b"{", 422, "body.1: JSON decode error"),
        (b"\xff\xfe\x00", 400, "expected a body of JSON in UTF-8"),
        (b"[" * 100_000, 400, "nested a few times"),
        (b'{"workloads": []}', 422, "body.workloads: "),
        (b'{"workloads": [{"dnn": "vgg11"}], "link_mbps": NaN}', 422, "body.link_mbps: "),
        (b'{"workloads": [{"dnn": "\\ud800"}]}', 422, "body.workloads.0.dnn: "),
        (b'{"workloads": [{"dnn": "vgg11", "code": "import os"}]}', 422, "not permitted"),
        (b'{"workloads": [{"dnn": "net.py:net"}]}', 422, "body.workloads.0.dnn: "),
    ],
)
def test_what_is_malformed_gets_one_line(
    client: TestClient, body: bytes, code: int, said: str
) -> None:
    assert said in detail(post(client, body), code)


def test_what_is_wrong_a_million_times_is_told_once(client: TestClient) -> None:
    """Each error takes some hundred bytes."""
    question = json.dumps({**ASKED, "workloads": [{"dnn": 1}] * 100})
    assert detail(post(client, question), 422).endswith("Input should be a valid string")
    many = json.dumps({**ASKED, **{f"k{place}": 0 for place in range(100_000)}})
    refusal = detail(post(client, many), 422)
    assert refusal == "body: Value error, expected at most 50 fields, found 100,003"


def test_a_name_is_no_path(client: TestClient) -> None:
    for name in ("..%2f..%2fetc", "%ff", "%00", "a" * 101, "-x"):
        assert client.get(f"/v1/retraining/{name}").status_code in (404, 422)


def test_who_holds_the_history_is_named(collector: Collector, checker: Checker) -> None:
    class Held(Halves):
        def answer(self, *_: object) -> Any:
            raise WarehouseBusy("process 17 holds the history")

    headers = {"Authorization": f"Bearer {TOKEN}"}
    client = TestClient(service(Held(), collector, checker, TOKEN), headers=headers)
    assert detail(client.post("/v1/forecasts", json=ASKED), 503) == "process 17 holds the history"


def test_two_ask_while_nodes_report(client: TestClient) -> None:
    body = report().model_dump_json()

    def node(name: str) -> set[int]:
        path = f"/v1/cluster/{name}"
        return {client.put(path, content=body, headers=JSON).status_code for _ in range(20)} | {
            client.get(f"{path}/wanted").status_code
        }

    def asker() -> set[int]:
        question = {"workloads": ASKED["workloads"]}
        return {client.post("/v1/forecasts", json=question).status_code for _ in range(20)}

    client.put("/v1/cluster/first", content=body, headers=JSON)
    with ThreadPoolExecutor(4) as pool:
        nodes = [pool.submit(node, name) for name in "ab"]
        askers = [pool.submit(asker) for _ in range(2)]
        assert [node.result() for node in nodes] == [{200, 204}] * 2
        assert [asker.result() for asker in askers] == [{200}] * 2
    assert [row["name"] for row in client.get("/v1/cluster").json()["nodes"]] == ["a", "b", "first"]


def test_few_forecasts_are_made_at_once_and_nodes_report_meanwhile(
    collector: Collector, checker: Checker
) -> None:
    """However many ask: no forecast takes what nodes need to tell."""
    may_end, begun = Event(), Semaphore(0)

    class Slow(Halves):
        def answer(self, *given: Any) -> contracts.Answer:
            begun.release()
            assert may_end.wait(60)
            return super().answer(*given)

    app, body = service(Slow(), collector, checker, None, Admission(2)), report().model_dump_json()
    with TestClient(app) as client, ThreadPoolExecutor(5) as pool:
        asking = [pool.submit(client.post, "/v1/forecasts", json=ASKED) for _ in range(5)]
        try:
            for _ in range(2):
                assert begun.acquire(timeout=60)
            assert client.put("/v1/cluster/a", content=body, headers=JSON).status_code == 200
            assert client.get("/v1/retraining/digits").json()["status"] == "done"
            assert not begun.acquire(timeout=0.5)
            assert [each.name for each in threading.enumerate()].count(FORECASTING) == 2
        finally:
            may_end.set()
        assert {future.result().status_code for future in asking} == {200}


EVERY = list(HealthCheck)
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@pytest.mark.parametrize("mode", GenerationMode)
def test_whatever_is_sent_the_answer_is_as_described(
    client: TestClient, mode: GenerationMode
) -> None:
    """What the description allows, and what it does not; equal requests each time."""
    described = schemathesis.openapi.from_asgi("/openapi.json", client.app)
    operations = [
        operation.ok() for operation in described.get_all_operations() if isinstance(operation, Ok)
    ]
    assert {"POST /v1/forecasts", "PUT /v1/cluster/{name}"} <= {each.label for each in operations}
    for operation in operations:
        if mode is GenerationMode.NEGATIVE and operation.label == "GET /v1/cluster":
            continue  # it takes nothing that could be wrong

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(max_examples=6, derandomize=True, database=None, suppress_health_check=EVERY)
        def check(case: Any) -> None:
            case.call_and_validate(headers={"Authorization": f"Bearer {TOKEN}"}, checks=CHECKS)

        check()
