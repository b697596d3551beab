"""Telling people outside through a webhook that an environment variable names.

What they are told never holds a secret, and neither do the errors of telling: the path of the
webhook is left out of every message.
"""

import json
import os
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from urllib.parse import urlsplit

from warehouse.records import BadInput

WEBHOOK = "STEPCAST_WEBHOOK"
TIMEOUT_S = 10.0
_SMTP = "STEPCAST_SMTP"


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


def configured_webhook(environment: Mapping[str, str] = os.environ) -> Webhook | None:
    """Return the webhook that the environment names, if it names one.

    Raises:
        BadInput: a variable is wrong; the message does not repeat what it holds.
    """
    if environment.get(_SMTP):
        raise BadInput(f"{_SMTP}: Stepcast sends no e-mail any more; name a webhook: {WEBHOOK}")
    url = environment.get(WEBHOOK)
    if not url:
        return None
    if not _is_web_address(url):
        raise BadInput(f"{WEBHOOK}: expected https://HOST/PATH")
    return Webhook(url)


def tell(notice: Notice, webhook: Webhook, warn: Callable[[str], object]) -> bool:
    """Tell a webhook; return whether it took the notice.

    `warn` is told why it did not; nothing is raised, so what wanted to tell goes on.
    """
    try:
        webhook.tell(notice)
    except (OSError, HTTPException, ValueError) as error:
        warn(f"{webhook} was not told: {_why(error)}")
        return False
    return True


def _why(error: Exception) -> str:
    """Return what kind of error it was, with numbers only: its text may repeat a secret."""
    code = getattr(error, "code", None)
    reason = getattr(error, "reason", error)
    number = code if code is not None else getattr(reason, "errno", None)
    kind = type(reason).__name__ if isinstance(reason, Exception) else type(error).__name__
    return kind if number is None else f"{kind} {number}"


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    return (
        parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and port != 0
        and url.isprintable()
    )
