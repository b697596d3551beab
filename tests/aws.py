"""A stand-in for AWS: answers three questions over HTTP, and only what botocore's model allows.

What is answered is checked against the output shape of the operation, written as AWS writes it, and
read again by botocore's own parser before it is sent.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

import botocore.session
import pytest
from botocore.model import OperationModel, Shape
from botocore.parsers import create_parser
from botocore.session import Session
from botocore.validate import ParamValidator

# botocore's description of EC2 takes a second to read: all sessions of a process share it.
botocore.session.create_loader = cache(botocore.session.create_loader)
REGIONS = ("us-east-1", "eu-west-1")
DAY = datetime(2026, 11, 25, 5, tzinfo=UTC)
"""When the spot prices of `Aws` begin."""
Answer = dict[str, Any]
_PLAIN_LINUX = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
}


@dataclass
class Aws:
    """What the stand-in knows, and what it was asked.

    Attributes:
        types: instance types of all regions, as DescribeInstanceTypes tells them.
        on_demand: US dollars per hour by region and type.
        spot: type, zone, price and since when.
        refusals: by operation: status, code and message of what is answered in place of prices.
        refusals_left: how many of them there are before AWS answers; below 0: for ever.
        raw: by operation: bytes that are answered in place of prices.
        product: what is changed of products: their attributes, the dimension of their price.
        page_size: entries of an answer.
        asked: operation, region and parameters of every request.
    """

    types: dict[str, Answer] = field(default_factory=dict)
    on_demand: dict[tuple[str, str], float] = field(default_factory=dict)
    spot: list[tuple[str, str, float, datetime]] = field(default_factory=list)
    refusals: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    refusals_left: int = -1
    raw: dict[str, bytes] = field(default_factory=dict)
    product: dict[str, Any] = field(default_factory=dict)
    page_size: int = 2
    asked: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)

    def answer(self, operation: str, region: str, request: dict[str, Any]) -> Answer:
        """Return the answer to a question, or that page of it which NextToken names."""
        self.asked.append((operation, region, request))
        part, rows = {
            "DescribeInstanceTypes": self._types,
            "DescribeSpotPriceHistory": self._spot,
            "GetProducts": self._products,
        }[operation](region, request)
        first = int(request.get("NextToken") or 0)
        page: Answer = {part: rows[first : first + self.page_size]}
        if first + self.page_size < len(rows):
            page["NextToken"] = str(first + self.page_size)
        return page

    def _types(self, region: str, request: dict[str, Any]) -> tuple[str, list[Any]]:
        assert request["Filter.1.Name"] == "instance-type"
        wanted = listed(request, "Filter.1.Value")
        names = [name for name in self.types if any(fnmatchcase(name, glob) for glob in wanted)]
        return "InstanceTypes", [
            {"InstanceType": name, **self.types[name]}
            for name in names
            if (region, name) in self.on_demand
        ]

    def _spot(self, region: str, request: dict[str, Any]) -> tuple[str, list[Any]]:
        assert listed(request, "ProductDescription") == ["Linux/UNIX"]
        names, start = listed(request, "InstanceType"), datetime.fromisoformat(request["StartTime"])
        prices = [price for price in self.spot if price[0] in names and price[1].startswith(region)]
        # AWS tells the price that held at the start, too.
        shown = [
            price
            for price in prices
            if price[3] >= start
            or price[3] == max(o[3] for o in prices if o[:2] == price[:2] and o[3] < start)
        ]
        newest = sorted(shown, key=lambda price: (price[3], price[1]), reverse=True)
        return "SpotPriceHistory", [
            {
                "InstanceType": name,
                "AvailabilityZone": zone,
                "ProductDescription": "Linux/UNIX",
                "SpotPrice": f"{price:.6f}",
                "Timestamp": since,
            }
            for name, zone, price, since in newest
        ]

    def _products(self, region: str, request: dict[str, Any]) -> tuple[str, list[Any]]:
        assert region == "us-east-1"
        assert request["ServiceCode"] == "AmazonEC2"
        wanted = {filter_["Field"]: filter_["Value"] for filter_ in request["Filters"]}
        assert {filter_["Type"] for filter_ in request["Filters"]} == {"TERM_MATCH"}
        price = self.on_demand.get((wanted["regionCode"], wanted["instanceType"]))
        return "PriceList", [] if price is None else [json.dumps(_product(wanted, price, self))]


def _product(wanted: Mapping[str, str], price: float, aws: Aws) -> Answer:
    """Return a product as the price list has it; `aws.product` changes its parts."""
    dimension = {
        "unit": "Hrs",
        "beginRange": "0",
        "endRange": "Inf",
        "description": f"${price} per On Demand Linux {wanted['instanceType']} Instance Hour",
        "pricePerUnit": {"USD": f"{price:.10f}"},
        **aws.product.get("dimension", {}),
    }
    code = "ABC.JRTCKXETXF"
    term = {
        "sku": "ABC",
        "effectiveDate": "2026-11-01T00:00:00Z",
        "offerTermCode": "JRTCKXETXF",
        "termAttributes": {},
        "priceDimensions": {f"{code}.6YS6EN2CT7": dimension},
    }
    attributes = {
        **wanted,
        "marketoption": "OnDemand",
        "licenseModel": "No License required",
        **aws.product.get("attributes", {}),
    }
    return {
        "product": {"productFamily": "Compute Instance", "attributes": attributes, "sku": "ABC"},
        "serviceCode": "AmazonEC2",
        "terms": {"OnDemand": {code: term}},
        "version": "20261101000000",
        "publicationDate": "2026-11-01T00:00:00Z",
    }


def instance_type(
    vcpus: int, gib: int, network: str, gbps: float, gpu: tuple[str, int, int] | None = None
) -> Answer:
    """Return an instance type; `gpu` is name, count and GiB of one."""
    description: Answer = {
        "VCpuInfo": {"DefaultVCpus": vcpus, "DefaultCores": vcpus // 2},
        "MemoryInfo": {"SizeInMiB": gib * 1024},
        "NetworkInfo": {
            "NetworkPerformance": network,
            "NetworkCards": [
                {
                    "NetworkCardIndex": 0,
                    "BaselineBandwidthInGbps": gbps,
                    "PeakBandwidthInGbps": max(gbps, 10.0),
                }
            ],
        },
    }
    if gpu is not None:
        name, count, memory = gpu
        each = {
            "Name": name,
            "Manufacturer": "NVIDIA",
            "Count": count,
            "MemoryInfo": {"SizeInMiB": memory * 1024},
        }
        total = count * memory * 1024
        description["GpuInfo"] = {"Gpus": [each], "TotalGpuMemoryInMiB": total}
    return description


def two_regions() -> Aws:
    """Return a world of three types in two regions, one of them in the first region only."""
    names = {"p3.2xlarge": 3.06, "p3.8xlarge": 12.24, "m5.large": 0.096}
    world = Aws(
        types={
            "p3.2xlarge": instance_type(8, 61, "Up to 10 Gigabit", 2.5, ("V100", 1, 16)),
            "p3.8xlarge": instance_type(32, 244, "10 Gigabit", 10.0, ("V100", 4, 16)),
            "m5.large": instance_type(2, 8, "Up to 10 Gigabit", 0.75),
        },
        on_demand={("us-east-1", name): price for name, price in names.items()},
    )
    world.on_demand["eu-west-1", "p3.2xlarge"] = 3.305
    for hours, price in ((-72, 0.95), (-30, 0.918), (0, 1.021)):
        world.spot.append(("p3.2xlarge", "us-east-1a", price, DAY + timedelta(hours=hours)))
    world.spot.append(("p3.2xlarge", "us-east-1b", 0.93, DAY - timedelta(hours=1)))
    world.spot.append(("p3.2xlarge", "eu-west-1a", 1.2, DAY - timedelta(hours=2)))
    return world


def listed(request: dict[str, Any], name: str) -> list[Any]:
    """Return the values of a list in a request of EC2, which numbers them."""
    values: list[Any] = []
    while (value := request.get(f"{name}.{len(values) + 1}")) is not None:
        values.append(value)
    return values


@cache
def model(operation: str) -> OperationModel:
    """Return botocore's model of an operation."""
    session = Session()
    services = (session.get_service_model(name) for name in ("ec2", "pricing"))
    return next(
        service for service in services if operation in service.operation_names
    ).operation_model(operation)


