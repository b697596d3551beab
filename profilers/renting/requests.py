"""What EC2 is asked, in its own words, and how some of its answers are read."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from profilers.clusters.fleet import Launch
from profilers.renting import user_data
from profilers.renting.book import Intent
from profilers.renting.provider import Seen, State
from warehouse.records import ProbeFailed

TAG = "stepcast:owner"
"""Of what was launched: whose process it belongs to (`profilers.clusters.owner`)."""
HOME_TAG = "stepcast:home"
"""The random number of the home it was launched from: only there is it known who is dead."""
UNTIL_TAG = "stepcast:until"
"""When it ends by itself at the latest, for whoever ends what is past its time."""
CONSOLE_CHARACTERS = 1 << 17
_STATES: Mapping[str, State] = {
    "pending": "pending",
    "running": "running",
    "shutting-down": "ending",
    "terminated": "ended",
    # Ours never stop; one that somebody stopped has its volumes still, and starts to cost again.
    "stopping": "running",
    "stopped": "running",
}
_WHEN = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) GMT\)")


def launch(how: Launch, intent: Intent, home_token: str) -> Mapping[str, Any]:
    """Return the request of a launch, the same for each attempt at it.

    What is named beside a launch template counts instead of what the template says.
    """
    request: dict[str, Any] = {
        "ClientToken": intent.token,
        "InstanceType": intent.node_type,
        "MinCount": intent.count,
        "MaxCount": intent.count,
        "InstanceInitiatedShutdownBehavior": "terminate",
        "UserData": user_data.script(intent),
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


def seen(told: Mapping[str, Any], now: datetime | None) -> Seen:
    """Return an instance as EC2 tells it at a time of its own clock.

    Where EC2 does not say from when to when an instance lived, all of its life is paid.
    """
    until = ended_at(told.get("StateTransitionReason", "")) or now
    launched = told.get("LaunchTime")
    seconds = math.inf
    if until is not None and launched is not None:
        seconds = max((until - launched).total_seconds(), 0.0)
    return Seen(
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


def _tags(intent: Intent, home_token: str) -> list[dict[str, Any]]:
    tags = {
        TAG: intent.owner,
        HOME_TAG: home_token,
        UNTIL_TAG: str(int(intent.at.timestamp() + 3600 * intent.hours)),
        "Name": f"stepcast {intent.node_type}",
    }
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": kind, "Tags": listed} for kind in ("instance", "volume")]
