"""docs/ec2.md: its fleet files are read, its rights are those that are needed, its rules hold."""

import json
import re
from pathlib import Path

import pytest
import yaml

from profilers.clusters.fleet import Fleet
from profilers.clusters.ssh import PORTS
from profilers.renting.allowance import BOOT_HOURS, MARGIN
from profilers.renting.cap import BESIDE_S
from profilers.renting.renter import END_S
from warehouse.home import CHECKOUT

PAGE = (CHECKOUT / "docs/ec2.md").read_text()
_CALLS = re.compile(r"\b(?:client|_client|_launching|ec2)\.([a-z]+(?:_[a-z]+)+)\(")
_ASKED = re.compile(r'"((?:describe|get)_[a-z_]+)"')


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("text", blocks("yaml"))
def test_fleet_files_are_read(text: str) -> None:
    launch = Fleet.model_validate(yaml.safe_load(text)).launch()
    assert launch.region == "us-east-1"
    assert all(launch.places.values())


def test_the_rights_are_those_that_are_needed() -> None:
    """The operations that code calls, by the names that AWS gives to rights for them."""
    (policy,) = map(json.loads, blocks("json"))
    allowed = set()
    for statement in policy["Statement"]:
        actions = statement["Action"]
        allowed |= {actions} if isinstance(actions, str) else set(actions)
    source = "".join(
        Path(CHECKOUT / "profilers" / name).read_text()
        for name in ("renting/aws.py", "prices/observe.py")
    )
    called = {*_CALLS.findall(source), *_ASKED.findall(source)}
    needed = {f"{_service(one)}:{_camel(one)}" for one in called if _is_operation(one)}
    assert needed | {"ec2:CreateTags"} == allowed


def test_what_may_end_or_launch_is_bound_to_our_tags() -> None:
    (policy,) = map(json.loads, blocks("json"))
    for statement in policy["Statement"]:
        if "ec2:TerminateInstances" in statement["Action"]:
            assert statement["Condition"] == {"StringLike": {"aws:ResourceTag/stepcast:home": "*"}}
        assert statement["Action"] != "*"


def test_figures_are_those_of_the_code() -> None:
    words = " ".join(PAGE.split())
    assert f"(hours until they shut themselves down + {BESIDE_S / 60:g} minutes)" in words
    assert f"asked again for {['', 'one', 'two', 'three'][int(END_S / 60)]} minutes" in words
    assert f"ports {PORTS.start:,} to {PORTS.stop - 1:,}" in words
    assert (MARGIN, BOOT_HOURS) == (3, 0.25)
    assert "three times as long as the probe is expected to take, and a quarter of an hour" in words


def _is_operation(name: str) -> bool:
    return name.split("_")[0] in ("run", "terminate", "describe", "get")


def _service(operation: str) -> str:
    return "pricing" if operation == "get_products" else "ec2"


def _camel(operation: str) -> str:
    return "".join(part.capitalize() for part in operation.split("_"))
