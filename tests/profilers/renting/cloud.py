"""EC2 over HTTP: moto's server behind a proxy that loses, delays and refuses, as AWS does.

The proxy answers what moto lacks: client tokens that launch once, consoles, capacity by zone,
prices (`tests.aws`). Each answer must be one that botocore's model of the operation allows.
"""

import base64
import http.client
import os
import re
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from threading import RLock
from typing import Any
from urllib.parse import urlencode

import boto3

from tests import aws
from tests.aws import Aws, listed, two_regions

REGION = "us-east-1"
ZONES = ("us-east-1a", "us-east-1b")
FAULTS = ("before", "after", "refused", "throttled", "unavailable")
"""What becomes of a call: the question is lost; the answer is; three ways to refuse it."""
_SAID = {
    "refused": (400, "OperationNotPermitted", "Not now"),
    "throttled": (503, "RequestLimitExceeded", "Request limit exceeded"),
    "expired": (400, "RequestExpired", "The request is too old"),
    "unavailable": (503, "Unavailable", "The service is unavailable"),
}
_PRICES = ("DescribeInstanceTypes", "DescribeSpotPriceHistory", "GetProducts")
_ID = re.compile(rb"<instanceId>(i-[0-9a-f]+)</instanceId>")
_GOES = b"<deleteOnTermination>true</deleteOnTermination>"
Asked = dict[str, str]


