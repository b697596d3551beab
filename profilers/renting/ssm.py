"""Commands to instances by AWS Systems Manager (SSM), which calls in: none has an open port.

SSM only starts an errand on the instance (`profilers.nodes.errand`). What the errand's program
reads and writes goes through two objects of a bucket (`profilers.nodes.mailbox`), so it may be as
long as it likes, and the instance needs no right to the bucket: URLs are signed for it.
"""

import base64
import io
import shlex
import sys
import tarfile
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.session import Session
from pydantic import Field

from profilers.nodes import errand, mailbox
from profilers.prices.aws import client, explain_errors, list_pages
from warehouse.records import BadInput, ProbeFailed, Record

ONLINE_S, _EVERY_S = 300.0, 5.0
FOLDER = "/var/lib/stepcast"
"""Of an instance: where errands live, and what programs find as their working folder."""
SOURCE = Path(__file__).parents[2]
"""Where this project's packages are."""
PREFIX = "stepcast"
"""Folder of the bucket under which everything is."""
DOCUMENT = "AWS-RunShellScript"
SIGNED_S = 3600
"""How long URLs are good for; they are renewed long before."""
_DELIVERY_S, _START_S = 120, 60
_ENDED_BADLY = ("Cancelled", "Cancelling", "Failed", "TimedOut", "Undeliverable", "Terminated")
_PARTS = (errand, mailbox)
T = TypeVar("T")


class Reach(Record):
    """How a program of an instance is reached.

    Attributes:
        region: of the instance and the bucket.
        instance: its id.
        bucket: that its words go through.
        folder: of the bucket, for this cluster.
        python: the instance's interpreter.
        life_s: seconds after which a program ends, whatever anybody says.
        silence_s: seconds without a word of its controller after which it ends.
    """

    region: str
    instance: str
    bucket: str
    folder: str
    python: str
    life_s: float = Field(gt=0, allow_inf_nan=False)
    silence_s: float = Field(default=60.0, gt=0, allow_inf_nan=False)


