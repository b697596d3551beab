"""S3 of the stand-in: moto's, behind a check that each question is signed for what it asks."""

import hashlib
import hmac
import http.client
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, quote, urlsplit

SECRET = "testing"
REFUSALS = {
    "throttled": (503, "SlowDown"),
    "expired": (400, "ExpiredToken"),
    "forbidden": (403, "AccessDenied"),
}


def answer(
    moto: tuple[str, int], method: str, url: str, headers: Mapping[str, str], body: bytes
) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body of S3's answer to a question by a signed URL."""
    if not is_signed(method, url, headers["Host"]):
        return refused("forbidden")
    kept = {name: headers[name] for name in ("If-None-Match", "Content-Type") if name in headers}
    # By this moto knows that S3 is asked.
    scope = "AWS4-HMAC-SHA256 Credential=testing/20261126/us-east-1/s3/aws4_request"
    kept["Authorization"] = f"{scope}, SignedHeaders=host, Signature=0"
    connection = http.client.HTTPConnection(*moto, timeout=30)
    try:
        connection.request(method, urlsplit(url).path, body, kept)
        response = connection.getresponse()
        tag = {"ETag": response.headers["ETag"]} if response.headers.get("ETag") else {}
        return response.status, tag, response.read()
    finally:
        connection.close()


def refused(fault: str) -> tuple[int, dict[str, str], bytes]:
    """Return a refusal as S3 words it."""
    status, code = REFUSALS[fault]
    return status, {}, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()


def is_signed(method: str, url: str, host: str) -> bool:
    """Tell whether a URL is signed for a method, and is still good (AWS Signature Version 4).

    Source: "Authenticating Requests: Using Query Parameters" of the Amazon S3 API reference.
    """
    parts = urlsplit(url)
    fields = dict(parse_qsl(parts.query, keep_blank_values=True))
    signature = fields.pop("X-Amz-Signature", "")
    if fields.get("X-Amz-SignedHeaders") != "host":
        return False
    day, region, service, end = fields["X-Amz-Credential"].split("/")[1:]
    query = "&".join(
        f"{quote(k, safe='-_.~')}={quote(v, safe='-_.~')}" for k, v in sorted(fields.items())
    )
    lines = (method, parts.path, query, f"host:{host}", "", "host", "UNSIGNED-PAYLOAD")
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    date = fields["X-Amz-Date"]
    text = "\n".join(("AWS4-HMAC-SHA256", date, "/".join((day, region, service, end)), digest))
    key = f"AWS4{SECRET}".encode()
    for word in (day, region, service, end):
        key = hmac.digest(key, word.encode(), "sha256")
    since = datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    is_good = datetime.now(UTC) < since + timedelta(seconds=int(fields["X-Amz-Expires"]))
    expected = hmac.digest(key, text.encode(), "sha256").hex()
    return is_good and hmac.compare_digest(expected, signature)
