"""EC2 as a provider of machines (`profilers.renting.renter.Provider`): one region of it.

A launch is asked for once, with its client token: whoever asks again does so by the same token.
Everything else is asked for as often as botocore thinks right. What EC2 is asked, in
its own words, and how its answers are read stands first.
"""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any

from botocore import exceptions

from profilers.clusters.fleet import Launch
from profilers.prices.aws import client, list_pages
from profilers.renting.access import HOME_TAG, TAG, Ec2Access, filters
from profilers.renting.book import LaunchIntent
from profilers.renting.renter import InstanceState, InstanceStatus, NoCapacity, OutcomeUnknown
from warehouse.records import ProbeFailed

UNTIL_TAG = "stepcast:until"
"""When it ends by itself at the latest, for whoever ends what is past its time."""
CONSOLE_CHARACTERS = 1 << 17
_STATES: Mapping[str, InstanceState] = {
    "pending": "pending",
    "running": "running",
    "shutting-down": "ending",
    "terminated": "ended",
    # Ours never stop; one that somebody stopped has its volumes still, and starts to cost again.
    "stopping": "running",
    "stopped": "running",
}
_WHEN = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) GMT\)")


def launch(how: Launch, intent: LaunchIntent, home_token: str) -> Mapping[str, Any]:
    """Return the request of a launch, the same for each attempt at it.

    What is named beside a launch template counts instead of what the template says.
    """
    request: dict[str, Any] = {
        "ClientToken": intent.token,
        "InstanceType": intent.node_type,
        "MinCount": intent.count,
        "MaxCount": intent.count,
        "InstanceInitiatedShutdownBehavior": "terminate",
        "UserData": script(intent),
        "TagSpecifications": _tags(intent, home_token),
    }
    if how.launch_template is not None:
        template = {"LaunchTemplateId": how.launch_template, "Version": how.version}
        request["LaunchTemplate"] = template
    named = {
        "ImageId": how.image,
        "KeyName": how.key_name,
        "SubnetId": how.places.get(intent.zone, how.subnet),
        "SecurityGroupIds": list(how.security_groups),
        "IamInstanceProfile": {"Name": how.profile} if how.profile else None,
    }
    request |= {key: value for key, value in named.items() if value}
    if how.volume.device is not None:
        disk = {"VolumeSize": how.volume.gb, "VolumeType": "gp3", "DeleteOnTermination": True}
        request["BlockDeviceMappings"] = [{"DeviceName": how.volume.device, "Ebs": disk}]
    if intent.market == "spot":
        request["InstanceMarketOptions"] = {
            "MarketType": "spot",
            "SpotOptions": {
                "MaxPrice": f"{intent.usd_per_hour:.6f}",
                "SpotInstanceType": "one-time",
                "InstanceInterruptionBehavior": "terminate",
            },
        }
    return request


def instance_status(told: Mapping[str, Any], now: datetime | None) -> InstanceStatus:
    """Return an instance as EC2 tells it at a time of its own clock.

    Where EC2 does not say from when to when an instance lived, all of its life is paid.
    """
    until = ended_at(told.get("StateTransitionReason", "")) or now
    launched = told.get("LaunchTime")
    seconds = math.inf
    if until is not None and launched is not None:
        seconds = max((until - launched).total_seconds(), 0.0)
    return InstanceStatus(
        id=str(told["InstanceId"]),
        state=_STATES.get(told["State"]["Name"], "running"),
        seconds=seconds,
        private=told.get("PrivateIpAddress"),
        public=told.get("PublicIpAddress"),
    )


def ended_at(reason: str) -> datetime | None:
    """Return when an instance began to end, by the reason that EC2 gives for that."""
    match = _WHEN.search(reason)
    return None if match is None else datetime.fromisoformat(match[1]).replace(tzinfo=UTC)


def answered_at(date: str) -> datetime | None:
    """Return when an answer was sent by its `Date` header, rounded up to a second, not down."""
    try:
        sent_at = parsedate_to_datetime(date)
    except ValueError:
        return None
    return None if sent_at.tzinfo is None else sent_at.astimezone(UTC) + timedelta(seconds=1)


