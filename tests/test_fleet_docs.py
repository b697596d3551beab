"""Follows docs/fleet.md: its commands in their order, with probes that run nothing."""

import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fleet import schedule
from fleet.members import now
from profilers.clusters import Cluster, node_types
from profilers.probe import ProbeResult, RunContext, finished_run
from profilers.steady import host
from profilers.torch_compute import probe as torch_compute
from tests.fleet.paper_watch import PaperWatch
from tests.pipelines.ran import stepcast
from tests.synthetic import PaperProbes
from warehouse.home import CHECKOUT
from warehouse.records import Scenario
from warehouse.warehouse import read_only

PAGE = (CHECKOUT / "docs" / "fleet.md").read_text()
_BLOCK = re.compile(r"^```\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TYPES = ["emu.sse41.s15", "emu.avx2.s15", "emu.avx512.s15", "emu.native.s15"]


def section(title: str) -> str:
    """Return the part of the page under a heading."""
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def commands(text: str) -> list[tuple[str, ...]]:
    """Return the commands of blocks, without `stepcast`."""
    lines = "".join(_BLOCK.findall(text)).splitlines()
    all_words = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines]
    return [tuple(words[1:]) for words in all_words if words[:1] == ["stepcast"]]


def passes(
    cluster: Cluster, scenario: Scenario, context: RunContext, **settings: Any
) -> ProbeResult:
    """Return passes that all take as long: in the place of the probe."""
    started_at = datetime.now(UTC)
    size = max(settings["batch_sizes"])
    load = scenario.workload.model_copy(update={"batch_size": size})
    whole = scenario.model_copy(update={"workload": load})
    times = {"forward_s": 0.01, "backward_s": 0.02, "update_s": 0.001}
    rows = [
        {"batch_size": batch_size, "trial": trial, "rank": 0, **times}
        for batch_size in settings["batch_sizes"]
        for trial in range(3)
    ]
    run = finished_run("torch_compute", cluster, whole, context, started_at, {})
    return ProbeResult(run, whole, {"compute": pl.DataFrame(rows)})


@pytest.fixture
def paper(probes: PaperProbes, home: Path, monkeypatch: pytest.MonkeyPatch) -> PaperProbes:
    """Put probes in place that run nothing, on a backend that every machine has."""
    monkeypatch.setattr(schedule, "chosen_backend", lambda wanted: ("loopback", "on paper"))
    monkeypatch.setattr(torch_compute, "profile", passes)
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")  # put back what opening the history sets
    any_type = {"instruction_sets": " ".join(node_types.ISA_ORDER)}
    monkeypatch.setattr(host, "hardware", lambda: any_type)
    PaperWatch(now=now()).install(monkeypatch)
    return probes


@pytest.mark.exhaustive
@pytest.mark.usefixtures("paper")
def test_four_node_types_every_night_for_at_most_an_hour(home: Path) -> None:
    followed = commands(section("Re-profile four node types every night for at most an hour"))
    assert [words[:2] for words in followed] == [
        *[("fleet", "add")] * 4,
        ("fleet", "list"),
        ("fleet", "run"),
        ("fleet", "status"),
        ("fleet", "resume"),
        ("ui",),
    ]
    *before, switch, _ = followed
    printed = {words: stepcast(*words) for words in before}
    assert {answer.code for answer in printed.values()} == {0}, printed
    added = [words for words in before if words[1] == "add"]
    assert [words[2] for words in added] == TYPES
    minutes = [float(words[words.index("--max-minutes") + 1]) for words in added]
    assert sum(minutes) <= 60
    assert printed[added[0]].out.splitlines()[0] in PAGE
    status = printed[("fleet", "status")].out
    header = next(line for line in status.splitlines() if "node_type" in line)
    assert header.split() == next(
        line.split() for line in PAGE.splitlines() if line.startswith("node_type")
    )
    assert all(re.search(rf"{node_type} .* done", status) for node_type in TYPES)
    assert "nothing is due" in stepcast("fleet", "run").out
    profiled = read_only(
        home, "SELECT DISTINCT study, probe FROM raw.run WHERE study LIKE 'fleet.%'"
    )
    assert profiled.height == 2 * len(TYPES)
    assert stepcast(*switch).code == 0


@pytest.mark.usefixtures("paper")
def test_a_node_type_of_ones_own(home: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (text,) = _BLOCK.findall(section("How do I add a node type of my own?"))
    (home / "node-types.yaml").write_text(text)
    assert "my.box" in stepcast("node-types").out
    assert stepcast("fleet", "add", "my.box").code == 0


def test_what_it_says_to_ask_can_be_asked(home: Path) -> None:
    assert stepcast("load").code == 0
    queries = commands(section("What happens when a node type changes?"))
    assert {words[1] for words in queries} == {"alarms", "judgements", "stale_runs", "stale_fits"}
    assert {stepcast(*words).code for words in queries} == {0}


def test_every_command_of_the_fleet_is_named() -> None:
    shown = stepcast("fleet", "--help").out
    named = re.findall(r"^ *[│ ] *(\w+)  ", shown, re.MULTILINE)
    assert {"add", "pause", "status"} <= {*named}
    assert [name for name in named if f"`{name}" not in PAGE and f"fleet {name}" not in PAGE] == []