@dataclass
class Ssm:
    """What is asked of SSM and S3 in a region. All of it may be asked twice."""

    region: str

    @cached_property
    def _client(self) -> Any:
        return client("ssm", self.region)

    @cached_property
    def _signer(self) -> Any:
        version = Config(signature_version="s3v4", request_checksum_calculation="when_required")
        return Session().create_client("s3", region_name=self.region, config=version)

    def online(self, ids: Collection[str]) -> set[str]:
        """Return those of these instances that SSM can reach."""
        wanted = [{"Key": "InstanceIds", "Values": sorted(ids)}]
        listed = "InstanceInformationList"

        def ask() -> set[str]:
            instances = list_pages(
                self._client, "describe_instance_information", listed, {"Filters": wanted}
            )
            return {
                str(instance["InstanceId"])
                for instance in instances
                if instance.get("PingStatus") == "Online"
            }

        return self._asked(ask)

    def await_online(self, id_: str, within_s: float = ONLINE_S) -> None:
        """Wait until SSM can reach an instance.

        Raises:
            ProbeFailed: it cannot in time.
        """
        deadline_s, why = time.monotonic() + within_s, "SSM does not know it"
        while True:
            try:
                if id_ in self.online([id_]):
                    return
            except ProbeFailed as error:
                why = str(error)
            if time.monotonic() > deadline_s:
                raise ProbeFailed(
                    f"{id_} cannot be reached by SSM after {within_s:g} s ({why}); its image needs "
                    "the SSM agent, and its profile the rights that docs/ec2.md lists"
                )
            time.sleep(_EVERY_S)

    def start(self, reach: Reach, token: str, urls: dict[str, str]) -> str:
        """Let an instance start an errand; return the id of the command that does.

        Raises:
            ProbeFailed: SSM refuses, or cannot be reached.
        """
        request = {
            "InstanceIds": [reach.instance],
            "DocumentName": DOCUMENT,
            "TimeoutSeconds": _DELIVERY_S,
            "Parameters": {
                "commands": script(reach, token, urls).splitlines(),
                "executionTimeout": [str(_START_S)],
            },
        }
        return self._asked(
            lambda: str(self._client.send_command(**request)["Command"]["CommandId"])
        )

    def check_started(self, reach: Reach, command: str) -> None:
        """Refuse an errand that its instance could not start.

        Without an answer nothing is refused.

        Raises:
            ProbeFailed: it could not.
        """
        request = {"CommandId": command, "InstanceId": reach.instance}

        def ask() -> dict[str, Any]:
            try:
                return dict(self._client.get_command_invocation(**request))
            except ClientError as error:
                # So SSM says of what it was told a moment ago.
                if error.response["Error"]["Code"] != "InvocationDoesNotExist":
                    raise
            return {}

        invocation = dict[str, Any]()
        with suppress(ProbeFailed):
            invocation = self._asked(ask)
        if invocation.get("Status") in _ENDED_BADLY:
            lines = str(invocation.get("StandardErrorContent", "")).strip().splitlines()
            why = lines[-1] if lines else invocation.get("StatusDetails", "")
            raise ProbeFailed(f"{invocation['Status']}: {why!s:.300}")

    def cancel(self, reach: Reach, command: str) -> None:
        """Cancel a command that may not have been delivered yet."""
        request = {"CommandId": command, "InstanceIds": [reach.instance]}
        with suppress(ProbeFailed):  # it has ended, or ends when its time to be delivered is over
            self._asked(lambda: self._client.cancel_command(**request))

    def signed(self, reach: Reach, token: str, *, fresh: bool = False) -> "Urls":
        """Return URLs of the two objects of an errand.

        Args:
            reach: of its instance.
            token: its name.
            fresh: whether credentials are looked for again.
        """
        if fresh:
            self.__dict__.pop("_signer", None)

        def url(operation: str, name: str) -> str:
            return str(
                self._signer.generate_presigned_url(
                    operation,
                    Params={"Bucket": reach.bucket, "Key": f"{reach.folder}/{token}/{name}"},
                    ExpiresIn=SIGNED_S,
                )
            )

        return self._asked(
            lambda: Urls(
                here={"theirs": url("get_object", "out"), "ours": url("put_object", "in")},
                there={"theirs": url("get_object", "in"), "ours": url("put_object", "out")},
                removal=tuple(url("delete_object", name) for name in ("in", "out")),
                first=url("put_object", "out"),
            )
        )

    def _asked(self, ask: Callable[[], T]) -> T:
        """Ask, and once more with credentials that are looked for again, where they expired."""
        for is_last in (False, True):
            try:
                with explain_errors(f"SSM in {self.region}"):
                    return ask()
            except BadInput as error:
                for name in ("_client", "_signer"):
                    self.__dict__.pop(name, None)
                if is_last:
                    raise ProbeFailed(str(error)) from None
        raise AssertionError("the last try returns or raises")


@dataclass(frozen=True)
class Urls:
    """Signed URLs of an errand: for both sides, and to make and remove its objects."""

    here: dict[str, str]
    there: dict[str, str]
    removal: tuple[str, ...]
    first: str


def words(reach: Reach) -> list[str]:
    """Return the words that run a command there, which is added, as those of `ssh` would."""
    python = ["env", f"PYTHONPATH={SOURCE}", sys.executable]
    return [*python, "-m", "profilers.renting.session", reach.canonical_json()]


def script(reach: Reach, token: str, urls: dict[str, str]) -> str:
    """Return the shell script that starts an errand; run a second time, it does nothing."""
    order = errand.order(urls, reach.life_s, reach.silence_s)
    own, python = f"errand-{token}", shlex.quote(reach.python)
    return f"""umask 077
mkdir -p {FOLDER} && cd {FOLDER} || exit
command -v {python} > /dev/null || {{ echo no {python} here >&2; exit 127; }}
mkdir {own} || exit 0
printf %s {_packed()} | base64 -d | tar -C {own} -xz || exit
printf %s {base64.b64encode(order.encode()).decode()} | base64 -d > {own}/order || exit
export HOME="${{HOME:-/root}}"
PYTHONPATH={own} setsid nohup {python} -m profilers.nodes.errand {own}/order \
< /dev/null > {own}/said 2>&1 &
"""


def _packed() -> str:
    """Return the files of errands as a compressed archive in base64."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for part in _PARTS:
            assert part.__file__ is not None
            archive.add(Path(part.__file__), f"{part.__name__.replace('.', '/')}.py")
    return base64.b64encode(buffer.getvalue()).decode()
