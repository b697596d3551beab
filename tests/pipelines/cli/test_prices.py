"""`stepcast prices`: what it prints, and its exit codes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profilers.clusters.fleet import VARIABLE
from profilers.clusters.node_types import node_types
from tests.aws import Aws
from tests.pipelines.ran import Ran, Stepcast
from warehouse.warehouse import Warehouse


def test_what_was_seen_is_told_and_shown(stepcast: Stepcast, home: Path, aws: Aws) -> None:
    answer = stepcast("prices", "collect", "--region", "us-east-1", "--type", "p3.*")
    summary, _, run = answer.printed.strip().partition("; run ")
    assert summary.startswith("us-east-1: 2 instance types; 2 on-demand prices, ")
    assert (home / "landing" / run / "price.parquet").exists()
    assert answer.err == "ask AWS for prices in us-east-1\n"
    shown = stepcast("prices", "show", "--type", "p3.2xlarge", "--format", "json")
    rows = json.loads(shown.out)
    on_demand = [row for row in rows if row["market"] == "on_demand"]
    assert [(row["usd_per_hour"], row["source"]) for row in on_demand] == [
        (3.06, "AWS Pricing GetProducts"),
        (3.06, "ceer, section II"),
    ]
    assert on_demand[1]["since"] == "2020"
    since = [row["since"] for row in rows]
    assert since == sorted(since, reverse=True), "the newest first"
    assert {row["zone"] for row in rows if row["market"] == "spot"} == {"us-east-1a", "us-east-1b"}


def test_offline_the_shipped_prices_say_their_year(stepcast: Stepcast, home: Path) -> None:
    answer = stepcast("prices", "show", "--type", "p3.8xlarge")
    rows = [line.split() for line in answer.printed.splitlines() if line.startswith("p3.8xlarge")]
    assert [row[1:3] for row in rows] == [["on_demand", "12.24"], ["spot", "3.68"]]
    assert all("2020" in row for row in rows)
    assert "None of them was observed" in answer.printed
    nothing = stepcast("prices", "show", "--type", "p3.8xlarge", "--as-of", "2019-12-31")
    assert "0 rows" in nothing.out
    unknown = stepcast("prices", "show", "--type", "p5.48xlarge")
    assert "no price of node type 'p5.48xlarge' is known; did you mean p" in unknown.refusal
    assert "node_prices.csv" in unknown.refusal
    assert "m5" not in unknown.refusal


def test_a_region_that_fails_is_told_after_the_others_landed(
    stepcast: Stepcast, home: Path, aws: Aws
) -> None:
    regions = [word for region in ("us-east-1", "eu-west-1") for word in ("--region", region)]
    answer = stepcast("prices", "collect", *regions, "--type", "p3.8xlarge")
    assert answer.code == 2
    assert answer.out.startswith("us-east-1: 1 instance type; ")
    last = answer.err.splitlines()[-1]
    assert last.startswith("stepcast: eu-west-1: eu-west-1 offers none of p3.8xlarge")
    assert Warehouse(home).visible("price").height == 1


def test_what_cannot_be_asked_is_one_line(
    stepcast: Stepcast, home: Path, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    answer = stepcast("prices", "collect", "--region", "us-east-1")
    assert answer.code == 2
    assert "\nstepcast: AWS EC2 in us-east-1: no credentials" in answer.err


Shown = Callable[..., Any]


def listed(stepcast: Shown, *options: str) -> dict[str, dict[str, Any]]:
    answer = stepcast("node-types", "--format", "json", *options)
    assert (answer.code, answer.err) == (0, "")
    return {row["node_type"]: row for row in json.loads(answer.out)}


def test_every_node_type_is_listed_in_eighty_columns(
    stepcast: Shown, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    answer = stepcast("node-types")
    lines = answer.out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    rows = [line.split() for line in lines]
    assert {row[0] for row in rows if row} >= set(node_types())
    assert ["p4de.24xlarge", *"8 A100 80GB NVSwitch 400 96 1152 - sheet".split()] in rows
    assert "stepcast load public" in answer.out
    types = listed(stepcast)
    assert types["emu.sse41.s15"]["usd_per_hour"] == 0.016
    assert types["emu.sse41.s15"]["evidence"] is types["c7i.large"]["evidence"] is None
    assert (types["c7i.large"]["cores"], types["p6-b200.48xlarge"]["evidence"]) == (2, "sheet")
    assert types["p5.48xlarge"]["gbit_per_s"] == 3200


def test_prices_and_public_measurements_are_those_of_the_history(
    stepcast: Shown, public_home: Path
) -> None:
    types = listed(stepcast, "--gpu", "H100")
    assert list(types) == ["gpu.h100", "p5.4xlarge", "p5.48xlarge"]
    assert [row["usd_per_hour"] for row in types.values()] == [None, 6.88, 55.04]
    assert {(row["evidence"], row["runs"]) for row in types.values()} == {("public", 2)}
    assert listed(stepcast, "--gpu", "L4")["g6.xlarge"]["evidence"] == "sheet"
    # Of a V100 with 32 GB others timed networks and no operators: forecasts rest on its sheet.
    assert listed(stepcast, "--gpu", "v100")["p3dn.24xlarge"]["evidence"] == "sheet"
    assert set(listed(stepcast, "--gpu", "a100")) == {
        *("gpu.a100", "gpu.a100-80gb", "p4d.24xlarge", "p4de.24xlarge")
    }


def test_own_runs_go_first(finished: Ran, stepcast: Shown) -> None:
    types = listed(stepcast)
    assert types["emu.native.c25"]["evidence"] == "runs"
    assert types["emu.native.c25"]["runs"] > 0


def test_a_gpu_without_a_data_sheet_is_found_too(stepcast: Shown, home: Path) -> None:
    (home / "node-types.yaml").write_text("lab.k80: {bandwidth_mbps: 1000, gpu: K80}")
    (k80,) = listed(stepcast, "--gpu", "k80").values()
    assert (k80["node_type"], k80["evidence"]) == ("lab.k80", None)
    assert list(listed(stepcast, "--gpu", "rtx 4090")) == ["gpu.rtx4090"]


def test_a_type_of_the_fleet_file_has_what_the_catalogue_says(
    stepcast: Shown, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text("node_types: {g4dn.xlarge: {threads: 2}, lab.xeon: {threads: 16}}")
    monkeypatch.setenv(VARIABLE, str(fleet))
    types = listed(stepcast)
    assert (types["g4dn.xlarge"]["gpu"], types["g4dn.xlarge"]["cores"]) == ("T4", 4)
    assert types["lab.xeon"]["cores"] == 16