@dataclass
class Cloud:
    """What the stand-in knows and is asked.

    Attributes:
        moto: address and port of moto's server.
        aws: prices.
        faults: of the next calls, in their order, "fine" among them; later ones are fine.
        full: zones and markets that have no capacity; a zone of None: all of them.
        consoles: what instances have printed, by id.
        asked: operations, in their order.
        launched: instances by client token.
        on_launch: told the ids that a launch brought, and what it asked for.
        on_end: told the ids that are ended.
        addresses: that instances have in place of moto's.
        room: how many more instances there may be.
        at_call: a process that is killed at a call (their number), before (0) or after it is done.
    """

    moto: tuple[str, int]
    aws: Aws = field(default_factory=two_regions)
    faults: list[str] = field(default_factory=list)
    full: set[tuple[str | None, str]] = field(default_factory=set)
    consoles: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    launched: dict[str, tuple[str, ...]] = field(default_factory=dict)
    on_launch: Callable[[tuple[str, ...], Asked], None] = lambda _, __: None
    on_end: Callable[[list[str]], None] = lambda _: None
    addresses: dict[str, str] = field(default_factory=dict)
    room: Callable[[], int] = lambda: 1_000
    at_call: tuple[int, int, int] | None = None
    _answers: dict[str, tuple[Asked, bytes]] = field(default_factory=dict)
    _subnets: dict[str, str] = field(default_factory=dict)
    _volumes_go: bool = False
    """Whether volumes end with their instances; moto forgets what a launch says of that."""
    _lock: RLock = field(default_factory=RLock)

    @cached_property
    def direct(self) -> Any:
        """Return a client of moto itself, to which nothing happens."""
        host, port = self.moto
        return boto3.client("ec2", region_name=REGION, endpoint_url=f"http://{host}:{port}")

    def subnets(self) -> Mapping[str, str]:
        """Return a subnet of each zone."""
        if not self._subnets:
            subnets = self.direct.describe_subnets()["Subnets"]
            by_zone = {subnet["AvailabilityZone"]: subnet["SubnetId"] for subnet in subnets}
            self._subnets = {zone: by_zone[zone] for zone in ZONES}
        return self._subnets

    @cached_property
    def group(self) -> str:
        """Return a security group."""
        return str(self.direct.describe_security_groups()["SecurityGroups"][0]["GroupId"])

    def public_key(self, name: str) -> str:
        """Return the public key of a key pair."""
        pairs = self.direct.describe_key_pairs(KeyNames=[name], IncludePublicKey=True)["KeyPairs"]
        return str(pairs[0]["PublicKey"])

    def alive(self) -> dict[str, Mapping[str, Any]]:
        """Return what lives, by id."""
        states = {"Name": "instance-state-name", "Values": ["pending", "running"]}
        reservations = self.direct.describe_instances(Filters=[states])["Reservations"]
        return {
            instance["InstanceId"]: instance
            for group in reservations
            for instance in group["Instances"]
        }

    def answer(self, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes] | None:
        """Return status and body of the answer to a question; None: it is lost."""
        with self._lock:
            operation, region, request = aws.asked(headers, body)
            if operation in _PRICES:
                return 200, aws.written(operation, self.aws.answer(operation, region, request))
            self.asked.append(operation)
            fault = self.faults.pop(0) if self.faults else "fine"
            if fault == "before":
                return None
            if fault in _SAID:
                return _refused(*_SAID[fault])
            self._kill(0)
            response = self._done(operation, headers, request)
            self._kill(1)
            return None if fault == "after" else response

    def _kill(self, when: int) -> None:
        if self.at_call is not None and self.at_call[:2] == (len(self.asked) - 1, when):
            os.kill(self.at_call[2], signal.SIGKILL)

    def _done(
        self, operation: str, headers: Mapping[str, str], request: Asked
    ) -> tuple[int, bytes]:
        if operation == "RunInstances":
            status, body = self._launched(headers, request)
        elif operation == "GetConsoleOutput":
            status, body = self._console(request)
        elif operation == "DeleteSecurityGroup" and self._has_nodes(request["GroupId"]):
            status, body = _refused(400, "DependencyViolation", "resource has a dependent object")
        else:
            status, body = self._forwarded(headers, self._known_tokens(request))
            if operation == "TerminateInstances" and status == 200:
                self.on_end(listed(request, "InstanceId"))
        if operation == "DescribeVolumes" and self._volumes_go:
            body = re.sub(rb"(<attachmentSet>\s*<item>)", rb"\1" + _GOES, body)
        if status == 200:
            body = self._as_aws(body)
            aws.read(operation, body)
        return status, body

    def _has_nodes(self, group: str) -> bool:
        """Tell whether something that lives has a security group; moto would remove it."""
        living = self.alive().values()
        return group in {of["GroupId"] for node in living for of in node["SecurityGroups"]}

    def _launched(self, headers: Mapping[str, str], request: Asked) -> tuple[int, bytes]:
        token = request["ClientToken"]
        if token in self._answers:
            before, body = self._answers[token]
            if before != request:
                return _refused(400, "IdempotentParameterMismatch", "another launch")
            return 200, body
        zones = {subnet: zone for zone, subnet in self.subnets().items()}
        zone = zones.get(request.get("SubnetId", ""))
        market = request.get("InstanceMarketOptions.MarketType", "on_demand")
        is_full = int(request["MaxCount"]) > self.room()
        if is_full or self.full & {(zone, market), (None, market)}:
            return _refused(500, "InsufficientInstanceCapacity", f"none left in {zone}")
        status, body = self._forwarded(headers, request)
        if status == 200:
            self._answers[token] = request, body
            self._volumes_go = request.get("BlockDeviceMapping.1.Ebs.DeleteOnTermination") == "true"
            self.launched[token] = tuple(id_.decode() for id_ in _ID.findall(body))
            self.on_launch(self.launched[token], request)
        return status, body

    def _known_tokens(self, request: Asked) -> Asked:
        """Return a question in which client tokens are the ids of what they launched."""
        changed = dict(request)
        for name, value in request.items():
            if value == "client-token":
                filter_ = name.rpartition(".")[0]
                tokens = listed(request, f"{filter_}.Value")
                changed = {k: v for k, v in changed.items() if not k.startswith(f"{filter_}.V")}
                changed[name] = "instance-id"
                ids = [id_ for token in tokens for id_ in self.launched.get(token, ())]
                for number, id_ in enumerate(ids or ["i-0"], 1):
                    changed[f"{filter_}.Value.{number}"] = id_
        return changed

    def _console(self, request: Asked) -> tuple[int, bytes]:
        id_ = request["InstanceId"]
        printed = base64.b64encode(self.consoles.get(id_, "").encode()).decode()
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        fields = {"requestId": "1", "instanceId": id_, "timestamp": now, "output": printed}
        inner = "".join(f"<{name}>{value}</{name}>" for name, value in fields.items())
        return 200, f"<GetConsoleOutputResponse>{inner}</GetConsoleOutputResponse>".encode()

    def _forwarded(self, headers: Mapping[str, str], request: Asked) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(*self.moto, timeout=30)
        kept = {name: headers[name] for name in ("Authorization", "X-Amz-Date") if name in headers}
        kept["Content-Type"] = "application/x-www-form-urlencoded; charset=utf-8"
        try:
            connection.request("POST", "/", urlencode(request), kept)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def _as_aws(self, body: bytes) -> bytes:
        """Return an answer with AWS's words for times, and the addresses that instances have."""
        body = re.sub(rb"(\(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC\)", rb"\1 GMT)", body)
        for before, after in self.addresses.items():
            body = body.replace(f">{before}<".encode(), f">{after}<".encode())
        return body


def _refused(status: int, code: str, message: str) -> tuple[int, bytes]:
    return status, aws.refused(code, message)