def check_volumes(volumes: Iterable[Mapping[str, Any]], most_gb: float) -> None:
    """Refuse volumes that are larger than was reckoned with, or outlive their instance.

    Args:
        volumes: as DescribeVolumes tells them.
        most_gb: of one instance, all together.

    Raises:
        ProbeFailed: they are.
    """
    sizes: dict[str, float] = {}
    for volume in volumes:
        for attached in volume.get("Attachments", ()):
            id_ = attached["InstanceId"]
            sizes[id_] = sizes.get(id_, 0.0) + volume["Size"]
            if not attached.get("DeleteOnTermination", False):
                raise ProbeFailed(
                    f"volume {volume['VolumeId']} would stay when {id_} has ended; set "
                    "DeleteOnTermination in the launch template or image"
                )
    for id_, size_gb in sizes.items():
        if size_gb > most_gb:
            raise ProbeFailed(
                f"{id_} has volumes of {size_gb:g} GB, and {most_gb:g} were reckoned with; write "
                f"`volume: {{gb: {size_gb:g}}}` into section `ec2` of the fleet file"
            )


def _tags(intent: LaunchIntent, home_token: str) -> list[dict[str, Any]]:
    tags = {
        TAG: intent.owner,
        HOME_TAG: home_token,
        UNTIL_TAG: str(int(intent.at.timestamp() + 3600 * intent.hours)),
        "Name": f"stepcast {intent.node_type}",
    }
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": kind, "Tags": listed} for kind in ("instance", "volume")]


# What an instance is told at its start, and what its console says: its end, its host keys.
#
# The console is the one channel that nobody between us and the instance can write to: AWS brings
# it.


MARKER = "stepcast-host-key"
_KEY = re.compile(
    r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)) ([A-Za-z0-9+/]{32,4096}={0,2})"
)
MOST_KEYS = 10


def minutes(intent: LaunchIntent) -> int:
    """Return after how many minutes an instance of a launch shuts itself down."""
    return max(int(60 * intent.hours + 1e-6), 1)


def script(intent: LaunchIntent) -> str:
    """Return the user data of a launch: the same for each attempt at it, as its token wants.

    An instance that cannot set its shutdown shuts down at once.
    """
    return f"""#!/bin/sh
shutdown -P +{minutes(intent)} || shutdown -P now
for key in /etc/ssh/ssh_host_*_key.pub; do
    echo "{MARKER} {intent.token} $(cut -d' ' -f1,2 "$key")" > /dev/console
done
"""


def host_keys(console: str, token: str) -> tuple[str, ...]:
    """Return the host keys that an instance has printed for a launch, as known_hosts has them."""
    matches = re.finditer(rf"{MARKER} {re.escape(token)} {_KEY.pattern}(?=\s)", console)
    keys = dict.fromkeys(f"{match[1]} {match[2]}" for match in matches)
    return tuple(keys)[:MOST_KEYS]


_ALIVE = ("pending", "running", "stopping", "stopped")
_CAPACITY = {
    "InstanceLimitExceeded",
    "InsufficientCapacity",
    "InsufficientFreeAddressesInSubnet",
    "InsufficientHostCapacity",
    "InsufficientInstanceCapacity",
    "InsufficientReservedInstanceCapacity",
    "MaxSpotInstanceCountExceeded",
    "SpotMaxPriceTooLow",
    "Unsupported",
    "VcpuLimitExceeded",
}
_UNSURE = {
    "IdempotentParameterMismatch",
    "InternalError",
    "InternalFailure",
    "RequestLimitExceeded",
    "RequestTimeout",
    "ServiceUnavailable",
    "Throttling",
    "ThrottlingException",
    "Unavailable",
}
"""Renters ask again, by the same token."""
_GONE = "InvalidInstanceID.NotFound"
_NOT_SENT = (
    exceptions.ConnectTimeoutError,
    exceptions.EndpointConnectionError,
    exceptions.ProxyConnectionError,
)
_AT_ONCE = 100
"""Ids of one request; AWS takes 200 in a filter."""


