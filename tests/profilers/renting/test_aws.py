"""EC2 as botocore's own model of its API has it: every request and answer is checked by that."""

import math
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore import exceptions
from botocore.stub import Stubber

from profilers.clusters.fleet import Launch, Volume
from profilers.renting import aws
from profilers.renting.aws import Ec2, answered_at, launch
from profilers.renting.book import LaunchIntent
from profilers.renting.renter import NoCapacity, OutcomeUnknown
from warehouse.records import ProbeFailed

AT = datetime(2026, 11, 26, 12, tzinfo=UTC)
HOW = Launch(
    region="us-east-1",
    image="ami-1",
    key_name="lab",
    subnets={"us-east-1a": "subnet-1", "us-east-1b": "subnet-2"},
    security_groups=("sg-1",),
)
INTENT = LaunchIntent(
    token="t0",
    owner="stepcast-1-2-0",
    account="a",
    region="us-east-1",
    zone="us-east-1b",
    node_type="m5.large",
    market="spot",
    count=2,
    usd_per_hour=0.0521,
    hours=1.5,
    at=AT,
)


@pytest.fixture
def ec2() -> Ec2:
    provider = Ec2("us-east-1", HOW)
    credentials = {"aws_access_key_id": "x", "aws_secret_access_key": "x"}
    provider.__dict__["_client"] = boto3.client("ec2", region_name="us-east-1", **credentials)
    provider.__dict__["_launching"] = provider.__dict__["_client"]
    return provider


@pytest.fixture
def api(ec2: Ec2) -> Iterator[Stubber]:
    with Stubber(ec2.__dict__["_client"]) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def instance(id_: str, state: str = "running", **more: Any) -> dict[str, Any]:
    return {"InstanceId": id_, "State": {"Name": state}, "LaunchTime": AT, **more}


def told(*instances: dict[str, Any]) -> dict[str, Any]:
    return {"Reservations": [{"Instances": [instance]} for instance in instances]}


def test_a_launch_has_its_token_its_tags_its_end_and_its_highest_price(
    ec2: Ec2, api: Stubber
) -> None:
    tags = [
        {"Key": "stepcast:owner", "Value": "stepcast-1-2-0"},
        {"Key": "stepcast:home", "Value": "home"},
        {"Key": "stepcast:until", "Value": str(int(AT.timestamp()) + 5400)},
        {"Key": "Name", "Value": "stepcast m5.large"},
    ]
    expected = {
        "ClientToken": "t0",
        "InstanceType": "m5.large",
        "MinCount": 2,
        "MaxCount": 2,
        "ImageId": "ami-1",
        "KeyName": "lab",
        "SubnetId": "subnet-2",
        "SecurityGroupIds": ["sg-1"],
        "InstanceInitiatedShutdownBehavior": "terminate",
        "UserData": aws.script(INTENT),
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": tags} for kind in ("instance", "volume")
        ],
        "InstanceMarketOptions": {
            "MarketType": "spot",
            "SpotOptions": {
                "MaxPrice": "0.052100",
                "SpotInstanceType": "one-time",
                "InstanceInterruptionBehavior": "terminate",
            },
        },
    }
    answer = {"Instances": [instance("i-1", "pending"), instance("i-2", "pending")]}
    api.add_response("run_instances", answer, expected)
    assert ec2.launch(INTENT, "home") == ["i-1", "i-2"]
    assert "shutdown -P +90 " in aws.script(INTENT)


def test_what_is_given_beside_a_launch_template_counts() -> None:
    how = Launch(
        region="us-east-1",
        launch_template="lt-1",
        version="7",
        volume=Volume(gb=50, device="/dev/xvda"),
    )
    on_demand = INTENT.model_copy(update={"market": "on_demand", "zone": None})
    request = launch(how, on_demand, "home")
    assert request["LaunchTemplate"] == {"LaunchTemplateId": "lt-1", "Version": "7"}
    assert not {"ImageId", "KeyName", "SubnetId", "SecurityGroupIds"} & request.keys()
    assert "InstanceMarketOptions" not in request
    (disk,) = request["BlockDeviceMappings"]
    assert disk["Ebs"] == {"VolumeSize": 50, "VolumeType": "gp3", "DeleteOnTermination": True}


