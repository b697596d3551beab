"""Renting from the command line: a cap, a question, a bill; on a made-up EC2 and on paper."""

import os
import re
import signal
import sys
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.cli import money
from profilers.clusters import ec2
from profilers.clusters.base import Node
from profilers.clusters.ec2 import Ec2Cluster
from profilers.clusters.fleet import VARIABLE
from profilers.clusters.ssh import _MachineInfo
from profilers.renting.book import Book, LaunchResult
from studies import measurement
from studies.price_collection import collect
from tests.aws import Aws
from tests.pipelines.ran import Stepcast
from tests.profilers.clusters.killed import made_by_a_killed_process
from tests.profilers.clusters.made_up import World
from tests.profilers.renting.intents import intent
from tests.synthetic import STUDY, PaperProbes, write_study
from warehouse.landing import landed_runs
from warehouse.records import StepcastError
from warehouse.warehouse import Warehouse

FLEET: dict[str, dict[str, Any]] = {
    "node_types": {"m5.large": {"threads": 1}},
    "ec2": {
        "region": "us-east-1",
        "image": "ami-1",
        "key_name": "lab",
        "subnets": {"us-east-1a": "subnet-1", "us-east-1b": "subnet-2"},
        "security_groups": ["sg-1"],
    },
}


@pytest.fixture
def world(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Let clusters rent in a made-up region, where nothing is ever said to an instance."""
    provider = World(distinct=True)

    def prepared(cluster: Ec2Cluster, node: Node) -> None:
        cluster._about[node.name] = _MachineInfo(host={}, software={})  # noqa: SLF001

    monkeypatch.setattr(ec2, "Ec2", lambda *_: provider)
    monkeypatch.setattr("profilers.renting.aws.Ec2", lambda _: provider)
    monkeypatch.setattr(Ec2Cluster, "_prepare", prepared)
    # Nothing is measured: whatever measures on this host need not be waited for.
    for module in (ec2, measurement):
        monkeypatch.setattr(module, "host_lock", lambda *_: nullcontext())
    file = tmp_path / "fleet.yaml"
    file.write_text(yaml.safe_dump(FLEET))
    monkeypatch.setenv(VARIABLE, str(file))
    return provider


@pytest.fixture
def study(tmp_path: Path, probes: PaperProbes) -> str:
    text = STUDY.replace("emu.native.c25", "m5.large").replace("emu.server", "m5.large")
    return str(write_study(tmp_path, text.replace("backend: loopback", "backend: ec2")))


@pytest.fixture
def priced(home: Path, aws: Aws) -> None:
    collect(Warehouse(home), ["us-east-1"], ["m5.large"])


def test_a_study_is_rented_for_within_its_cap_and_ends_with_its_bill(
    stepcast: Stepcast, world: World, study: str, priced: None, home: Path
) -> None:
    world.full = frozenset({"us-east-1a"})
    answer = stepcast("run", study, "--max-usd", "5", "--yes")
    assert answer.code == 0, answer.err
    assert "renting costs about $" in answer.err
    assert "at most $5" in answer.err
    assert " of $5] probe links" in answer.err
    assert world.alive == []
    (bill,) = Warehouse(home).query("bill").to_dicts()
    assert bill["living"] == 0
    assert 0 < bill["spent_usd"] <= 5
    assert f"rented for ${bill['spent_usd']:.2f} of $5" in answer.err
    refused = Warehouse(home).query("capacity")
    assert set(refused["zone"]) == {"us-east-1a"}
    assert refused.height == bill["refused"]
    measured = [run for run in landed_runs(home / "landing") if run.backend == "ec2"]
    for run in measured:
        hours = (run.ended_at - run.started_at).total_seconds() / 3600
        price = run.config["usd_per_hour"]
        assert isinstance(price, float)
        assert run.cost_usd == pytest.approx(price * hours)
    nodes = {round(float(str(run.config["usd_per_hour"])) / (0.096 + 8 / 730)) for run in measured}
    assert nodes <= {2, 3, 4}


def test_what_the_cap_does_not_allow_is_not_rented(
    stepcast: Stepcast, world: World, study: str, priced: None, home: Path
) -> None:
    answer = stepcast("run", study, "--max-usd", "0.01", "--yes")
    assert answer.code == 2
    assert "do not fit into --max-usd 0.01" in answer.err
    assert world.asked == []


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ((), "say with --max-usd what they may cost"),
        (("--max-usd", "0"), "expected US dollars above 0"),
        (("--max-usd", "5"), "--yes rents without a question"),
        (("--max-usd", "5", "--yes"), "`stepcast prices collect --type m5.large` asks AWS"),
    ],
)
def test_nothing_is_rented_without_cap_consent_and_price(
    options: tuple[str, ...],
    why: str,
    stepcast: Stepcast,
    world: World,
    study: str,
    home: Path,
    request: pytest.FixtureRequest,
) -> None:
    if "--yes" not in options:
        request.getfixturevalue("priced")
    answer = stepcast("run", study, *options)
    assert answer.code == 2
    assert why in answer.err.splitlines()[-1]
    assert world.asked == []


def test_a_cap_where_nothing_is_rented_is_refused(
    stepcast: Stepcast, study_file: Path, home: Path
) -> None:
    answer = stepcast("run", str(study_file), "--max-usd", "5")
    assert "backend loopback rents nothing" in answer.refusal


class _Terminal:
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("wants", [True, False])
def test_the_user_decides(wants: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", _Terminal())
    monkeypatch.setattr("typer.confirm", lambda *_, **__: wants)
    if wants:
        money.confirm_spending("about $1", yes=False)
        return
    with pytest.raises(StepcastError, match="nothing was rented"):
        money.confirm_spending("about $1", yes=False)


def test_reap_ends_what_a_dead_process_rented(stepcast: Stepcast, world: World, home: Path) -> None:
    dead = made_by_a_killed_process()
    launch = intent(owner=dead, usd_per_hour=0.1, at=datetime.now(UTC))
    Book().write(launch, LaunchResult(token="t0", ids=("i-7",), at=launch.at))
    world.states["i-7"] = world.states["i-8"] = world.states["i-9"] = "running"
    world.owners = {"i-8": dead, "i-9": "stepcast-1-1-0"}
    assert {"ended i-7", "ended i-8"} <= set(stepcast("reap").printed.splitlines())
    assert world.alive == ["i-9"]
    Warehouse(home).load()
    assert Warehouse(home).query("bill")["living"].to_list() == [0]


def test_reap_names_what_it_could_not_end(
    stepcast: Stepcast, world: World, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("profilers.renting.reaper.reap.__defaults__", (0.0,))
    dead = made_by_a_killed_process()
    Book()
    world.states["i-8"], world.owners, world.will_not_end = "running", {"i-8": dead}, True
    answer = stepcast("reap")
    assert answer.code == 1
    assert "could not be ended: i-8" in answer.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_closed_terminal_ends_as_ctrl_c_does(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), money.exit_on_signals():
        os.kill(os.getpid(), number)
        signal.sigtimedwait([], 5)
    assert signal.getsignal(number) == before


def test_a_signal_ends_what_a_study_has_rented(
    stepcast: Stepcast,
    world: World,
    study: str,
    priced: None,
    home: Path,
    probes: PaperProbes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hung_up(ids: object) -> None:
        os.kill(os.getpid(), signal.SIGHUP)

    monkeypatch.setattr(world, "check_volumes", hung_up)
    answer = stepcast("run", study, "--max-usd", "5", "--yes")
    assert answer.code == 130
    assert "--max-usd 5` resumes with what is missing" in answer.err
    assert re.search(r"^rented for \$", answer.err, re.M)
    assert world.states
    assert world.alive == []
    assert Warehouse(home).query("bill")["living"].to_list() == [0]
