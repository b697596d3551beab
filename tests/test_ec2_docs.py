"""docs/ec2.md: followed on a stand-in for EC2, from its fleet file to its bill; its rules hold."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from profilers.clusters.fleet import VARIABLE, Fleet
from profilers.clusters.ssh import PORTS
from profilers.renting.cap import BESIDE_S, BOOT_HOURS, MARGIN
from profilers.renting.renter import END_S
from tests.pipelines.ran import Answer, stepcast
from tests.profilers.renting import instances as standing_in
from tests.profilers.renting import served as serving
from tests.profilers.renting.cloud import Cloud
from warehouse.home import CHECKOUT
from warehouse.landing import landed_runs
from warehouse.warehouse import Warehouse

PAGE = (CHECKOUT / "docs/ec2.md").read_text()
STUDY = "studies/demo_ec2.yaml"
SHORTER = (("traced_steps: 40", "traced_steps: 20"), ("window_s: 4", "window_s: 2"))
"""What of the study takes less time here, all else being as it is."""
cloud, served = serving.cloud, serving.served


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


COMMANDS = [shlex.split(line) for text in blocks("sh") for line in text.strip().splitlines()]


@pytest.fixture
def followed(
    cloud: Cloud, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cloud]:
    """A region, and a folder with the fleet file of the page."""
    text = (CHECKOUT / STUDY).read_text()
    for long, short in SHORTER:
        assert long in text
        text = text.replace(long, short)
    (tmp_path / "studies").mkdir()
    (tmp_path / STUDY).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    (tmp_path / "cloud").mkdir()
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")  # put back what commands set
    with standing_in.instances(tmp_path / "cloud", cloud) as (_, fleet):
        (tmp_path / "fleet.yaml").write_text(_page_fleet(cloud, yaml.safe_load(fleet.read_text())))
        yield cloud


def _page_fleet(cloud: Cloud, fleet: dict[str, Any]) -> str:
    """Return the page's fleet file, with the names that the stand-in has for the same things."""
    page = yaml.safe_load(blocks("yaml")[0])
    assert page["ec2"]["subnets"].keys() == fleet["ec2"]["subnets"].keys()
    page["ec2"] |= {name: fleet["ec2"][name] for name in ("image", "subnets", "ssh_from")}
    page |= {name: fleet[name] for name in ("python", "ssh", "interface")}
    return yaml.safe_dump(page)


@pytest.mark.exhaustive
@pytest.mark.sshd
@pytest.mark.cluster
def test_the_page_leads_from_prices_to_accuracy_and_bill(followed: Cloud, home: Path) -> None:
    followed.full = {("us-east-1a", "on_demand")}
    answers: dict[str, Answer] = {}
    for program, *words in COMMANDS:
        if program != "stepcast":
            continue
        if words[0] == "run":
            _check_nothing_is_rented_without_a_cap(followed, words)
        answer = stepcast(*words)
        assert answer.code == 0, answer.err
        answers[" ".join(words[:2])] = answer
    _check_accuracy(home)
    (bill,) = Warehouse(home).query("bill").to_dicts()
    assert (bill["living"], bill["open_usd"]) == (0, 0)
    assert 0 < bill["spent_usd"] < 1
    run = answers[f"run {STUDY}"]
    assert f"rented for ${bill['spent_usd']:.2f} of $1" in run.err
    assert f"  {bill['instances']} m5.large on demand in us-east-1b: " in run.err
    assert "us-east-1a" in answers["query capacity"].out
    assert answers["query run_costs"].out
    assert not followed.alive()


def _check_nothing_is_rented_without_a_cap(cloud: Cloud, words: list[str]) -> None:
    cap = words.index("--max-usd")
    answer = stepcast(*words[:cap], *words[cap + 2 :])
    assert (answer.code, answer.out) == (2, "")
    assert len(answer.err.strip().splitlines()) == 1
    assert "--max-usd" in answer.err
    assert "RunInstances" not in cloud.asked


def _check_accuracy(home: Path) -> None:
    """Each forecast was judged by what real training measured on instances, and has its cost."""
    rows = Warehouse(home).query("accuracy", study="demo_ec2", repeat=1)
    assert set(rows["backend"]) == {"ec2"}
    assert {(name, label[-3:]) for name, label in rows.select("system", "label").rows()} == {
        (name, f"W={workers}") for name in ("async_sgd", "linear") for workers in (1, 2)
    }
    assert (rows["measured"] > 0).all() and (rows["predicted"] > 0).all()
    runs = [run for run in landed_runs(home / "landing") if run.backend == "ec2"]
    assert {run.status for run in runs} == {"ok"}
    assert all(run.cost_usd for run in runs)


def test_the_demo_alone_finds_the_stand_in() -> None:
    (make,) = (words for words in COMMANDS if words[0] == "make")
    (module,) = (words for words in COMMANDS if words[0] == "python")
    stand_in = " ".join(module[:3])
    assert module[2] == standing_in.__name__
    assert f"{stand_in} .venv/bin/stepcast run {STUDY} --max-usd 1 --yes" in _made(make)
    assert stand_in not in _made(["make", "demo"])
    assert stand_in not in _made(["make", "demo", "STUDY=studies/demo.yaml", "RUN=--backend ec2"])


def _made(words: list[str]) -> str:
    """Return what `make` would run."""
    dry = [words[0], "--dry-run", *words[1:]]
    return subprocess.run(dry, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("text", blocks("yaml"))
def test_fleet_files_are_read(text: str) -> None:
    launch = Fleet.model_validate(yaml.safe_load(text)).launch()
    assert launch.region == "us-east-1"
    assert all(launch.places.values())


def test_types_follow_each_other_as_the_page_says() -> None:
    (text,) = (text for text in blocks("yaml") if "  instead:" in text)
    launch = Fleet.model_validate(yaml.safe_load(text)).launch()
    assert launch.following("m5.large") == "m5a.large"
    assert launch.following("m5a.large") == "m6i.large"


def test_figures_are_those_of_the_code() -> None:
    words = " ".join(PAGE.split())
    assert f"(hours until they shut themselves down + {BESIDE_S / 60:g} minutes)" in words
    assert f"asked again for {['', 'one', 'two', 'three'][int(END_S / 60)]} minutes" in words
    assert f"ports {PORTS.start:,} to {PORTS.stop - 1:,}" in words
    assert (MARGIN, BOOT_HOURS) == (3, 0.25)
    assert "three times as long as the probe is expected to take, and a quarter of an hour" in words
