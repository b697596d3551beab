"""`stepcast prices`: what it prints, and its exit codes."""

import json
from pathlib import Path

import pytest

from pipelines.cli.prices import app
from tests.aws import Aws
from tests.pipelines.ran import Stepcast
from warehouse.warehouse import Warehouse

COMMANDS = ["collect", "show"]


def test_there_is_a_command_for_everything() -> None:
    named = [
        registered_command.callback.__name__
        for registered_command in app.registered_commands
        if registered_command.callback
    ]
    assert sorted(named) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(stepcast: Stepcast, command: str) -> None:
    answer = stepcast("prices", command, "--help")
    assert answer.code == 0
    assert f"Example: stepcast prices {command}" in answer.out


def test_what_was_seen_is_told_and_shown(stepcast: Stepcast, home: Path, aws: Aws) -> None:
    answer = stepcast("prices", "collect", "--region", "us-east-1", "--type", "p3.*")
    assert answer.code == 0, answer.err
    said, _, run = answer.out.strip().partition("; run ")
    assert said.startswith("us-east-1: 2 instance types, 2 with GPUs; 2 on-demand prices, ")
    assert (home / "landing" / run / "price.parquet").exists()
    assert answer.err == "ask AWS for prices in us-east-1\n"
    shown = stepcast("prices", "show", "--type", "p3.2xlarge", "--format", "json")
    rows = json.loads(shown.out)
    on_demand = [row for row in rows if row["market"] == "on_demand"]
    assert [(one["usd_per_hour"], one["source"]) for one in on_demand] == [
        (3.06, "AWS Pricing GetProducts"),
        (3.06, "ceer, section II"),
    ]
    assert on_demand[1]["since"] == "2020"
    since = [row["since"] for row in rows]
    assert since == sorted(since, reverse=True), "the newest first"
    assert {row["zone"] for row in rows if row["market"] == "spot"} == {"us-east-1a", "us-east-1b"}


def test_offline_the_shipped_prices_say_their_year(stepcast: Stepcast, home: Path) -> None:
    answer = stepcast("prices", "show", "--type", "p3.8xlarge")
    assert answer.code == 0
    rows = [line.split() for line in answer.out.splitlines() if line.startswith("p3.8xlarge")]
    assert [row[1:3] for row in rows] == [["on_demand", "12.24"], ["spot", "3.68"]]
    assert all("2020" in row for row in rows)
    assert "None of them was observed" in answer.out
    (spot,) = json.loads(
        stepcast(
            *("prices", "show", "--type", "p3.8xlarge", "--market", "spot", "--format", "json")
        ).out
    )
    assert spot["usd_per_hour"] == 3.68
    nothing = stepcast("prices", "show", "--type", "p3.8xlarge", "--as-of", "2019-12-31")
    assert "0 rows" in nothing.out
    unknown = stepcast("prices", "show", "--type", "p5.48xlarge")
    assert (unknown.code, unknown.out) == (2, "")
    assert "no price of node type 'p5.48xlarge' is known; did you mean p" in unknown.err
    assert "node_prices.csv" in unknown.err
    assert "m5" not in unknown.err


def test_a_region_that_fails_is_told_after_the_others_landed(
    stepcast: Stepcast, home: Path, aws: Aws
) -> None:
    regions = [word for one in ("us-east-1", "eu-west-1") for word in ("--region", one)]
    answer = stepcast("prices", "collect", *regions, "--type", "p3.8xlarge")
    assert answer.code == 2
    assert answer.out.startswith("us-east-1: 1 instance type, ")
    last = answer.err.splitlines()[-1]
    assert last.startswith("stepcast: eu-west-1: eu-west-1 offers none of p3.8xlarge")
    assert Warehouse(home).visible("price").height == 1


def test_what_cannot_be_asked_is_one_line(
    stepcast: Stepcast, home: Path, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    answer = stepcast("prices", "collect", "--region", "us-east-1")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.splitlines()[-1].startswith("stepcast: AWS EC2 in us-east-1: no credentials")
