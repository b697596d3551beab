"""The recipe of an image: its template, and what its script says that it does."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from warehouse.home import CHECKOUT

DEPLOY = CHECKOUT / "deploy"
SCRIPT = DEPLOY / "image.sh"
(FILTER,) = re.findall(r"grep -Ev '(.*?)' requirements.lock", SCRIPT.read_text())
"""What nodes do not need of the lock: Dagster and what is beside it."""
LOCKED = " ".join(
    line
    for line in (CHECKOUT / "requirements.lock").read_text().splitlines()
    if not re.match(FILTER, line)
)


def ran(path: str | None = None, **given: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, **given} | ({} if path is None else {"PATH": path})
    return subprocess.run(
        ["/bin/bash", str(SCRIPT)], env=environment, capture_output=True, text=True, check=False
    )


def test_the_template_has_the_script_and_room_for_what_it_installs() -> None:
    template = yaml.safe_load((DEPLOY / "image.yaml").read_text())
    data = template["Resources"]["Component"]["Properties"]["Data"]["Fn::Sub"]
    assert data[1]["Script"]["Fn::Base64"] == SCRIPT.read_text()
    assert f"grep -Ev '{FILTER}' requirements.lock" in (CHECKOUT / "docs/ec2.md").read_text()
    assert len(LOCKED) <= 4096, "CloudFormation takes no longer parameter"
    assert len(data[0]) + len(SCRIPT.read_text()) * 4 / 3 + len(LOCKED) < 16_000
    assert "base-oss-nvidia-driver-gpu" in template["Parameters"]["Base"]["Default"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"PACKAGES": ""}, "PACKAGES: say which Python packages: those of requirements.lock"),
        ({"PACKAGES": "a", "GPU": "yes"}, "image.sh: the base image has no NVIDIA driver; begin"),
    ],
)
def test_what_cannot_be_ends_before_anything_is_done(
    given: dict[str, str], why: str, tmp_path: Path
) -> None:
    completed = ran(str(tmp_path), **given)
    assert (completed.returncode, completed.stdout) == (1, "")
    assert why in completed.stderr
