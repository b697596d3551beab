"""docs/service.md, followed step by step: a service in this process, asked as the page asks it."""

import os
import re
import shlex
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest

from pipelines.service import node
from pipelines.service.app import WHY, service
from pipelines.service.checker import Checker
from pipelines.service.collector import Collector
from pipelines.service.contracts import Answer, Forecast
from pipelines.service.engine import Engine
from profilers.steady import hostlock
from tests.pipelines.ran import stepcast
from tests.pipelines.service.conftest import engine as _engine
from tests.pipelines.service.test_node import served
from warehouse.home import CHECKOUT

PAGE = (CHECKOUT / "docs" / "service.md").read_text()
AT = "http://127.0.0.1:8791"
FROM_ANOTHER = "http://10.0.0.1:8791"
engine = _engine


def commands() -> Iterator[list[str]]:
    """Yield the words of each command of the page."""
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL):
        text = ""
        for line in block.splitlines():
            text += f"{line}\n"
            with suppress(ValueError):  # a quotation that goes on
                if not line.endswith("\\"):
                    words = shlex.split(text.replace("\\\n", ""))
                    yield [os.path.expandvars(word) for word in words]
                    text = ""


def curl(words: list[str], address: str) -> httpx.Response:
    """Do what curl does with these words, at the address of a test's service."""
    parser = ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("-H", action="append", default=[])
    parser.add_argument("-d")
    given = parser.parse_args(words)
    assert given.url.startswith(AT)
    headers = dict(header.split(": ", 1) for header in given.H)
    url = given.url.replace(AT, address)
    method = "GET" if given.d is None else "POST"
    with httpx.Client(trust_env=False, timeout=60) as client:
        return client.request(method, url, content=given.d, headers=headers)


@pytest.fixture
def checker() -> Iterator[Checker]:
    """Return a checker that trains by sleeping."""
    made = Checker(None, 1, ["sh", "-c", "exec sleep 600"])
    yield made
    made.close()


def test_the_page(engine: Engine, checker: Checker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostlock, "NAME", f"\0page-{os.getpid()}")
    monkeypatch.setattr(node, "_SECONDS", 0.01)
    monkeypatch.setenv("STEPCAST_TOKEN", "a-long-word-of-mine")
    export, serve, profiled, unnamed, again, join, *while_it_stays = commands()
    assert export == again == ["export", "STEPCAST_TOKEN=a-long-word-of-mine"]
    assert serve == ["stepcast", "serve"]
    collector = Collector(refreshed_s=0.0)
    with served(service(engine, collector, checker, "a-long-word-of-mine")) as address:
        answer = curl(profiled[1:], address).json()
        assert answer["nodes"] == {"emu.avx2.s15": 2}
        assert [forecast["status"] for forecast in answer["forecasts"]] == ["forecast"] * 2
        (refused,) = curl(unnamed[1:], address).json()["forecasts"]
        assert "list it under train of a study" in refused["reason"]

        def stay(*_: object) -> None:
            rest = [curl(line[1:], address) for line in while_it_stays]
            check_registered(*rest)
            raise KeyboardInterrupt

        monkeypatch.setattr(node.Membership, "stay", stay)
        joined = stepcast(*(word.replace(FROM_ANOTHER, address) for word in join[1:]))
    assert joined.code == 130, joined.err
    assert f"has left {address}" in joined.err
    assert collector.cluster().nodes == []


def check_registered(*answers: httpx.Response) -> None:
    """Compare what is answered while a node is there with what the page says."""
    cluster, forecast, begun, retraining = answers
    (joined,) = cluster.json()["nodes"]
    assert (joined["report"]["node_type"], joined["report"]["link_mbps"]) == ("lab.xeon", 500.0)
    assert forecast.json()["nodes"] == {"lab.xeon": 1}
    assert forecast.json()["forecasts"][0]["status"] == "forecast"
    assert begun.status_code == 202
    assert begun.json()["forecasts"][0]["retraining"] == "/v1/retraining/pairs"
    progress: dict[str, Any] = retraining.json()
    assert progress["status"] == "running"


def test_the_page_lists_every_field_and_status() -> None:
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \|", PAGE, re.MULTILINE)
    fields = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert fields == Forecast.model_fields.keys()
    assert all(f"`{name}`" in PAGE for name in Answer.model_fields.keys() - {"forecasts"})
    assert {int(code) for code in re.findall(r"^\| (\d{3}) \|", PAGE, re.MULTILINE)} == WHY.keys()