def written(operation: str, answer: Answer) -> bytes:
    """Return an answer as AWS writes it, once botocore's model and parser agree with it."""
    of = model(operation)
    report = ParamValidator().validate(answer, of.output_shape)
    assert not report.has_errors(), report.generate_report()
    if operation == "GetProducts":
        body = json.dumps(answer).encode()
    else:
        fields = _xml(answer, of.output_shape)
        body = (
            f"<{operation}Response><requestId>1</requestId>{fields}</{operation}Response>".encode()
        )
    assert read(operation, body) == answer
    return body


def read(operation: str, body: bytes) -> Answer:
    """Return what botocore reads in an answer, once its model allows that."""
    of = model(operation)
    parser = create_parser(of.service_model.metadata["protocol"])
    response = {"body": body, "headers": {}, "status_code": 200}
    answer: Answer = parser.parse(response, of.output_shape)
    answer.pop("ResponseMetadata")
    if of.output_shape is not None:
        report = ParamValidator().validate(answer, of.output_shape)
        assert not report.has_errors(), report.generate_report()
    return answer


def told(operation: str) -> bytes:
    """Return what is answered to a question about p3.2xlarge in the first region."""
    known = two_regions()
    known.page_size = 10
    product = {"instanceType": "p3.2xlarge", "regionCode": "us-east-1"}
    filters = [
        {"Type": "TERM_MATCH", "Field": name, "Value": value}
        for name, value in (product | _PLAIN_LINUX).items()
    ]
    requests: dict[str, dict[str, Any]] = {
        "DescribeInstanceTypes": {"Filter.1.Name": "instance-type", "Filter.1.Value.1": "*"},
        "DescribeSpotPriceHistory": {
            "ProductDescription.1": "Linux/UNIX",
            "InstanceType.1": "p3.2xlarge",
            "StartTime": (DAY - timedelta(days=2)).isoformat(),
        },
        "GetProducts": {"ServiceCode": "AmazonEC2", "Filters": filters},
    }
    return written(operation, known.answer(operation, "us-east-1", requests[operation]))


