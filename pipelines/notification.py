"""Telling people outside: a webhook and e-mail, as environment variables name them.

What they are told never holds a secret, and neither do the errors of telling: addresses of webhooks
and passwords of mail servers are left out of every message.
"""

import json
import os
import smtplib
import ssl
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import EmailMessage
from http.client import HTTPException
from urllib.parse import SplitResult, unquote, urlsplit

from warehouse.records import BadInput

WEBHOOK, SMTP = "STEPCAST_WEBHOOK", "STEPCAST_SMTP"
MAIL_TO, MAIL_FROM = "STEPCAST_MAIL_TO", "STEPCAST_MAIL_FROM"
TIMEOUT_S = 10.0
_PORTS = {"smtp": 25, "smtps": 465}


@dataclass(frozen=True)
class Notice:
    """What people are told: a title of one line, and facts by name."""

    title: str
    facts: Mapping[str, str | None]

    @property
    def text(self) -> str:
        """Return title and facts, a line each."""
        told = [f"{name}: {value}" for name, value in self.facts.items() if value is not None]
        return "\n".join([self.title, "", *told])


@dataclass(frozen=True)
class Webhook:
    """An address that takes JSON by POST."""

    url: str = field(repr=False)

    def __str__(self) -> str:
        return f"the webhook at {urlsplit(self.url).hostname}"

    def tell(self, notice: Notice) -> None:
        """Post the title as `text`, which chat programs show, and the facts by their names.

        Raises:
            OSError, HTTPException: it was not taken.
        """
        content = json.dumps({"text": notice.text, "title": notice.title, **notice.facts})
        request = urllib.request.Request(
            self.url, content.encode(), {"Content-Type": "application/json"}, method="POST"
        )
        with urllib.request.urlopen(request, timeout=TIMEOUT_S):
            pass


@dataclass(frozen=True)
class Mail:
    """A mail server (`smtp://` or, encrypted from the start, `smtps://`) and who gets mail."""

    server: SplitResult = field(repr=False)
    sender: str
    recipients: tuple[str, ...]

    def __str__(self) -> str:
        return f"the mail server {self.server.hostname}"

    def tell(self, notice: Notice) -> None:
        """Send an e-mail; encrypted if the server can do that, and always before a password.

        Raises:
            OSError, SMTPException: it was not taken.
        """
        message = EmailMessage()
        message["Subject"], message["From"] = notice.title, self.sender
        message["To"] = ", ".join(self.recipients)
        message.set_content(notice.text)
        with self._connected() as server:
            if self.server.username is not None:
                server.login(unquote(self.server.username), unquote(self.server.password or ""))
            server.send_message(message)

    def _connected(self) -> smtplib.SMTP:
        host, port = self.server.hostname or "", self.server.port or _PORTS[self.server.scheme]
        context = ssl.create_default_context()
        if self.server.scheme == "smtps":
            return smtplib.SMTP_SSL(host, port, timeout=TIMEOUT_S, context=context)
        server = smtplib.SMTP(host, port, timeout=TIMEOUT_S)
        try:
            server.ehlo()
            if server.has_extn("starttls") or self.server.username is not None:
                server.starttls(context=context)
        except BaseException:
            server.close()
            raise
        return server


Channel = Webhook | Mail


def channels(environment: Mapping[str, str] = os.environ) -> tuple[Channel, ...]:
    """Return what the environment names, nothing if it names nothing.

    Raises:
        BadInput: a variable is wrong; the message does not repeat what it holds.
    """
    found: list[Channel] = []
    if url := environment.get(WEBHOOK):
        if not _is_address(url, ("http", "https")):
            raise BadInput(f"{WEBHOOK}: expected https://HOST/PATH")
        found.append(Webhook(url))
    if url := environment.get(SMTP):
        if not _is_address(url, tuple(_PORTS)):
            raise BadInput(f"{SMTP}: expected smtp://[USER:PASSWORD@]HOST[:PORT] or smtps://…")
        recipients = [one.strip() for one in environment.get(MAIL_TO, "").split(",")]
        sender = environment.get(MAIL_FROM) or recipients[0]
        for name, address in ((MAIL_FROM, sender), *((MAIL_TO, one) for one in recipients)):
            if address.count("@") != 1 or not address.isprintable() or " " in address:
                raise BadInput(f"{name}: expected addresses such as me@example.org, by commas")
        found.append(Mail(urlsplit(url), sender, tuple(recipients)))
    return tuple(found)


def tell(notice: Notice, to: tuple[Channel, ...], warn: Callable[[str], object]) -> int:
    """Tell everybody, whoever could not be told; return how many were.

    `warn` is told the others; nothing is raised, so what wanted to tell goes on.
    """
    told = 0
    for channel in to:
        try:
            channel.tell(notice)
        except (OSError, HTTPException, smtplib.SMTPException, ValueError) as error:
            warn(f"{channel} was not told: {_why(error)}")
        else:
            told += 1
    return told


def _why(error: Exception) -> str:
    """Return what kind of error it was, with numbers only: its text may repeat a secret."""
    code = getattr(error, "smtp_code", None) or getattr(error, "code", None)
    reason = getattr(error, "reason", error)
    number = code if code is not None else getattr(reason, "errno", None)
    kind = type(reason).__name__ if isinstance(reason, Exception) else type(error).__name__
    return kind if number is None else f"{kind} {number}"


def _is_address(url: str, schemes: tuple[str, ...]) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    return parts.scheme in schemes and bool(parts.hostname) and port != 0 and url.isprintable()
