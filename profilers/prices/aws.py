"""Asking AWS, and its answers as records; one clear line for whatever goes wrong.

Credentials, profiles and endpoints (AWS_ENDPOINT_URL_EC2, AWS_ENDPOINT_URL_PRICING) are looked for
where boto3 looks for them.
"""

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

from botocore import exceptions
from botocore.config import Config
from botocore.parsers import ResponseParserError
from botocore.session import Session
from pydantic import AliasPath, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from warehouse import limits
from warehouse.fields import Usd
from warehouse.records import BadInput, ProbeFailed

ATTEMPTS = 5
"""How often a question is asked that was throttled or lost, with pauses that botocore chooses."""
_CREDENTIALS = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run `aws configure`"
)
_NOT_ALLOWED = {
    "AccessDenied",
    "AccessDeniedException",
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnauthorizedOperation",
    "UnrecognizedClientException",
}
_NO_CREDENTIALS = (
    exceptions.CredentialRetrievalError,
    exceptions.NoAuthTokenError,
    exceptions.NoCredentialsError,
    exceptions.PartialCredentialsError,
    exceptions.ProfileNotFound,
)
_RENEW = (exceptions.LoginRefreshRequired, exceptions.SSOError, exceptions.TokenRetrievalError)
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
    with explain_errors("AWS"):
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
    with explain_errors("AWS"):
        region: str | None = Session().get_config_variable("region")
    return region


def client(service: str, region: str, attempts: int | None = None) -> Any:
    """Return a client of one region.

    Args:
        service: of AWS.
        region: of it.
        attempts: how often it asks, where it is throttled or gets no answer; None: `ATTEMPTS`.

    Raises:
        BadInput: there is no such profile.
    """
    with explain_errors(f"AWS {service} in {region}"):
        retries = {"mode": "standard", "total_max_attempts": attempts or ATTEMPTS}
        config = Config(connect_timeout=10, read_timeout=30, retries=retries)
        return Session().create_client(service, region_name=region, config=config)


def list_pages(client: Any, operation: str, part: str, request: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what is listed as `part` of all pages that AWS answers to one question.

    Raises:
        BadInput: the credentials will not do.
        ProbeFailed: AWS cannot be reached, refuses or throttles.
    """
    where = f"AWS {client.meta.service_model.service_id} in {client.meta.region_name}"
    with explain_errors(where):
        for page in client.get_paginator(operation).paginate(**request):
            yield from page.get(part, ())


@contextmanager
def explain_errors(where: str) -> Iterator[None]:
    """Say in one line what went wrong with AWS; `where` begins the line.

    Raises:
        BadInput: credentials are missing, unknown, expired, or may not ask.
        ProbeFailed: anything else.
    """
    try:
        yield
    except exceptions.ClientError as error:
        details = error.response.get("Error", {})
        code, message = str(details.get("Code", "no code")), details.get("Message", "")
        why = f"{where}: {error.operation_name}: {_said(code)}: {_said(message)}"
        if code in _NOT_ALLOWED:
            raise BadInput(f"{why}; the credentials will not do: {_CREDENTIALS}") from None
        raise ProbeFailed(why) from None
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


def _said(what: object) -> str:
    """Return the beginning of a message on one line, without control characters."""
    line = " ".join(str(what).split())
    return "".join(char if char.isprintable() else "?" for char in line)[:_SAID_CHARACTERS]


# What AWS answers, as records: what we do not read is left out, what cannot be is refused.


TYPE_NAME = r"^[a-z][a-z0-9-]{0,39}\.[a-z0-9-]{1,40}$"
"""A name of an instance type, such as p3.2xlarge."""
TypeName = Annotated[str, Field(pattern=TYPE_NAME)]
Text = Annotated[str, Field(pattern=r"^[ -~]{1,200}$")]
Zone = Annotated[str, Field(pattern=r"^[a-z0-9-]{1,60}$")]
Gbps = Annotated[float, Field(gt=0, le=limits.MBPS / 1e3, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=limits.NODES)]
MiB = Annotated[int, Field(ge=1, le=1 << 40)]
UsdPerHour = Annotated[float, Field(gt=0, le=limits.USD, allow_inf_nan=False)]


class AwsResponse(BaseModel):
    """Part of an answer: frozen, and deaf to what it does not name."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class NetworkCardInfo(AwsResponse):
    """A network card, and how fast it always is."""

    always_gbps: Gbps | None = Field(default=None, alias="BaselineBandwidthInGbps")


def _within(first: str, *path: str | int) -> Any:
    """Return a field that stands further inside, where it stands at all."""
    return Field(default=None, validation_alias=AliasPath(first, *path))


class InstanceTypeInfo(AwsResponse):
    """An instance type as DescribeInstanceTypes tells it; its GPUs are of one kind."""

    name: TypeName = Field(alias="InstanceType")
    vcpus: Count = Field(validation_alias=AliasPath("VCpuInfo", "DefaultVCpus"))
    cores: Count | None = _within("VCpuInfo", "DefaultCores")
    memory_mib: MiB = Field(validation_alias=AliasPath("MemoryInfo", "SizeInMiB"))
    cards: Annotated[tuple[NetworkCardInfo, ...], Field(max_length=1000)] | None = _within(
        "NetworkInfo", "NetworkCards"
    )
    efa: bool | None = _within("NetworkInfo", "EfaSupported")
    gpu: Text | None = _within("GpuInfo", "Gpus", 0, "Name")
    gpu_maker: Text | None = _within("GpuInfo", "Gpus", 0, "Manufacturer")
    gpus: Annotated[int, Field(ge=0, le=limits.NODES)] | None = _within(
        "GpuInfo", "Gpus", 0, "Count"
    )


class SpotPrice(AwsResponse):
    """A price of the spot market as DescribeSpotPriceHistory tells it, from when it held."""

    name: TypeName = Field(alias="InstanceType")
    zone: Zone = Field(alias="AvailabilityZone")
    usd_per_hour: UsdPerHour = Field(alias="SpotPrice")
    since: AwareDatetime = Field(alias="Timestamp")


class PriceDimension(AwsResponse):
    """A part of a price: so much in each currency for each unit of use."""

    unit: Text
    of_unit: dict[str, Usd] = Field(alias="pricePerUnit", max_length=10)


class PriceTerm(AwsResponse):
    """A way of paying, and the parts of its price."""

    dimensions: dict[str, PriceDimension] = Field(
        alias="priceDimensions", min_length=1, max_length=100
    )


class PriceListEntry(AwsResponse):
    """One entry of what GetProducts answers: a product, and ways of paying for it on demand."""

    market: Text | None = _within("product", "attributes", "marketoption")
    on_demand: Annotated[dict[str, PriceTerm], Field(max_length=100)] | None = _within(
        "terms", "OnDemand"
    )


_Kind = TypeVar("_Kind", bound=AwsResponse)


def records(kind: type[_Kind], told: Iterator[Any], operation: str) -> Iterator[_Kind]:
    """Yield what AWS lists as records, JSON in JSON as well.

    Raises:
        ProbeFailed: something in it cannot be.
    """
    for number, entry in enumerate(told, start=1):
        try:
            yield (
                kind.model_validate_json(entry)
                if isinstance(entry, str)
                else kind.model_validate(entry)
            )
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise ProbeFailed(
                f"{operation}: entry {number} cannot be: {where}: {first['msg']}, found "
                f"{first['input']!r:.60}"
            ) from None