@dataclass
class Ec2(Ec2Access):
    """One region of EC2.

    Attributes:
        region: its name.
        how: what the fleet file says of launches; only launches need it.
    """

    region: str
    how: Launch | None = None
    _answered_at: datetime | None = field(default=None, init=False, repr=False)

    @cached_property
    def _client(self) -> Any:
        ec2 = client("ec2", self.region)
        self.watch_time(ec2)
        return ec2

    @cached_property
    def _launching(self) -> Any:
        """Asks once: what was lost between two attempts of botocore's nobody would be told of."""
        return client("ec2", self.region, attempts=1)

    def launch(self, intent: LaunchIntent, owner_token: str) -> Sequence[str]:
        """Launch what an intent says; see `Provider.launch`."""
        if self.how is None:
            raise ProbeFailed(f"{self._where}: nothing says how instances are launched")
        with self._in_words():
            return self._launched(launch(self.how, intent, owner_token))

    def find(self, token: str) -> Sequence[str]:
        """Return the ids that a client token launched; see `Provider.find`."""
        return [instance["InstanceId"] for instance in self._described(("client-token", [token]))]

    def seen(self, ids: Collection[str]) -> Mapping[str, InstanceStatus]:
        """Return the instances of these ids that EC2 knows; see `Provider.seen`."""
        statuses = {}
        for part in _parts(ids):
            for instance in self._described(("instance-id", part)):
                statuses[str(instance["InstanceId"])] = instance_status(instance, self._answered_at)
        return statuses

    def terminate(self, ids: Collection[str]) -> None:
        """Ask EC2 to end instances; see `Provider.terminate`. One bad id keeps no other from it."""
        failed = [message for part in _parts(ids) for message in self._not_terminated(part)]
        if failed:
            raise ProbeFailed("; ".join(failed))

    def tagged(self, home_token: str) -> Mapping[str, str]:
        """Return a home's living instances by id, with the owner that their tags name.

        Raises:
            ProbeFailed: there was no answer.
        """
        conditions = (f"tag:{HOME_TAG}", [home_token]), ("instance-state-name", list(_ALIVE))
        return {
            str(instance["InstanceId"]): next(
                (tag["Value"] for tag in instance.get("Tags", ()) if tag["Key"] == TAG), ""
            )
            for instance in self._described(*conditions)
        }

    def console(self, id_: str) -> str:
        """Return what an instance has written to its console so far: 64 kB at most, maybe nothing.

        Raises:
            ProbeFailed: there was no answer.
        """
        with self._in_words():
            try:
                answer = self._client.get_console_output(InstanceId=id_, Latest=True)
            except exceptions.ClientError as error:
                # Types on Xen tell their console only as it was a while ago.
                if _code(error) not in ("UnsupportedOperation", "InvalidParameterCombination"):
                    raise
                answer = self._client.get_console_output(InstanceId=id_)
        return str(answer.get("Output", ""))[:CONSOLE_CHARACTERS]

    def check_volumes(self, ids: Collection[str]) -> None:
        """Refuse instances whose volumes cost more than was reckoned with, or outlive them.

        Raises:
            ProbeFailed: they do, or there was no answer.
        """
        assert self.how is not None
        attached = [("attachment.instance-id", sorted(ids))]
        request = {"Filters": filters(*attached)}
        with self._in_words():
            volumes = list(list_pages(self._client, "describe_volumes", "Volumes", request))
        check_volumes(volumes, self.how.volume.gb)

    def watch_time(self, of: Any) -> None:
        """Note when EC2 answers what a client asks, by EC2's own clock: the one here may err."""
        of.meta.events.register("after-call.ec2.DescribeInstances", self._noted)

    def _noted(self, parsed: Mapping[str, Any], **_: object) -> None:
        headers = parsed.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        self._answered_at = answered_at(headers.get("date", ""))

    def _launched(self, request: Mapping[str, Any]) -> Sequence[str]:
        try:
            answer = self._launching.run_instances(**request)
        except exceptions.ClientError as error:
            raise self._refusal(error) from None
        except _NOT_SENT as error:
            raise ProbeFailed(f"{self._where} cannot be reached: {error}") from None
        except (exceptions.ConnectionError, exceptions.HTTPClientError) as error:
            raise OutcomeUnknown(f"{self._where}: no answer to a launch: {error}") from None
        return [str(instance["InstanceId"]) for instance in answer["Instances"]]

    def _refusal(self, error: exceptions.ClientError) -> Exception:
        code, reason = _code(error), str(error.response["Error"].get("Message", ""))[:300]
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
        message = f"{self._where}: {code}: {reason}"
        if code in _CAPACITY:
            return NoCapacity(code, message)
        if code in _UNSURE or status >= 500:
            return OutcomeUnknown(message)
        refused: Exception = error
        return refused

    def _not_terminated(self, ids: Sequence[str]) -> list[str]:
        """End what can be ended, one by one if need be; return what was said of the others."""
        try:
            with self._in_words():
                self._client.terminate_instances(InstanceIds=list(ids))
        except ProbeFailed as error:
            if len(ids) > 1:
                return [message for id_ in ids for message in self._not_terminated([id_])]
            # What is not known now may have just been launched: `seen` tells.
            return [] if _GONE in str(error) else [f"{ids[0]}: {error}"]
        return []

    def _described(self, *wanted: tuple[str, Sequence[str]]) -> Iterator[Mapping[str, Any]]:
        request = {"Filters": filters(*wanted)}
        with self._in_words():
            for group in list_pages(self._client, "describe_instances", "Reservations", request):
                yield from group["Instances"]


def _code(error: exceptions.ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _parts(ids: Iterable[str]) -> Iterator[list[str]]:
    listed = sorted(ids)
    for first in range(0, len(listed), _AT_ONCE):
        yield listed[first : first + _AT_ONCE]
