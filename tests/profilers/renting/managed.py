"""Systems Manager of the stand-in: commands really run on instances that only it can reach."""

import base64
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import boto3
import yaml
from botocore.exceptions import ClientError

from profilers.renting import ssm
from tests.profilers.renting.cloud import REGION, Asked, Cloud
from tests.profilers.renting.instances import NODE_TYPE
from tests.profilers.renting.portless import Instance

BUCKET, PROFILE = "lab-stepcast", "stepcast-node"
CUT_CHARACTERS = 24_000
"""Of what a command writes, GetCommandInvocation tells no more (AWS Systems Manager API)."""
Answer = dict[str, Any]


class Refused(KeyError):
    """SSM refuses: the code of its error."""


@dataclass
class Ran:
    """A command on an instance."""

    instance: str
    status: str = "InProgress"
    asked: int = 0
    stdout: str = ""
    stderr: str = ""
    process: "subprocess.Popen[bytes] | None" = None


@dataclass
class Managed:
    """The instances of a cloud, as SSM reaches them.

    Attributes:
        cloud: that launches and ends them.
        folder: in which each has its own.
        alive: those that live, by id.
        ran: commands by id.
        cancelled: ids of those that were cancelled.
        is_delivered: whether commands reach their instances.
    """

    cloud: Cloud
    folder: Path
    alive: dict[str, Instance] = field(default_factory=dict)
    ran: dict[str, Ran] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)
    is_delivered: bool = True
    _known: set[str] = field(default_factory=set)
    _last: "count[int]" = field(default_factory=lambda: count(2))

    def launched(self, ids: tuple[str, ...], request: Asked) -> None:
        """Start the instances of a launch, and let each run its user data."""
        reservations = self.cloud.direct.describe_instances(InstanceIds=list(ids))["Reservations"]
        for instance in (instance for group in reservations for instance in group["Instances"]):
            address, own = f"127.0.3.{next(self._last)}", self.folder / instance["InstanceId"]
            for name in ("PrivateIpAddress", "PublicIpAddress"):
                if name in instance:
                    self.cloud.addresses[instance[name]] = address
            user_data = base64.b64decode(request["UserData"]).decode()
            self.alive[instance["InstanceId"]] = Instance.started(own, address, user_data)

    def ended(self, ids: list[str]) -> None:
        """End instances, with whatever runs there."""
        for instance in [self.alive.pop(id_) for id_ in ids if id_ in self.alive]:
            instance.end()

    def answer(self, operation: str, request: Answer) -> Answer:
        """Return the answer to a question.

        Raises:
            Refused: it is none.
        """
        return self._operations[operation](request)

    @property
    def _operations(self) -> Mapping[str, Callable[[Answer], Answer]]:
        return {
            "SendCommand": self._sent,
            "GetCommandInvocation": self._invocation,
            "CancelCommand": self._cancelled,
            "DescribeInstanceInformation": self._described,
        }

    def _described(self, request: Answer) -> Answer:
        (wanted,) = request["Filters"]
        assert wanted["Key"] == "InstanceIds"
        known = [id_ for id_ in wanted["Values"] if id_ in self._known & self.alive.keys()]
        # An instance that is asked for at once is not there yet.
        self._known |= {*wanted["Values"]}
        return {
            "InstanceInformationList": [
                {"InstanceId": id_, "PingStatus": "Online", "PlatformType": "Linux"}
                for id_ in known
            ]
        }

    def _sent(self, request: Answer) -> Answer:
        (id_,) = request["InstanceIds"]
        if id_ not in self.alive:
            raise Refused("InvalidInstanceId")
        assert request["DocumentName"] == ssm.DOCUMENT
        assert 30 <= request["TimeoutSeconds"] <= 2_592_000
        command, ran = str(uuid4()), Ran(id_)
        self.ran[command] = ran
        if self.is_delivered:
            script = "\n".join(request["Parameters"]["commands"])
            seconds = int(request["Parameters"]["executionTimeout"][0])
            Thread(target=self._run, args=(ran, script, seconds), daemon=True).start()
        return {"Command": {"CommandId": command, "Status": "Pending", "InstanceIds": [id_]}}

    def _run(self, ran: Ran, script: str, seconds: int) -> None:
        instance = self.alive[ran.instance]
        own = instance.folder
        with (own / "stdout").open("wb") as out, (own / "stderr").open("wb") as errors:
            ran.process = instance.run(script, out, errors)
        try:
            code = ran.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            ran.process.kill()
            code = None
        ran.stdout = (own / "stdout").read_text()[:CUT_CHARACTERS]
        ran.stderr = (own / "stderr").read_text()[:CUT_CHARACTERS]
        if ran.status == "InProgress":
            ran.status = "TimedOut" if code is None else "Failed" if code else "Success"

    def _invocation(self, request: Answer) -> Answer:
        ran = self.ran[request["CommandId"]]
        ran.asked += 1
        if ran.asked == 1:
            raise Refused("InvocationDoesNotExist")
        return {
            "CommandId": request["CommandId"],
            "InstanceId": ran.instance,
            "Status": ran.status,
            "StatusDetails": ran.status,
            "StandardOutputContent": ran.stdout,
            "StandardErrorContent": ran.stderr,
        }

    def _cancelled(self, request: Answer) -> Answer:
        ran = self.ran[request["CommandId"]]
        self.cancelled.append(request["CommandId"])
        if ran.status == "InProgress":
            ran.status = "Cancelled"
            if ran.process is not None:
                ran.process.kill()
        return {}


def moto(cloud: Cloud, service: str) -> Any:
    """Return a client of moto itself, to which nothing happens."""
    host, port = cloud.moto
    return boto3.client(service, region_name=REGION, endpoint_url=f"http://{host}:{port}")


@contextmanager
def managed(folder: Path, cloud: Cloud) -> Iterator[tuple[Managed, Path]]:
    """Let a cloud's launches bring instances that SSM reaches; yield them, and a fleet file."""
    rented = Managed(cloud, folder)
    cloud.managed, cloud.on_launch, cloud.on_end = rented.answer, rented.launched, rented.ended
    moto(cloud, "s3").create_bucket(Bucket=BUCKET)
    with suppress(ClientError):  # an earlier one has made it
        moto(cloud, "iam").create_instance_profile(InstanceProfileName=PROFILE)
    launch: dict[str, Any] = {
        "region": REGION,
        "image": "ami-12345678",
        "subnets": dict(cloud.subnets()),
        "security_groups": [cloud.group],
        "most_hours": 1,
        "volume": {"gb": 8, "device": "/dev/sda1"},
        "commands": "ssm",
        "bucket": BUCKET,
        "profile": PROFILE,
    }
    content = {
        "python": sys.executable,
        "ssh": ["-o", "ProxyCommand=false"],
        "interface": "lo",
        "node_types": {NODE_TYPE: {"threads": 1}},
        "ec2": launch,
    }
    file = folder / "fleet.yaml"
    file.write_text(yaml.safe_dump(content))
    try:
        yield rented, file
    finally:
        rented.ended(list(rented.alive))
