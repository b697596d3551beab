"""Policies allow what the code was recorded to ask AWS for, and nothing that it never asks.

Calls are recorded where botocore makes their parameters, so URLs that are only signed are, too.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from botocore import xform_name
from botocore.client import BaseClient
from botocore.session import Session
from moto import mock_aws

from profilers.clusters.fleet import Launch, Volume
from profilers.prices.offers import observe_prices
from profilers.renting.access import HOME_TAG, close_accesses, open_access
from profilers.renting.aws import Ec2
from profilers.renting.book import Book
from tests.aws import DAY
from tests.deploy.test_reaper import DEPLOY, loaded, ours, rent
from tests.profilers.renting import served as standing_in
from tests.profilers.renting.cloud import REGION, Cloud
from tests.profilers.renting.test_aws import INTENT
from warehouse.home import CHECKOUT

cloud, served = standing_in.cloud, standing_in.served
UNRECORDED = {
    "logs:CreateLogGroup": "Lambda writes what the reaper prints",
    "logs:CreateLogStream": "the same",
    "logs:PutLogEvents": "the same",
}
"""Actions that policies allow although none of our calls needs them, and why."""
RENTING = (
    "profilers/renting/access.py",
    "profilers/renting/aws.py",
    "profilers/prices/aws.py",
    "profilers/prices/offers.py",
)
REAPER = ("deploy/reaper.py",)
_CLIENT = r"\b(boto3\.|create_)?client\(\"?[a-z]"
PLACES = ("assets", "fleet", "pipelines", "profilers", "studies", "warehouse", "deploy")
SERVICES = ("ec2", "pricing")
PROFILE = "stepcast-node"


class Calls(list[tuple[str, str, Mapping[str, Any]]]):
    """Service, operation and parameters of each call."""

    def actions(self) -> set[str]:
        """Return the rights that the calls need."""
        return {action for call in self for action in _needed(*call)}


def _needed(service: str, operation: str, parameters: Mapping[str, Any]) -> Iterator[str]:
    yield f"{service}:{operation}"
    if parameters.get("TagSpecifications"):
        yield "ec2:CreateTags"
    if parameters.get("IamInstanceProfile"):
        yield "iam:PassRole"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Return the calls of this test that are made from now on."""
    recorded = Calls()
    emit = vars(BaseClient)["_emit_api_params"]

    def record(self: BaseClient, api_params: Any, operation_model: Any, context: Any) -> Any:
        service = self.meta.service_model.signing_name
        recorded.append((service, operation_model.name, api_params))
        return emit(self, api_params, operation_model, context)

    monkeypatch.setattr(BaseClient, "_emit_api_params", record)
    return recorded


@cache
def template(name: str) -> Mapping[str, Any]:
    resources: Mapping[str, Any] = yaml.safe_load((DEPLOY / name).read_text())["Resources"]
    return resources


def statements(policy: str) -> list[dict[str, Any]]:
    """Return the statements of a policy of rights.yaml."""
    listed: list[dict[str, Any]] = template("rights.yaml")[policy]["Properties"]["PolicyDocument"][
        "Statement"
    ]
    return listed


def allowed(of: list[dict[str, Any]]) -> set[str]:
    """Return the actions that statements allow."""
    listed = (statement["Action"] for statement in of)
    return {action for some in listed for action in ([some] if isinstance(some, str) else some)}


def check(calls: Calls, rights: set[str], *modules: str) -> None:
    """Compare calls with rights, in both directions; modules mention no call that was not made."""
    assert calls.actions() - rights == set(), "AWS would refuse these"
    assert rights - calls.actions() - UNRECORDED.keys() == set(), "nobody needs these"
    made = {xform_name(operation) for _, operation, _ in calls}
    mentioned = {name for module in modules for name in names(CHECKOUT / module)}
    assert mentioned & operations() - made == set(), "this test does not make these calls"


