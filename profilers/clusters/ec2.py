"""A cluster of EC2 instances, launched for it and terminated with it; programs run over ssh.

Instances are tagged with who launched them, so that what a killed run left is terminated by the
next one. Each also shuts itself down, and is terminated by that, after `most_hours`.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar

import boto3
from botocore.exceptions import BotoCoreError, ClientError, WaiterError

from profilers.clusters import owner
from profilers.clusters.base import Node
from profilers.clusters.fleet import Machine
from profilers.clusters.ssh import SshCluster
from warehouse.records import Backend, NodeGroup, ProbeFailed

TAG = "stepcast:owner"
HOME_TAG = "stepcast:home"
"""The random number of the home they were launched from: only there is it known who is dead."""
_WAIT = {"Delay": 5, "MaxAttempts": 60}
_SSH_TIMEOUT_S = 240.0
_RETRY_S = 5.0


class Ec2Cluster(SshCluster):
    """Instances of the wanted types, as the fleet file's section `ec2` says.

    Raises:
        BadInput: no fleet file, or it has no section `ec2`.
        ProbeFailed: EC2 refuses (credentials, quota, capacity), or an instance does not come up.
    """

    backend: ClassVar[Backend] = "ec2"

    def __init__(self, groups: Sequence[NodeGroup], link_mbps: float | None) -> None:
        super().__init__(groups, link_mbps)
        self._launch = self._fleet.launch()
        self._owner = owner.new_prefix()
        self._instances: dict[str, str] = {}
        """Instance by the address that others reach it by."""

    def up(self) -> None:
        """Terminate what dead owners left; launch."""
        reap(self._launch.region)
        super().up()

    def facts(self) -> Mapping[str, str | int | float | bool | None]:
        """Return also where and on which market its instances are rented: what they cost."""
        market = "spot" if self._launch.spot else "on_demand"
        return {**super().facts(), "region": self._launch.region, "market": market}

    def remove(self, node: Node) -> None:
        """Kill what runs on the instance, and terminate it."""
        super().remove(node)
        with _clearly():
            ec2(self._launch.region).terminate_instances(
                InstanceIds=[self._instances.pop(node.address)]
            )

    def down(self) -> None:
        """Terminate all instances, those of a launch that was interrupted too."""
        super().down()
        self._instances = {}
        with _clearly():
            _terminate(self._launch.region, {self._owner})

    def _taken(self, groups: Sequence[NodeGroup], spot: bool | None = None) -> list[Machine]:
        """Launch an instance for each group's one node."""
        spot = self._launch.spot if spot is None else spot
        with _clearly():
            launched: dict[str, list[Machine]] = {}
            for name, number in Counter(group.node_type for group in groups).items():
                launched[name] = self._launched(name, number, spot)
        return [launched[group.node_type].pop() for group in groups]

    def _launched(self, node_type: str, number: int, spot: bool) -> list[Machine]:
        client = ec2(self._launch.region)
        minutes = round(60 * self._launch.most_hours)
        market = {"InstanceMarketOptions": {"MarketType": "spot"}} if spot else {}
        tags = {TAG: self._owner, HOME_TAG: owner.token(), "Name": f"stepcast {node_type}"}
        answer = client.run_instances(
            ImageId=self._launch.image,
            InstanceType=node_type,
            MinCount=number,
            MaxCount=number,
            KeyName=self._launch.key_name,
            SubnetId=self._launch.subnet,
            SecurityGroupIds=list(self._launch.security_groups),
            InstanceInitiatedShutdownBehavior="terminate",
            UserData=f"#!/bin/sh\nshutdown -P +{minutes}\n",
            TagSpecifications=[
                {
                    "ResourceType": "instance",
                    "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
                }
            ],
            **market,
        )
        ids = [one["InstanceId"] for one in answer["Instances"]]
        client.get_waiter("instance_running").wait(InstanceIds=ids, WaiterConfig=_WAIT)
        machines = []
        for one in _described(client, InstanceIds=ids):
            private = one["PrivateIpAddress"]
            host = one.get("PublicIpAddress") if self._launch.public else None
            self._instances[private] = one["InstanceId"]
            machines.append(Machine(node_type=node_type, address=private, host=host))
        return machines

    def _prepare(self, node: Node) -> None:
        self._await(node)
        super()._prepare(node)

    def _await(self, node: Node) -> None:
        """Wait until the instance's sshd answers."""
        deadline = time.monotonic() + _SSH_TIMEOUT_S
        while True:
            try:
                self._over(node, "true")
                return
            except ProbeFailed:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_RETRY_S)


def reap(region: str) -> list[str]:
    """Terminate this home's instances whose owners are dead; return the owners."""
    with _clearly():
        ours = [{"Name": f"tag:{HOME_TAG}", "Values": [owner.token()]}, _ALIVE]
        tagged = (
            tag["Value"]
            for one in _described(ec2(region), Filters=ours)
            for tag in one["Tags"]
            if tag["Key"] == TAG
        )
        orphans = {name for name in tagged if owner.is_orphan(f"{name}-")}
        _terminate(region, orphans)
    return sorted(orphans)


@cache
def ec2(region: str) -> Any:
    """Return the client of a region; credentials come from where boto3 looks for them."""
    return boto3.client("ec2", region_name=region)


_ALIVE = {
    "Name": "instance-state-name",
    "Values": ["pending", "running", "stopping", "stopped"],
}


def _terminate(region: str, owners: set[str]) -> None:
    if not owners:
        return
    theirs = [{"Name": f"tag:{TAG}", "Values": sorted(owners)}, _ALIVE]
    ids = [one["InstanceId"] for one in _described(ec2(region), Filters=theirs)]
    if ids:
        ec2(region).terminate_instances(InstanceIds=ids)


def _described(client: Any, **which: Any) -> list[dict[str, Any]]:
    pages = client.get_paginator("describe_instances").paginate(**which)
    return [one for page in pages for group in page["Reservations"] for one in group["Instances"]]


@contextmanager
def _clearly() -> Iterator[None]:
    """Say in one line what EC2 refuses."""
    try:
        yield
    except ClientError as error:
        told = error.response["Error"]
        raise ProbeFailed(f"EC2: {told['Code']}: {told['Message']}") from None
    except WaiterError as error:
        raise ProbeFailed(f"EC2: the instances did not come up: {error}") from None
    except BotoCoreError as error:
        raise ProbeFailed(f"EC2: {error}") from None
