"""docs/extend.md, followed to the letter in a copy of the project."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.test_imports import ROOMS
from warehouse.home import CHECKOUT

PAGE = CHECKOUT / "docs" / "extend.md"
_BLOCK = re.compile(r"```(?P<kind>python|diff|yaml)\n(?P<text>.*?)```", re.DOTALL)
_FILE = re.compile(r"^`(?P<name>[\w./-]+\.(?:py|yaml))`", re.MULTILINE)
PINGED = """PING 10.0.0.2 (10.0.0.2) 56(84) bytes of data.
64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=0.250 ms
64 bytes from 10.0.0.2: icmp_seq=2 ttl=64 time=0.750 ms
"""
FITTED = """
import polars as pl
from models.systems import SYSTEMS
from studies.curve import Curve
from warehouse.requirements import Refusal

system = next(system for system in SYSTEMS if system.name == "read_once")
curve = Curve.model_validate(dict(
    dnn="small_cnn", framework="pytorch", strategy="all_reduce", image_size=32, batch_size=4,
    worker="emu.native.c25", link_mbps=500, workers=[1, 2],
))
one, two = curve.scenarios("emulated")
print(sorted(each.probe for each in system.requires(two)))
about = {"scenario_id": [one.scenario_id]}
fit = system.fit({
    "run": pl.DataFrame(about | {"run_id": ["a"], "status": ["ok"]}),
    "scenario": pl.DataFrame(about | {"canonical": [one.canonical_json()]}),
    "sample": pl.DataFrame({
        "run_id": ["a"], "metric": ["memory_copy_Bps"], "window": [0], "value": [4096.0]
    }),
})
print(fit.predict([two])["value"].to_list())
print(system.load(fit.parameters_json(), {}) == fit)
"""


def blocks(page: str) -> Iterator[tuple[str, str, str]]:
    """Yield the file, kind and text of each block of a page that is about a file."""
    names = [(match.end(), match["name"]) for match in _FILE.finditer(page)]
    for block in _BLOCK.finditer(page):
        before = [name for end, name in names if end < block.start()]
        if before:
            yield before[-1], block["kind"], block["text"]


def with_lines(text: str, change: str) -> str:
    """Return a file with a diff's change."""
    old, new = (
        "".join(f"{line[1:]}\n" for line in change.splitlines() if line[0] in (" ", sign))
        for sign in "-+"
    )
    assert text.count(old) == 1, change
    return text.replace(old, new)


@pytest.fixture(scope="module")
def stepcast(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Return what runs Python in a copy of the project that has the page's files and lines."""
    copy, home = tmp_path_factory.mktemp("extended"), tmp_path_factory.mktemp("home")
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    for room in ROOMS:
        shutil.copytree(CHECKOUT / room, copy / room, ignore=ignored)
    for name in ("pyproject.toml", "dagster.yaml"):
        shutil.copy(CHECKOUT / name, copy / name)
    for name, kind, text in blocks(PAGE.read_text()):
        file = copy / name
        if kind == "diff":
            file.write_text(with_lines(file.read_text(), text))
        else:
            assert not file.exists(), f"{name} is there already"
            file.parent.mkdir(exist_ok=True)
            (file.parent / "__init__.py").touch()
            file.write_text(text)

    def run(*words: str) -> str:
        ran = subprocess.run(
            [sys.executable, *words],
            cwd=copy,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(home)}
            | {"STEPCAST_HOME": str(home)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    return run


def test_a_system_of_forty_lines_is_fitted_and_forecasts(stepcast: Callable[..., str]) -> None:
    (system,) = (
        text for name, _, text in blocks(PAGE.read_text()) if name == "models/read_once.py"
    )
    assert len(list(filter(None, system.splitlines()))) <= 40
    # 4 images of 32 by 32 pixels of 12 bytes, at 4,096 bytes a second.
    assert stepcast("-c", FITTED).splitlines() == ["['memory_copy']", "[12.0]", "True"]


def test_the_added_format_is_read(stepcast: Callable[..., str], tmp_path: Path) -> None:
    file = tmp_path / "replies.txt"
    file.write_text(PINGED)
    command = ("-m", "pipelines.cli.main")
    imported = stepcast(*command, "import", "ping", str(file), "--source", "us")
    assert "left out: 1 lines that are no replies" in imported
    asked = "SELECT value FROM raw.sample WHERE metric = 'round_trip_s' ORDER BY ALL"
    printed = stepcast(*command, "sql", asked, "--format", "json")
    assert [row["value"] for row in json.loads(printed)] == [0.00025, 0.00075]


@pytest.mark.exhaustive
@pytest.mark.cluster
def test_the_added_system_is_judged_by_what_the_study_measures(
    stepcast: Callable[..., str],
) -> None:
    command = ("-m", "pipelines.cli.main")
    stepcast(*command, "run", "toy.yaml")
    asked = "SELECT system, predicted, measured FROM report.accuracy WHERE study = 'toy'"
    (row,) = json.loads(stepcast(*command, "sql", asked, "--format", "json"))
    assert row["system"] == "read_once"
    assert 0 < row["predicted"] < row["measured"]
