"""SSM as botocore's own model of its API has it, and the script that it is given, in a shell."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from profilers.renting import ssm
from profilers.renting.ssm import Reach, Ssm, script
from tests.profilers.renting.objects import is_signed
from warehouse.records import ProbeFailed

REACH = Reach(
    region="us-east-1",
    instance="i-0123456789abcdef0",
    bucket="lab-stepcast",
    folder="stepcast/o",
    python="python3",
    life_s=60.0,
)
URLS = {"theirs": "http://127.0.0.1:1/in", "ours": "http://127.0.0.1:1/out"}
COMMAND = "0123456789ab-0123-0123-0123-0123456789ab"
STARTED = {"CommandId": COMMAND, "InstanceId": REACH.instance}


@pytest.fixture
def one(monkeypatch: pytest.MonkeyPatch) -> Ssm:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    made = Ssm("us-east-1")
    made.__dict__["_client"] = boto3.client("ssm", region_name="us-east-1")
    return made


@pytest.fixture
def api(one: Ssm) -> Iterator[Stubber]:
    with Stubber(one.__dict__["_client"]) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def invocation(status: str, stderr: str = "") -> dict[str, Any]:
    return {**STARTED, "Status": status, "StatusDetails": status, "StandardErrorContent": stderr}


def test_a_command_is_small_and_bound_in_time(one: Ssm, api: Stubber) -> None:
    lines = script(REACH, "t0", URLS).splitlines()
    expected = {
        "InstanceIds": [REACH.instance],
        "DocumentName": "AWS-RunShellScript",
        "TimeoutSeconds": 120,
        "Parameters": {"commands": lines, "executionTimeout": ["60"]},
    }
    api.add_response("send_command", {"Command": {"CommandId": COMMAND}}, expected)
    assert one.start(REACH, "t0", URLS) == COMMAND
    assert sum(map(len, lines)) < 32_768


@pytest.mark.parametrize("status", ["Pending", "InProgress", "Delayed", "Success"])
def test_a_command_that_is_under_way_is_fine(status: str, one: Ssm, api: Stubber) -> None:
    api.add_response("get_command_invocation", invocation(status), STARTED)
    one.check_started(REACH, COMMAND)


def test_a_command_that_nobody_knows_yet_is_fine(one: Ssm, api: Stubber) -> None:
    api.add_client_error("get_command_invocation", "InvocationDoesNotExist")
    one.check_started(REACH, COMMAND)
    api.add_client_error("get_command_invocation", "InternalServerError", http_status_code=500)
    one.check_started(REACH, COMMAND)


def test_a_command_that_failed_says_why(one: Ssm, api: Stubber) -> None:
    api.add_response("get_command_invocation", invocation("Failed", "x\nno python3 here\n"))
    with pytest.raises(ProbeFailed, match="Failed: no python3 here"):
        one.check_started(REACH, COMMAND)
    api.add_response("get_command_invocation", invocation("TimedOut"))
    with pytest.raises(ProbeFailed, match="TimedOut: TimedOut"):
        one.check_started(REACH, COMMAND)


def test_an_instance_that_never_comes_up_says_what_it_lacks(one: Ssm, api: Stubber) -> None:
    lost = {"InstanceId": REACH.instance, "PingStatus": "ConnectionLost"}
    wanted = {"Filters": [{"Key": "InstanceIds", "Values": [REACH.instance]}]}
    answer = {"InstanceInformationList": [lost]}
    api.add_response("describe_instance_information", answer, wanted)
    with pytest.raises(ProbeFailed, match="cannot be reached by SSM after 0 s"):
        one.await_online(REACH.instance, within_s=0.0)


def test_what_cannot_be_cancelled_keeps_nobody(one: Ssm, api: Stubber) -> None:
    api.add_client_error("cancel_command", "InvalidCommandId")
    one.cancel(REACH, COMMAND)


def test_urls_are_signed_for_one_use_of_one_object(one: Ssm) -> None:
    urls = one.signed(REACH, "t0")
    host = "lab-stepcast.s3.amazonaws.com"
    of_node = urls.there["ours"]
    assert of_node.startswith(f"https://{host}/stepcast/o/t0/out?")
    assert is_signed("PUT", of_node, host)
    assert not is_signed("GET", of_node, host)
    assert not is_signed("PUT", of_node.replace("/t0/", "/t1/"), host)
    assert not is_signed("PUT", of_node.replace("Expires=3600", "Expires=9999"), host)
    assert {is_signed("DELETE", url, host) for url in urls.removal} == {True}
    assert is_signed("GET", urls.there["theirs"], host)


def test_a_script_that_is_delivered_twice_starts_one_errand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssm, "FOLDER", str(tmp_path / "lib"))
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\ncat "$3" >> ../orders\ntouch ../done\n')
    python.chmod(0o755)
    text = script(REACH.model_copy(update={"python": str(python)}), "t0", URLS)
    monkeypatch.delenv("HOME", raising=False)
    for _ in range(2):
        subprocess.run(["sh", "-c", f"{text}wait"], cwd="/", check=True, timeout=30)
    assert (tmp_path / "orders").read_text().count('"life_s": 60.0') == 1
    (own,) = (tmp_path / "lib").iterdir()
    assert os.stat(own).st_mode & 0o077 == 0
    assert {path.name for path in (own / "profilers/nodes").iterdir()} == {
        "errand.py",
        "mailbox.py",
    }


def test_a_script_finds_no_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssm, "FOLDER", str(tmp_path / "lib"))
    text = script(REACH.model_copy(update={"python": "/no/python"}), "t0", URLS)
    ran = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (127, "no /no/python here\n")
