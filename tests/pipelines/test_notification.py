"""Telling a web server and a mail server of this process, and what is said where that fails."""

import socket
from collections.abc import Iterator

import pytest

from pipelines.notification import Channel, Mail, Notice, Webhook, channels, tell
from tests.pipelines.receivers import MailServer, WebServer, serving
from warehouse.records import BadInput

NOTICE = Notice("demo failed", {"error": "disk full, a lot — sorry", "partition": None})
SECRET = "hunter2"


@pytest.fixture
def web() -> Iterator[WebServer]:
    """Yield a web server."""
    with serving(WebServer()) as server:
        yield server


@pytest.fixture
def mail() -> Iterator[MailServer]:
    """Yield a mail server."""
    with serving(MailServer()) as server:
        yield server


def of(**variables: str) -> tuple[Channel, ...]:
    return channels({f"STEPCAST_{name}": value for name, value in variables.items()})


def webhook(server: WebServer) -> tuple[Channel, ...]:
    return of(WEBHOOK=f"http://127.0.0.1:{server.server_port}/services/{SECRET}")


def test_nobody_is_told_unless_somebody_is_named() -> None:
    assert of() == of(WEBHOOK="", SMTP="", MAIL_TO="me@example.org") == ()


def test_a_webhook_gets_text_and_facts(web: WebServer) -> None:
    assert tell(NOTICE, webhook(web), pytest.fail) == 1
    ((path, content),) = web.posted
    assert path == f"/services/{SECRET}"
    assert content == {
        "title": "demo failed",
        "text": "demo failed\n\nerror: disk full, a lot — sorry",
        "error": "disk full, a lot — sorry",
        "partition": None,
    }


def test_everybody_who_is_named_gets_mail(mail: MailServer) -> None:
    port = mail.server_address[1]
    to = of(SMTP=f"smtp://127.0.0.1:{port}", MAIL_TO="a@example.org, b@example.org")
    assert tell(NOTICE, to, pytest.fail) == 1
    (message,) = mail.mails
    assert (message["Subject"], message["From"]) == ("demo failed", "a@example.org")
    assert message["To"] == "a@example.org, b@example.org"
    assert len(mail.recipients) == 2
    assert message.get_content().split() == NOTICE.text.split()


def test_who_cannot_be_told_stops_nobody_and_betrays_nothing(
    web: WebServer, mail: MailServer
) -> None:
    web.status = 500
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}/{SECRET}"
        port = mail.server_address[1]
        to = (
            *webhook(web),
            *of(WEBHOOK=nobody),
            *of(SMTP=f"smtp://me:{SECRET}@127.0.0.1:{port}", MAIL_TO="a@example.org"),
            *of(SMTP=f"smtp://127.0.0.1:{port}", MAIL_TO="a@example.org"),
        )
        warnings: list[str] = []
        assert tell(NOTICE, to, warnings.append) == 1
    assert warnings == [
        "the webhook at 127.0.0.1 was not told: HTTPError 500",
        "the webhook at 127.0.0.1 was not told: ConnectionRefusedError 111",
        # A password is not sent to a server that does not encrypt.
        "the mail server 127.0.0.1 was not told: SMTPNotSupportedError",
    ]
    assert SECRET not in repr(to) + "".join(map(str, to))
    assert len(mail.mails) == 1


def test_a_recipient_that_is_refused_is_a_warning(mail: MailServer) -> None:
    mail.answer = f"550 no such user {SECRET}"
    to = of(SMTP=f"smtp://127.0.0.1:{mail.server_address[1]}", MAIL_TO="a@example.org")
    warnings: list[str] = []
    assert tell(NOTICE, to, warnings.append) == 0
    assert warnings == ["the mail server 127.0.0.1 was not told: SMTPRecipientsRefused"]


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"WEBHOOK": f"ftp://host/{SECRET}"}, "STEPCAST_WEBHOOK: expected https://HOST/PATH"),
        ({"WEBHOOK": f"https:///{SECRET}"}, "STEPCAST_WEBHOOK"),
        ({"WEBHOOK": f"http://host:{SECRET}/"}, "STEPCAST_WEBHOOK"),
        ({"WEBHOOK": f"http://host/{SECRET}\r\nX: y"}, "STEPCAST_WEBHOOK"),
        ({"SMTP": SECRET, "MAIL_TO": "a@b"}, "STEPCAST_SMTP: expected smtp://"),
        ({"SMTP": f"smtp://me:{SECRET}@host"}, "STEPCAST_MAIL_FROM: expected addresses"),
        ({"SMTP": "smtp://host", "MAIL_TO": "a@b,c"}, "STEPCAST_MAIL_TO: expected addresses"),
        ({"SMTP": "smtp://host", "MAIL_TO": "a@b\nBcc: c@d"}, "STEPCAST_MAIL_"),
    ],
)
def test_a_wrong_variable_is_named_but_not_repeated(variables: dict[str, str], named: str) -> None:
    with pytest.raises(BadInput) as refused:
        of(**variables)
    assert named in str(refused.value)
    assert SECRET not in str(refused.value)


def test_addresses_are_understood() -> None:
    to = of(
        WEBHOOK="https://chat.example.org/x",
        SMTP="smtps://me%40here:p%2Fw@mail.example.org",
        MAIL_TO="a@example.org",
        MAIL_FROM="b@example.org",
    )
    assert [type(one) for one in to] == [Webhook, Mail]
    assert list(map(str, to)) == [
        "the webhook at chat.example.org",
        "the mail server mail.example.org",
    ]
