"""`stepcast node-types`: every type with what it has, costs, and what was measured of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profilers.clusters.fleet import VARIABLE
from profilers.clusters.node_types import node_types
from tests.pipelines.cli.test_load import PUBLIC
from tests.pipelines.ran import Ran

Stepcast = Callable[..., Any]


def listed(stepcast: Stepcast, *options: str) -> dict[str, dict[str, Any]]:
    answer = stepcast("node-types", "--format", "json", *options)
    assert (answer.code, answer.err) == (0, "")
    return {row["node_type"]: row for row in json.loads(answer.out)}


def test_every_node_type_is_listed_in_eighty_columns(
    stepcast: Stepcast, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    answer = stepcast("node-types")
    lines = answer.out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    rows = [line.split() for line in lines]
    assert {row[0] for row in rows if row} >= set(node_types())
    assert ["p4de.24xlarge", *"8 A100 80GB NVSwitch 400 96 1152 - sheet".split()] in rows
    assert "stepcast load data/public" in answer.out
    types = listed(stepcast)
    assert types["emu.sse41.s15"]["usd_per_hour"] == 0.016
    assert types["emu.sse41.s15"]["evidence"] is types["c7i.large"]["evidence"] is None
    assert (types["c7i.large"]["cores"], types["p6-b200.48xlarge"]["evidence"]) == (2, "sheet")
    assert types["p5.48xlarge"]["gbit_per_s"] == 3200


def test_prices_and_public_measurements_are_those_of_the_history(
    stepcast: Stepcast, home: Path
) -> None:
    assert stepcast("load", str(PUBLIC)).code == 0
    types = listed(stepcast, "--gpu", "H100")
    assert list(types) == ["gpu.h100", "p5.4xlarge", "p5.48xlarge"]
    assert [row["usd_per_hour"] for row in types.values()] == [None, 6.88, 55.04]
    assert {(row["evidence"], row["runs"]) for row in types.values()} == {("public", 3)}
    assert {row["evidence"] for row in listed(stepcast, "--gpu", "l4").values()} == {"sheet"}
    # 40 and 80 GB are variants of one GPU; an A10G is another.
    assert set(listed(stepcast, "--gpu", "a100")) == {
        *("gpu.a100", "gpu.a100-80gb", "p4d.24xlarge", "p4de.24xlarge")
    }


def test_own_runs_go_first(finished: Ran, stepcast: Stepcast) -> None:
    types = listed(stepcast)
    assert types["emu.native.c25"]["evidence"] == "runs"
    assert types["emu.native.c25"]["runs"] > 0


def test_a_gpu_without_a_data_sheet_is_found_too(stepcast: Stepcast, home: Path) -> None:
    (home / "node-types.yaml").write_text("lab.k80: {bandwidth_mbps: 1000, gpu: K80}")
    (k80,) = listed(stepcast, "--gpu", "k80").values()
    assert (k80["node_type"], k80["evidence"]) == ("lab.k80", None)
    assert list(listed(stepcast, "--gpu", "RTX 4090")) == ["gpu.rtx4090"]


def test_a_gpu_that_no_type_has(stepcast: Stepcast) -> None:
    answer = stepcast("node-types", "--gpu", "k80")
    assert answer.code == 2
    assert "--gpu k80: no node type has it; there are a100, " in answer.err


def test_a_type_of_the_fleet_file_has_what_the_catalogue_says(
    stepcast: Stepcast, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text("node_types: {g4dn.xlarge: {threads: 2}, lab.xeon: {threads: 16}}")
    monkeypatch.setenv(VARIABLE, str(fleet))
    types = listed(stepcast)
    assert (types["g4dn.xlarge"]["gpu"], types["g4dn.xlarge"]["cores"]) == ("T4", 4)
    assert types["lab.xeon"]["cores"] == 16
