"""What EC2 is asked, in its own words, and how some of its answers are read."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from profilers.clusters.fleet import Launch
from profilers.renting.book import LaunchIntent
from profilers.renting.provider import InstanceState, InstanceStatus
from warehouse.records import ProbeFailed

TAG = "stepcast:owner"
"""Of what was launched: whose process it belongs to (`profilers.clusters.owner`)."""
HOME_TAG = "stepcast:home"
"""The random number of the home it was launched from: only there is it known who is dead."""
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


def filters(*wanted: tuple[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Return filters as EC2 takes them: names, each with the values that will do."""
    return [{"Name": name, "Values": list(values)} for name, values in wanted]


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
    found = _WHEN.search(reason)
    return None if found is None else datetime.fromisoformat(found[1]).replace(tzinfo=UTC)


def answered_at(date: str) -> datetime | None:
    """Return when an answer was sent by its `Date` header, rounded up to a second, not down."""
    try:
        found = parsedate_to_datetime(date)
    except ValueError:
        return None
    return None if found.tzinfo is None else found.astimezone(UTC) + timedelta(seconds=1)


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
    found = re.finditer(rf"{MARKER} {re.escape(token)} {_KEY.pattern}(?=\s)", console)
    keys = dict.fromkeys(f"{one[1]} {one[2]}" for one in found)
    return tuple(keys)[:MOST_KEYS]
