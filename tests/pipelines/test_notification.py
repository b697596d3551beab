"""Telling a web server of this process, and what is said where that fails."""

import socket
from collections.abc import Iterator

import pytest

from pipelines.notification import Notification, Webhook, configured_webhook, send_notification
from tests.pipelines.receivers import WebServer, serving
from warehouse.records import BadInput

NOTICE = Notification("demo failed", {"error": "disk full, a lot — sorry", "partition": None})
SECRET = "hunter2"


@pytest.fixture
def web() -> Iterator[WebServer]:
    """Yield a web server."""
    with serving(WebServer()) as server:
        yield server


def webhook(port: int) -> Webhook:
    named = configured_webhook({"STEPCAST_WEBHOOK": f"http://127.0.0.1:{port}/services/{SECRET}"})
    assert named is not None
    return named


def test_nobody_is_told_unless_somebody_is_named() -> None:
    assert configured_webhook({}) is configured_webhook({"STEPCAST_WEBHOOK": ""}) is None


def test_a_webhook_gets_text_and_facts(web: WebServer) -> None:
    assert send_notification(NOTICE, webhook(web.server_port), pytest.fail)
    ((path, content),) = web.posted
    assert path == f"/services/{SECRET}"
    assert content == {
        "title": "demo failed",
        "text": "demo failed\n\nerror: disk full, a lot — sorry",
        "error": "disk full, a lot — sorry",
        "partition": None,
    }


def test_a_webhook_that_takes_nothing_is_a_warning_and_betrays_nothing(web: WebServer) -> None:
    web.status = 500
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        named = [webhook(web.server_port), webhook(closed.getsockname()[1])]
        warnings: list[str] = []
        assert not any([send_notification(NOTICE, each, warnings.append) for each in named])
    assert warnings == [
        "the webhook at 127.0.0.1 was not told: HTTPError 500",
        "the webhook at 127.0.0.1 was not told: ConnectionRefusedError 111",
    ]
    assert SECRET not in repr(named) + "".join(map(str, named))


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("WEBHOOK", f"ftp://host/{SECRET}", "STEPCAST_WEBHOOK: expected https://HOST/PATH"),
        ("WEBHOOK", f"https:///{SECRET}", "STEPCAST_WEBHOOK"),
        ("WEBHOOK", f"http://host:{SECRET}/", "STEPCAST_WEBHOOK"),
        ("WEBHOOK", f"http://host/{SECRET}\r\nX: y", "STEPCAST_WEBHOOK"),
        ("SMTP", f"smtp://me:{SECRET}@host", "no e-mail any more; name a webhook"),
    ],
)
def test_a_wrong_variable_is_named_but_not_repeated(name: str, value: str, named: str) -> None:
    with pytest.raises(BadInput) as refused:
        configured_webhook({f"STEPCAST_{name}": value})
    assert named in str(refused.value)
    assert SECRET not in str(refused.value)