def names(module: Path) -> Iterator[str]:
    """Yield the attributes and texts of a module."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@cache
def operations() -> frozenset[str]:
    """Return all that can be asked of the services that we use, as clients call it."""
    session = Session()
    models = [session.get_service_model(service) for service in SERVICES]
    return frozenset(xform_name(name) for model in models for name in model.operation_names)


def test_no_other_module_asks_aws() -> None:
    sources = {
        path.relative_to(CHECKOUT).as_posix(): path.read_text()
        for place in PLACES
        for path in (CHECKOUT / place).rglob("*.py")
    }
    asking = {name for name, text in sources.items() if re.search(_CLIENT, text)}
    assert asking == {*RENTING, *REAPER}


# What is recorded.


def launch(ec2: Ec2, token: str) -> None:
    """Rent two machines, ask all there is to ask about them, and end them."""
    ids = list(ec2.launch(INTENT.model_copy(update={"token": token}), "0" * 12))
    assert list(ec2.find(token)) == ids
    assert set(ec2.seen(ids)) == set(ec2.tagged("0" * 12)) == set(ids)
    ec2.console(ids[0])
    ec2.check_volumes(ids)
    ec2.terminate(ids)


def test_renting_needs_what_its_policy_allows(cloud: Cloud, tmp_path: Path, calls: Calls) -> None:
    host, port = cloud.moto
    iam = boto3.client("iam", region_name=REGION, endpoint_url=f"http://{host}:{port}")
    iam.create_instance_profile(InstanceProfileName=PROFILE)
    how = Launch(
        region=REGION,
        image="ami-12345678",
        subnets=dict(cloud.subnets()),
        ssh_from="203.0.113.7",
        volume=Volume(gb=8, device="/dev/sda1"),
    )
    calls.clear()  # what the stand-in asked of itself
    assert observe_prices(REGION, ("*",), 2.0, DAY).tables["price"].height
    ec2, book = Ec2(REGION), Book(tmp_path / "rented")
    ec2.how = open_access(ec2, book, how, "stepcast-0", "0" * 12, tmp_path)[0]
    launch(ec2, "t0")
    assert ec2.tagged_access("0" * 12) == {"stepcast-0"}
    assert close_accesses(ec2, book, ["stepcast-0"], print, 0.0) == ()
    check(calls, allowed(statements("Rent")), *RENTING)
    calls.clear()
    ec2.how = how.model_copy(update={"profile": PROFILE})
    launch(ec2, "t1")
    assert calls.actions() - allowed(statements("Rent")) == allowed(statements("Profile"))


def test_the_reaper_needs_what_its_role_allows(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGIONS", REGION)
    monkeypatch.setenv("MOST_HOURS", "24")
    (policy,) = template("aws.yaml")["ReaperRole"]["Properties"]["Policies"]
    with mock_aws():
        late = rent(REGION, ours(-20))
        calls.clear()
        assert loaded().handler() == {REGION: [late]}
        check(calls, allowed(policy["PolicyDocument"]["Statement"]), *REAPER)


# What policies are bound to.


def test_rights_are_bound_to_what_is_ours() -> None:
    bound = {
        "ec2:TerminateInstances": {"StringLike": {f"aws:ResourceTag/{HOME_TAG}": "*"}},
        "ec2:DeleteKeyPair": {"StringLike": {f"aws:ResourceTag/{HOME_TAG}": "*"}},
        "ec2:DeleteSecurityGroup": {"StringLike": {f"aws:ResourceTag/{HOME_TAG}": "*"}},
        "ec2:AuthorizeSecurityGroupIngress": {"StringLike": {f"aws:ResourceTag/{HOME_TAG}": "*"}},
        "ec2:ImportKeyPair": {"StringLike": {f"aws:RequestTag/{HOME_TAG}": "*"}},
        "ec2:CreateTags": {
            "StringEquals": {
                "ec2:CreateAction": ["RunInstances", "ImportKeyPair", "CreateSecurityGroup"]
            }
        },
        "iam:PassRole": {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
    }
    everything = [
        statement for policy in template("rights.yaml") for statement in statements(policy)
    ]
    for statement in everything:
        resources = str(statement["Resource"])
        for action in allowed([statement]):
            assert "*" not in action
            assert statement.get("Condition") == bound.get(action, statement.get("Condition"))
        if statement["Action"] == "ec2:RunInstances" and ":instance/" in resources:
            assert statement["Condition"] == {"StringLike": {f"aws:RequestTag/{HOME_TAG}": "*"}}
