"""Ends rented instances that are past their time; a Lambda function, the same as in aws.yaml.

Each instance shuts itself down, and whoever rented it ends it. This is the layer that holds where
both failed, for it runs elsewhere. It needs no more than boto3.

Environment:
    REGIONS: of the instances, with commas.
    MOST_HOURS: after which one of ours is past its time, whatever its tags say.
    GRACE_MINUTES: that one may live past the time in its tag.
"""

import os
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3

HOME_TAG, UNTIL_TAG = "stepcast:home", "stepcast:until"
ALIVE = ["pending", "running", "stopping", "stopped"]


def handler(event: object = None, context: object = None) -> dict[str, list[str]]:
    """End what is past its time in all regions; return the ids by region.

    Raises:
        RuntimeError: something could not be asked or ended; an alarm rings on that.
    """
    most = timedelta(hours=float(os.environ["MOST_HOURS"]))
    grace = timedelta(minutes=float(os.environ.get("GRACE_MINUTES", "15")))
    now = datetime.now(UTC)
    ended: dict[str, list[str]] = {}
    failed: list[str] = []
    for region in filter(None, map(str.strip, os.environ["REGIONS"].split(","))):
        try:
            client = boto3.client("ec2", region_name=region)
            late = [
                instance["InstanceId"]
                for instance in ours(client)
                if is_late(instance, now, most, grace)
            ]
        except Exception as error:  # another region must be looked at all the same
            failed.append(f"{region}: {error}")
            continue
        ended[region] = []
        for id_ in late:
            try:
                client.terminate_instances(InstanceIds=[id_])
                ended[region].append(id_)
            except Exception as error:
                failed.append(f"{id_}: {error}")
    if failed:
        raise RuntimeError(f"COULD NOT END {'; '.join(failed)}; ended: {ended}")
    return ended


def ours(client: Any) -> list[dict[str, Any]]:
    """Return the instances of a region that a home has launched and that live."""
    filters = [
        {"Name": "tag-key", "Values": [HOME_TAG]},
        {"Name": "instance-state-name", "Values": ALIVE},
    ]
    pages = client.get_paginator("describe_instances").paginate(Filters=filters)
    return [
        instance
        for page in pages
        for group in page["Reservations"]
        for instance in group["Instances"]
    ]


def is_late(instance: dict[str, Any], now: datetime, most: timedelta, grace: timedelta) -> bool:
    """Tell whether an instance is past its time: by its tag, or too old whatever that says."""
    if now - instance["LaunchTime"] > most:
        return True
    tags = {tag["Key"]: tag["Value"] for tag in instance.get("Tags", ())}
    until = tags.get(UNTIL_TAG, "")
    if not (until.isascii() and until.isdigit()):
        return False
    return now.timestamp() > int(until) + grace.total_seconds()
