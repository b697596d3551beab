"""EC2 as botocore's own model of its API has it; the instance is an sshd of this host."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from botocore.stub import ANY, Stubber

from profilers.clusters import ec2, open_cluster, owner
from profilers.clusters.ec2 import HOME_TAG, TAG, reap
from profilers.clusters.fleet import VARIABLE
from profilers.clusters.node_types import node_group
from tests.profilers.clusters.killed import made_by_a_killed_process
from tests.profilers.clusters.machines import NODE_TYPE, machines
from warehouse.records import BadInput, ProbeFailed

LAUNCH = {
    "region": "us-east-1",
    "image": "ami-1",
    "key_name": "lab",
    "subnet": "subnet-1",
    "security_groups": ["sg-1"],
}
WORKER = (node_group("worker", "emu.server", 1).model_copy(update={"node_type": NODE_TYPE}),)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    """EC2's client, which takes the requests that a test has announced, in their order."""
    client = boto3.client(
        "ec2", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    monkeypatch.setattr(ec2, "ec2", lambda region: client)
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def told(*instances: dict[str, Any]) -> dict[str, Any]:
    return {"Reservations": [{"Instances": list(instances)}]}


def instance(**more: Any) -> dict[str, Any]:
    return {
        "InstanceId": "i-1",
        "PrivateIpAddress": "127.0.0.2",
        "State": {"Code": 16, "Name": "running"},
        **more,
    }


def write(folder: Path, monkeypatch: pytest.MonkeyPatch, **changed: Any) -> None:
    file = folder / "fleet.yaml"
    content = yaml.safe_load(file.read_text()) if file.exists() else {}
    content = {"node_types": {NODE_TYPE: {"threads": 1}}, **content, "ec2": LAUNCH, **changed}
    file.write_text(yaml.safe_dump(content))
    monkeypatch.setenv(VARIABLE, str(file))


@pytest.fixture
def answering(api: Stubber, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of a machine at the address of `instance`, which a fleet file launches.

    No instance is left that a cluster would have to reap before.
    """
    with machines(tmp_path, 1) as file:
        content = yaml.safe_load(file.read_text())
        port = str(content["machines"][0]["port"])
        write(tmp_path, monkeypatch, ssh=["-p", port, *content["ssh"]])
        api.add_response("describe_instances", told(), {"Filters": ANY})
        yield tmp_path / "m0"


@pytest.mark.sshd
def test_an_instance_is_launched_used_and_terminated(api: Stubber, answering: Path) -> None:
    api.add_response(
        "run_instances",
        {"Instances": [instance()]},
        {
            "ImageId": "ami-1",
            "InstanceType": NODE_TYPE,
            "MinCount": 1,
            "MaxCount": 1,
            "KeyName": "lab",
            "SubnetId": "subnet-1",
            "SecurityGroupIds": ["sg-1"],
            "InstanceInitiatedShutdownBehavior": "terminate",
            "UserData": "#!/bin/sh\nshutdown -P +360\n",
            "TagSpecifications": ANY,
        },
    )
    for _ in ("waiter", "addresses"):
        api.add_response("describe_instances", told(instance()), {"InstanceIds": ["i-1"]})
    with open_cluster("ec2", WORKER, None) as cluster:
        assert cluster.run(cluster.nodes[0], ["pwd"]).strip() == str(answering)
        api.add_response("describe_instances", told(instance()), {"Filters": ANY})
        api.add_response("terminate_instances", {}, {"InstanceIds": ["i-1"]})


@pytest.mark.sshd
def test_nodes_are_added_in_the_market_that_was_asked_for(api: Stubber, answering: Path) -> None:
    request = dict.fromkeys(("ImageId", "InstanceType", "KeyName", "SubnetId"), ANY)
    request |= dict.fromkeys(("MinCount", "MaxCount", "UserData", "SecurityGroupIds"), ANY)
    request |= {"InstanceInitiatedShutdownBehavior": ANY, "TagSpecifications": ANY}
    on_spot = {"InstanceMarketOptions": {"MarketType": "spot"}}
    api.add_response("run_instances", {"Instances": [instance()]}, {**request, **on_spot})
    for _ in ("waiter", "addresses"):
        api.add_response("describe_instances", told(instance()), {"InstanceIds": ["i-1"]})
    with open_cluster("ec2", (), None) as cluster:
        (node,) = cluster.add(*WORKER, spot=True)
        api.add_response("terminate_instances", {}, {"InstanceIds": ["i-1"]})
        cluster.remove(node)
        api.add_response("describe_instances", told(), {"Filters": ANY})


def test_what_dead_owners_left_is_terminated(api: Stubber, home: Path) -> None:
    dead, living = made_by_a_killed_process(), owner.new_prefix()
    unknown = f"{owner.PREFIX}-{owner.token()}-0123456789ab-0"
    names = (dead, living, unknown, f"{owner.PREFIX}-1-1-0")
    tagged = [instance(Tags=[{"Key": TAG, "Value": name}]) for name in names]
    ours = {"Name": f"tag:{HOME_TAG}", "Values": [owner.token()]}
    alive = {"Name": "instance-state-name", "Values": ANY}
    api.add_response("describe_instances", told(*tagged), {"Filters": [ours, alive]})
    theirs = {"Name": f"tag:{TAG}", "Values": [dead]}
    api.add_response("describe_instances", told(instance()), {"Filters": [theirs, alive]})
    api.add_response("terminate_instances", {}, {"InstanceIds": ["i-1"]})
    assert reap("us-east-1") == [dead]


def test_a_refused_launch_is_told_and_leaves_nothing(
    api: Stubber, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, monkeypatch)
    api.add_response("describe_instances", told(), {"Filters": ANY})
    api.add_client_error("run_instances", "InsufficientInstanceCapacity", "none left")
    api.add_response("describe_instances", told(), {"Filters": ANY})
    with (
        pytest.raises(ProbeFailed, match="EC2: InsufficientInstanceCapacity: none left"),
        open_cluster("ec2", WORKER, None),
    ):
        pass


@pytest.mark.parametrize(("spot", "market"), [(False, "on_demand"), (True, "spot")])
def test_runs_note_where_and_how_their_nodes_are_rented(
    spot: bool, market: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, monkeypatch, ec2={**LAUNCH, "spot": spot})
    facts = ec2.Ec2Cluster(WORKER, None).facts()
    assert (facts["region"], facts["market"]) == ("us-east-1", market)


def test_without_a_section_nothing_is_launched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, monkeypatch, ec2=None)
    with pytest.raises(BadInput, match="has no section `ec2`"):
        open_cluster("ec2", WORKER, None)
