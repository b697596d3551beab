"""docs/ec2.md, of SSM and of types in turn: its files are read, its figures are ours."""

import re
from pathlib import Path

import yaml

from profilers.clusters.ec2 import Boot
from profilers.clusters.fleet import Fleet
from profilers.renting import session, ssm
from profilers.renting.ssm import Reach
from tests.profilers.renting.test_cap import ONE
from warehouse.home import CHECKOUT

PAGE = (CHECKOUT / "docs/ec2.md").read_text()


def section(name: str) -> str:
    return PAGE.split(f"\n## {name}\n")[1].split("\n## ")[0]


def block(name: str, kind: str) -> str:
    (text,) = re.findall(rf"```{kind}\n(.*?)```", section(name), re.DOTALL)
    return str(text)


def test_the_page_says_what_the_code_does() -> None:
    words = " ".join(section("Without an open port").split())
    assert (ssm.SIGNED_S, session.RENEW_S) == (3600, 300.0)
    assert "for an hour, and renewed every five minutes" in words
    assert Reach.model_fields["silence_s"].default == 60.0
    assert "nothing was heard from here for a minute" in words
    assert f"`{ssm.FOLDER}`" in words
    assert f"`{ssm.PREFIX}/`" in words


def test_the_fleet_file_of_the_page_needs_no_key_and_is_reached_by_ssm(tmp_path: Path) -> None:
    fleet = Fleet.model_validate(yaml.safe_load(block("Without an open port", "yaml")))
    how = fleet.launch()
    assert (how.key_name, how.bucket, how.profile) == (None, "lab-stepcast", "stepcast-node")
    boot = Boot("i-1", ONE, tmp_path / "known", 1.0)
    reach = boot.reach(how.bucket or "", fleet.python)
    assert (reach.region, reach.instance, reach.life_s) == (ONE.region, "i-1", 3600 * ONE.hours)
    assert reach.folder.startswith(f"{ssm.PREFIX}/")


def test_types_follow_each_other_as_the_page_says() -> None:
    fleet = Fleet.model_validate(yaml.safe_load(block("What if no zone has a type?", "yaml")))
    assert fleet.launch().following("m5.large") == "m5a.large"
    assert fleet.launch().following("m5a.large") == "m6i.large"
