"""The reaper that runs elsewhere, called here; EC2 is moto's."""

import importlib.util
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import boto3
import pytest
import yaml
from moto import mock_aws

DEPLOY = Path(__file__).parents[2] / "deploy"
REGION, OTHER = "us-east-1", "eu-west-1"
NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reaper", DEPLOY / "reaper.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def reaper(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    for name, value in {"REGIONS": f"{REGION}, {OTHER}", "MOST_HOURS": "24"}.items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        yield loaded()


def rent(region: str, tags: dict[str, str]) -> str:
    """Launch an instance with these tags; return its id."""
    client = boto3.client("ec2", region_name=region)
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    answer = client.run_instances(
        ImageId="ami-12345678",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": listed}] if listed else [],
    )
    return str(answer["Instances"][0]["InstanceId"])


def ours(minutes_left: float) -> dict[str, str]:
    """Return the tags of what a home rents that should end in so many minutes."""
    until = datetime.now(UTC) + timedelta(minutes=minutes_left)
    return {"stepcast:home": "0123456789ab", "stepcast:until": str(int(until.timestamp()))}


def state(region: str, id_: str) -> str:
    client = boto3.client("ec2", region_name=region)
    answer = client.describe_instances(InstanceIds=[id_])
    return str(answer["Reservations"][0]["Instances"][0]["State"]["Name"])


def test_only_ours_that_are_past_their_time_end(reaper: ModuleType) -> None:
    late = [rent(region, ours(-20)) for region in (REGION, OTHER)]
    kept = [
        rent(REGION, ours(60)),
        rent(REGION, ours(-5)),  # its own shutdown is under way
        rent(REGION, {"stepcast:until": "1"}),
        rent(REGION, {"stepcast:home": "0123456789ab", "stepcast:until": "soon"}),
        rent(REGION, {}),
    ]
    assert reaper.handler() == {REGION: [late[0]], OTHER: [late[1]]}
    assert {state(REGION, late[0]), state(OTHER, late[1])} <= {"shutting-down", "terminated"}
    assert {state(REGION, instance) for instance in kept} == {"running"}
    assert reaper.handler({}, object()) == {REGION: [], OTHER: []}


def test_one_that_cannot_be_ended_is_named_and_keeps_no_other(reaper: ModuleType) -> None:
    stuck = rent(REGION, ours(-60))
    boto3.client("ec2", region_name=REGION).modify_instance_attribute(
        InstanceId=stuck, DisableApiTermination={"Value": True}
    )
    late = [rent(REGION, ours(-60)), rent(OTHER, ours(-60))]
    with pytest.raises(RuntimeError, match=f"COULD NOT END {stuck}: .*OperationNotPermitted"):
        reaper.handler()
    assert "running" not in {state(REGION, late[0]), state(OTHER, late[1])}


def test_a_region_that_does_not_answer_keeps_no_other(
    reaper: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGIONS", f"no where,{OTHER}")
    late = rent(OTHER, ours(-60))
    with pytest.raises(RuntimeError, match="COULD NOT END no where: "):
        reaper.handler()
    assert state(OTHER, late) != "running"


@pytest.mark.parametrize(
    ("age_hours", "until", "is_late"),
    [
        (25, "99999999999", True),
        (23, "99999999999", False),
        (23, str(int(NOW.timestamp()) - 901), True),
        (23, str(int(NOW.timestamp()) - 899), False),
        (23, "", False),
        (23, "²", False),
        (25, None, True),
        (23, None, False),
    ],
)
def test_late_is_what_is_past_its_tag_or_too_old(
    age_hours: float, until: str | None, is_late: bool
) -> None:
    tags = [] if until is None else [{"Key": "stepcast:until", "Value": until}]
    instance = {"LaunchTime": NOW - timedelta(hours=age_hours), "Tags": tags}
    most, grace = timedelta(hours=24), timedelta(minutes=15)
    assert loaded().is_late(instance, NOW, most, grace) is is_late


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((DEPLOY / "aws.yaml").read_text())
    return content


def parts(of: object) -> Iterator[tuple[str, Any]]:
    """Yield every key and value of a template, however deep."""
    if isinstance(of, dict):
        for key, value in of.items():
            yield key, value
            yield from parts(value)
    elif isinstance(of, list):
        for item in of:
            yield from parts(item)


def test_the_template_has_the_reaper_word_for_word(template: dict[str, Any]) -> None:
    function = template["Resources"]["Reaper"]["Properties"]
    assert function["Code"]["ZipFile"] == (DEPLOY / "reaper.py").read_text()
    assert function["Handler"] == "index.handler"
    wanted = {"REGIONS", "MOST_HOURS", "GRACE_MINUTES"}
    assert function["Environment"]["Variables"].keys() == wanted


@pytest.mark.parametrize("name", ["aws.yaml", "image.yaml", "rights.yaml"])
def test_a_template_names_only_what_it_has(name: str) -> None:
    template = yaml.safe_load((DEPLOY / name).read_text())
    resources = template["Resources"]
    substitutions = [value for key, value in parts(template) if key == "Fn::Sub"]
    texts = [value[0] if isinstance(value, list) else value for value in substitutions]
    in_texts = {word for text in texts for word in re.findall(r"\$\{(\w+)\}", text)}
    given = {word for value in substitutions if isinstance(value, list) for word in value[1]}
    named = {value for key, value in parts(template) if key == "Ref"} | in_texts - given
    assert named <= resources.keys() | template["Parameters"].keys()
    assert {value[0] for key, value in parts(template) if key == "Fn::GetAtt"} <= resources.keys()
    assert template["Parameters"].keys() <= named


def test_the_reaper_may_end_ours_and_nothing_else(template: dict[str, Any]) -> None:
    (policy,) = template["Resources"]["ReaperRole"]["Properties"]["Policies"]
    statements = policy["PolicyDocument"]["Statement"]
    (ends,) = (
        statement for statement in statements if statement["Action"] == "ec2:TerminateInstances"
    )
    assert ends["Condition"] == {"Null": {"aws:ResourceTag/stepcast:home": "false"}}
    actions = {
        action for part in statements for action in [part["Action"]] if isinstance(action, str)
    }
    assert actions == {"ec2:DescribeInstances", "ec2:TerminateInstances"}
    assert not any("*" in action for action in actions)