def _xml(value: Any, shape: Shape) -> str:
    """Return the content of an element of EC2's XML."""
    if shape.type_name == "structure":
        members = ((child, shape.members[name]) for name, child in value.items())
        names = (shape.members[name].serialization.get("name", name) for name in value)
        return "".join(
            f"<{name}>{_xml(child, member)}</{name}>"
            for name, (child, member) in zip(names, members, strict=True)
        )
    if shape.type_name == "list":
        return "".join(f"<item>{_xml(child, shape.member)}</item>" for child in value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    return escape(str(value).lower() if isinstance(value, bool) else str(value))


def refused(code: str, message: str, operation: str = "") -> bytes:
    """Return a refusal in AWS's words."""
    if operation == "GetProducts":
        return json.dumps({"__type": code, "message": message}).encode()
    error = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
    return f"<Response><Errors>{error}</Errors><RequestID>1</RequestID></Response>".encode()


def asked(headers: Mapping[str, str], body: bytes) -> tuple[str, str, dict[str, Any]]:
    """Return operation, region and parameters of a question."""
    region = headers["Authorization"].split("Credential=")[1].split("/")[2]
    if target := headers.get("X-Amz-Target"):
        return target.rpartition(".")[2], region, json.loads(body)
    request = dict(parse_qsl(body.decode()))
    return request["Action"], region, request


@contextmanager
def serve(
    answer: Callable[[Mapping[str, str], bytes], tuple[int, bytes] | None],
) -> Iterator[dict[str, str]]:
    """Answer questions at a port of this host; yield the environment in which boto3 finds it.

    `answer` takes headers and body, and returns status and body; None: the connection is lost.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answered = answer(dict(self.headers), body)
            if answered is None:
                self.close_connection = True
                self.connection.close()
                return
            self.send_response(answered[0])
            self.send_header("Content-Length", str(len(answered[1])))
            self.end_headers()
            self.wfile.write(answered[1])

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield {
            "AWS_ENDPOINT_URL_EC2": url,
            "AWS_ENDPOINT_URL_PRICING": url,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_CONFIG_FILE": "/nowhere",
            "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": "127.0.0.1",
        }
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    """Serve a world of two regions where botocore looks for AWS."""
    known = two_regions()

    def answer(headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        operation, region, request = asked(headers, body)
        if operation in known.refusals:
            status, code, message = known.refusals[operation]
            known.refusals_left -= 1
            if not known.refusals_left:
                del known.refusals[operation]
            known.asked.append((operation, region, request))
            return status, refused(code, message, operation)
        if operation in known.raw:
            return 200, known.raw[operation]
        return 200, written(operation, known.answer(operation, region, request))

    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    with serve(answer) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield known
