"""Telling a web server of this process, and what is said where that fails."""

import socket

import pytest

from pipelines.notification import Webhook, configured_webhook
from tests.pipelines.receivers import WebServer, serving
from warehouse.records import BadInput

NOTICE = ("demo failed", {"error": "disk full, a lot — sorry", "partition": None})
SECRET = "hunter2"


def webhook(port: int) -> Webhook:
    named = configured_webhook({"STEPCAST_WEBHOOK": f"http://127.0.0.1:{port}/services/{SECRET}"})
    assert named is not None
    return named


def test_nobody_is_told_unless_somebody_is_named() -> None:
    assert configured_webhook({}) is configured_webhook({"STEPCAST_WEBHOOK": ""}) is None


def test_a_webhook_gets_text_and_facts_and_one_that_takes_nothing_is_a_warning() -> None:
    """No warning repeats the path of the webhook, which is a secret."""
    warnings: list[str] = []
    with serving(WebServer()) as web, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        named = [webhook(web.server_port), webhook(closed.getsockname()[1])]
        assert named[0].tell(*NOTICE, pytest.fail)
        web.status = 500
        assert not any([each.tell(*NOTICE, warnings.append) for each in named])
    (path, content), _ = web.posted
    assert path == f"/services/{SECRET}"
    assert content == {
        "title": "demo failed",
        "text": "demo failed\n\nerror: disk full, a lot — sorry",
        "error": "disk full, a lot — sorry",
        "partition": None,
    }
    assert warnings == [
        "the webhook at 127.0.0.1 was not told: HTTPError 500",
        "the webhook at 127.0.0.1 was not told: ConnectionRefusedError 111",
    ]
    assert SECRET not in repr(named)


@pytest.mark.parametrize(
    "url",
    [
        f"ftp://host/{SECRET}",
        f"https:///{SECRET}",
        f"http://host:{SECRET}/",
        f"http://host/{SECRET}\r\nX: y",
    ],
)
def test_a_wrong_variable_is_named_but_not_repeated(url: str) -> None:
    with pytest.raises(BadInput) as refused:
        configured_webhook({"STEPCAST_WEBHOOK": url})
    assert "STEPCAST_WEBHOOK: expected https://HOST/PATH" in str(refused.value)
    assert SECRET not in str(refused.value)