@pytest.mark.parametrize(
    "code", ["InsufficientInstanceCapacity", "VcpuLimitExceeded", "SpotMaxPriceTooLow"]
)
def test_no_capacity_is_told_apart(code: str, ec2: Ec2, api: Stubber) -> None:
    api.add_client_error("run_instances", code, "none left")
    with pytest.raises(NoCapacity, match=f"{code}: none left") as error:
        ec2.launch(INTENT, "home")
    assert error.value.code == code


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("InternalError", 500),
        ("RequestLimitExceeded", 503),
        ("Unavailable", 503),
        ("odd", 502),
        ("IdempotentParameterMismatch", 400),
    ],
)
def test_nobody_knows_what_a_failing_service_did(
    code: str, status: int, ec2: Ec2, api: Stubber
) -> None:
    api.add_client_error("run_instances", code, http_status_code=status)
    with pytest.raises(OutcomeUnknown):
        ec2.launch(INTENT, "home")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (exceptions.ReadTimeoutError(endpoint_url="x"), OutcomeUnknown),
        (exceptions.ConnectionClosedError(endpoint_url="x"), OutcomeUnknown),
        (exceptions.EndpointConnectionError(endpoint_url="x"), ProbeFailed),
        (exceptions.NoCredentialsError(), ProbeFailed),
    ],
)
def test_a_launch_without_an_answer_is_unsure_if_it_was_sent(
    error: Exception, expected: type[ProbeFailed], ec2: Ec2, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raises(**_: object) -> None:
        raise error

    monkeypatch.setattr(ec2.__dict__["_launching"], "run_instances", raises)
    with pytest.raises(ProbeFailed) as raised:
        ec2.launch(INTENT, "home")
    assert type(raised.value) is expected


def test_one_bad_id_keeps_no_other_from_ending(ec2: Ec2, api: Stubber) -> None:
    api.add_client_error("terminate_instances", "InvalidInstanceID.NotFound", "no i-1")
    api.add_client_error("terminate_instances", "InvalidInstanceID.NotFound", "no i-1")
    api.add_client_error("terminate_instances", "OperationNotPermitted", "protected")
    api.add_response("terminate_instances", {}, {"InstanceIds": ["i-3"]})
    with pytest.raises(ProbeFailed, match=r"^i-2: .*OperationNotPermitted: protected$"):
        ec2.terminate(["i-1", "i-2", "i-3"])


def test_expired_credentials_are_looked_for_again(ec2: Ec2, api: Stubber) -> None:
    api.add_client_error("terminate_instances", "ExpiredToken", "too old")
    with pytest.raises(ProbeFailed, match="ExpiredToken"):
        ec2.terminate(["i-1"])
    assert "_client" not in ec2.__dict__


def test_what_has_ended_has_lived_until_then(ec2: Ec2, api: Stubber) -> None:
    reason = "User initiated (2026-11-26 12:10:30 GMT)"
    ended = instance("i-1", "shutting-down", StateTransitionReason=reason)
    runs = instance("i-2", PrivateIpAddress="10.0.0.2", PublicIpAddress="3.3.3.3")
    wanted = [{"Name": "instance-id", "Values": ["i-1", "i-2", "i-9"]}]
    api.add_response("describe_instances", told(ended, runs), {"Filters": wanted})
    seen = ec2.seen(["i-2", "i-1", "i-9"])
    assert (seen["i-1"].state, seen["i-1"].seconds) == ("ending", 630)
    assert (seen["i-2"].state, seen["i-2"].private, seen["i-2"].public) == (
        "running",
        "10.0.0.2",
        "3.3.3.3",
    )
    assert seen.keys() == {"i-1", "i-2"}


def test_what_lives_is_paid_by_the_clock_of_ec2(
    ec2: Ec2, api: Stubber, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by that of this machine, which is a day late here; a second is added, as it may miss."""
    monkeypatch.setattr("profilers.clock.now", lambda: AT - timedelta(days=1))
    ec2.watch_time(ec2.__dict__["_client"])
    headers = {"HTTPHeaders": {"date": "Thu, 26 Nov 2026 12:30:00 GMT"}}
    answer = told(instance("i-1"), instance("i-2", "terminated", StateTransitionReason=""))
    api.add_response("describe_instances", {**answer, "ResponseMetadata": headers})
    seen = ec2.seen(["i-1", "i-2"])
    assert [seen[id_].seconds for id_ in ("i-1", "i-2")] == [1801, 1801]


def test_where_nobody_says_when_all_of_a_life_is_paid(ec2: Ec2, api: Stubber) -> None:
    late = instance("i-2", StateTransitionReason="User initiated (2026-11-26 12:10:30 GMT)")
    del late["LaunchTime"]
    api.add_response("describe_instances", told(instance("i-1", "terminated"), late))
    assert {status.seconds for status in ec2.seen(["i-1", "i-2"]).values()} == {math.inf}


def test_a_console_that_is_not_live_is_read_as_it_was(ec2: Ec2, api: Stubber) -> None:
    api.add_client_error("get_console_output", "UnsupportedOperation")
    api.add_response("get_console_output", {"Output": "login:"}, {"InstanceId": "i-1"})
    assert ec2.console("i-1") == "login:"


def test_host_keys_are_those_that_were_printed_for_this_launch() -> None:
    key = "ssh-ed25519 " + "A" * 68
    console = f"boot\r\n[1.0] x {aws.MARKER} t0 {key}\r\n{aws.MARKER} t1 {key}B\r\n"
    assert aws.host_keys(console, "t0") == (key,)
    assert aws.host_keys(console + f"{aws.MARKER} t0 {key}", "t0") == (key,)
    assert aws.host_keys(console, "t") == ()
    assert aws.host_keys(f"{aws.MARKER} t0 ssh-ed25519 {'A' * 40}", "t0") == ()  # half of a key


def volume(size_gb: int, *, goes: bool = True) -> dict[str, Any]:
    attached = {"InstanceId": "i-1", "DeleteOnTermination": goes}
    return {"VolumeId": "vol-1", "Size": size_gb, "Attachments": [attached]}


@pytest.mark.parametrize(
    ("volumes", "why"),
    [
        ([volume(60), volume(40)], None),
        ([volume(60), volume(41)], "i-1 has volumes of 101 GB, and 100 were reckoned with"),
        ([volume(8, goes=False)], "vol-1 would stay when i-1 has ended"),
    ],
)
def test_volumes_are_those_that_were_reckoned_with(
    volumes: list[dict[str, Any]], why: str | None, ec2: Ec2, api: Stubber
) -> None:
    wanted = [{"Name": "attachment.instance-id", "Values": ["i-1"]}]
    api.add_response("describe_volumes", {"Volumes": volumes}, {"Filters": wanted})
    with nullcontext() if why is None else pytest.raises(ProbeFailed, match=why):
        ec2.check_volumes(["i-1"])


@pytest.mark.parametrize("date", ["", "soon", "Thu, 26 Nov 2026 12:30:00"])
def test_a_date_that_is_none_tells_no_time(date: str) -> None:
    assert answered_at(date) is None
