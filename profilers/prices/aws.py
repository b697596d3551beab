"""Asking AWS: bounded answers, and one clear line for whatever goes wrong.

Credentials, profiles and endpoints (AWS_ENDPOINT_URL_EC2, AWS_ENDPOINT_URL_PRICING) are looked for
where boto3 looks for them.
"""

import difflib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from botocore import exceptions
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config
from botocore.httpsession import URLLib3Session
from botocore.parsers import ResponseParserError
from botocore.session import Session
from botocore.utils import get_environ_proxies
from urllib3.exceptions import HTTPError

from warehouse import limits
from warehouse.records import BadInput, ProbeFailed, StepcastError

ATTEMPTS = 5
"""How often a question is asked that was throttled or lost, with pauses that botocore chooses."""
_CONNECT_S = 10
_READ_S = 30
_CHUNK_BYTES = 1 << 16
_CREDENTIALS = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run `aws configure`"
)
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired"}
_UNKNOWN = {
    "AuthFailure",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
_REFUSED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}
_THROTTLED = {
    "RequestLimitExceeded",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
}
_NO_CREDENTIALS = (
    exceptions.CredentialRetrievalError,
    exceptions.NoAuthTokenError,
    exceptions.NoCredentialsError,
    exceptions.PartialCredentialsError,
    exceptions.ProfileNotFound,
)
_RENEW = (
    exceptions.LoginRefreshRequired,
    exceptions.SSOError,
    exceptions.TokenRetrievalError,
)
_NOT_UNDERSTOOD = (
    exceptions.BotoCoreError,
    ResponseParserError,
    # What botocore's parsers raise where numbers, dates or the shape of an answer are wrong.
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
_SAID_CHARACTERS = 200


def check_region(region: str) -> None:
    """Refuse a region that AWS does not have, or has in another currency than US dollars.

    Raises:
        BadInput: it is none.
    """
    with clearly("AWS"):
        session = Session()
        known = [
            name
            for partition in ("aws", "aws-us-gov")
            for name in session.get_available_regions("ec2", partition)
        ]
    if region not in known:
        near = difflib.get_close_matches(region, known, n=3) or ["us-east-1"]
        raise BadInput(
            f"AWS has no region {region!r:.60} with prices in US dollars; did you mean "
            f"{', '.join(near)}?"
        )


def own_region() -> str | None:
    """Return the region that AWS_DEFAULT_REGION or the profile names; None: neither does."""
    with clearly("AWS"):
        found: str | None = Session().get_config_variable("region")
    return found


def client(service: str, region: str, attempts: int | None = None) -> Any:
    """Return a client of one region, whose answers are no larger or slower than limits allow.

    Args:
        service: of AWS.
        region: of it.
        attempts: how often it asks, where it is throttled or gets no answer; None: `ATTEMPTS`.

    Raises:
        BadInput: there is no such profile.
    """
    with clearly(f"AWS {service} in {region}"):
        session = Session()
        made = session.create_client(
            service,
            region_name=region,
            config=Config(retries={"mode": "standard", "total_max_attempts": attempts or ATTEMPTS}),
        )
        made.meta.events.register("before-send", _sender(made.meta.endpoint_url, session))
    return made


def answers(client: Any, operation: str, part: str, request: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what is listed as `part` of all pages that AWS answers to one question.

    Raises:
        BadInput: the credentials will not do.
        ProbeFailed: AWS cannot be reached, refuses, throttles, or has too much to say.
    """
    where = f"AWS {client.meta.service_model.service_id} in {client.meta.region_name}"
    with clearly(where):
        pages = client.get_paginator(operation).paginate(**request)
        for number, page in enumerate(pages, start=1):
            if number > limits.ANSWER_PAGES:
                raise ProbeFailed(
                    f"{where}: {operation} has more than {limits.ANSWER_PAGES} pages of answers; "
                    "ask for fewer types"
                )
            yield from page.get(part, ())


@contextmanager
def clearly(where: str) -> Iterator[None]:
    """Say in one line what went wrong with AWS; `where` begins the line.

    Raises:
        BadInput: credentials are missing, unknown, expired, or may not ask.
        ProbeFailed: anything else.
    """
    try:
        yield
    except exceptions.ClientError as error:
        raise _refusal(where, error) from None
    except _NO_CREDENTIALS as error:
        raise BadInput(f"{where}: no credentials ({_said(error)}); {_CREDENTIALS}") from None
    except _RENEW as error:
        raise BadInput(
            f"{where}: the login has ended ({_said(error)}); run `aws sso login`"
        ) from None
    except (exceptions.ConnectionError, exceptions.HTTPClientError) as error:
        raise ProbeFailed(
            f"{where} cannot be reached: {_said(error)}; check the network and AWS_ENDPOINT_URL, "
            "or try again later"
        ) from None
    except _NOT_UNDERSTOOD as error:
        raise ProbeFailed(f"{where}: no answer that can be understood: {_said(error)}") from None


def _refusal(where: str, error: exceptions.ClientError) -> StepcastError:
    told = error.response.get("Error", {})
    code, said = str(told.get("Code", "no code")), told.get("Message", "")
    if code in _EXPIRED:
        return BadInput(f"{where}: the credentials have expired; renew them, then {_CREDENTIALS}")
    if code in _UNKNOWN:
        return BadInput(f"{where}: AWS does not accept the credentials ({code}); {_CREDENTIALS}")
    if code in _REFUSED:
        return BadInput(
            f"{where}: the credentials may not call {error.operation_name}; allow it in their "
            "policy"
        )
    if code in _THROTTLED:
        return ProbeFailed(
            f"{where}: throttled ({code}) in each of {ATTEMPTS} attempts; try again later"
        )
    return ProbeFailed(f"{where}: {error.operation_name}: {_said(code)}: {_said(said)}")


def _said(what: object) -> str:
    """Return the beginning of a message on one line, without control characters."""
    line = " ".join(str(what).split())
    return "".join(one if one.isprintable() else "?" for one in line)[:_SAID_CHARACTERS]


def _sender(endpoint: str, session: Session) -> Callable[..., AWSResponse]:
    """Return what sends requests as botocore does, but reads answers only up to the limits."""
    http = URLLib3Session(
        verify=session.get_config_variable("ca_bundle") or True,
        proxies=get_environ_proxies(endpoint),
        timeout=(_CONNECT_S, _READ_S),
    )

    def send(request: AWSPreparedRequest, **_: object) -> AWSResponse:
        request.stream_output = True
        answer = http.send(request)
        answer.raw = _Bounded(answer.raw, request.url)
        try:
            _ = answer.content
        except HTTPError as error:
            raise exceptions.HTTPClientError(error=error) from error
        return answer

    return send


class _Bounded:
    """The bytes of an answer, up to `limits.ANSWER_BYTES` of them, for `limits.ANSWER_S`."""

    def __init__(self, raw: Any, url: str) -> None:
        self._raw, self._url = raw, url

    def stream(self) -> Iterator[bytes]:
        """Yield the bytes.

        Raises:
            ProbeFailed: they are too many, or too slow.
        """
        left, deadline = limits.ANSWER_BYTES, time.monotonic() + limits.ANSWER_S
        while chunk := self._raw.read1(_CHUNK_BYTES):
            left -= len(chunk)
            if left < 0:
                raise ProbeFailed(
                    f"{self._url} answers more than {limits.ANSWER_BYTES / 2**20:,.0f} MiB; is it "
                    "AWS?"
                )
            if time.monotonic() > deadline:
                raise ProbeFailed(f"{self._url} answers for more than {limits.ANSWER_S:g} s")
            yield chunk
