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


def blocks(page: str) -> Iterator[tuple[str, str, str]]:
    """Yield the file, kind and text of each block of a page that is about a file."""
    names = [(match.end(), match["name"]) for match in _FILE.finditer(page)]
    for block in _BLOCK.finditer(page):
        before = [name for end, name in names if end < block.start()]
        if before:
            yield before[-1], block["kind"], block["text"]


def with_lines(text: str, change: str) -> str:
    """Return a file in which the lines of a diff that begin with + follow the one before them."""
    lines, (first, *rest) = text.splitlines(), change.splitlines()
    assert first.startswith(" ")
    place = lines.index(first[1:])
    for line in rest:
        if line.startswith("+"):
            lines.insert(place + 1, line[1:])
        else:
            assert lines[place + 1] == line[1:], line
        place += 1
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project to which the page's files and lines have been added."""
    copy = tmp_path_factory.mktemp("extended")
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
    return copy


@pytest.fixture(scope="module")
def stepcast(extended: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Return what runs the command line of the copy in a home of its own."""
    home = tmp_path_factory.mktemp("home")

    def run(*arguments: str, module: str = "pipelines.cli.main") -> str:
        ran = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=extended,
            env={
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME": str(home),
                "STEPCAST_HOME": str(home),
                "STEPCAST_STUDIES": str(extended / "toy.yaml"),
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    return run


def test_the_page_adds_a_probe_a_system_and_a_format() -> None:
    shown = {(name, kind) for name, kind, _ in blocks(PAGE.read_text())}
    assert {name for name, kind in shown if kind == "python"} == {
        "profilers/memory_copy/probe.py",
        "models/read_once.py",
        "profilers/readers/ping.py",
    }
    assert {name for name, kind in shown if kind == "diff"} == {
        "profilers/probes.py",
        "models/systems.py",
        "profilers/readers/formats.py",
    }


@pytest.mark.exhaustive
def test_lineage_shows_what_was_added(stepcast: Callable[..., str], extended: Path) -> None:
    (extended / "lineage.py").write_text(
        "from pipelines.lineage import study_files, all_definitions\n"
        "from pipelines.execution import resources\n"
        "for spec in all_definitions(resources(), *study_files()).resolve_all_asset_specs():\n"
        "    print(spec.key.to_user_string(), *(d.asset_key.to_user_string() for d in spec.deps))\n"
    )
    lines = [line.split() for line in stepcast(module="lineage").splitlines()]
    assets = {key: deps for key, *deps in lines if key.startswith("toy/")}
    assert assets == {
        "toy/profiles/memory_copy": [],
        "toy/fits/read_once": ["toy/profiles/memory_copy"],
        "toy/predictions/read_once": ["toy/fits/read_once"],
        "toy/measured/torch_throughput": ["toy/predictions/read_once"],
        "toy/accuracy/table": ["toy/measured/torch_throughput"],
        "toy/accuracy/report": ["toy/accuracy/table"],
    }


def test_the_added_format_is_read(stepcast: Callable[..., str], tmp_path: Path) -> None:
    file = tmp_path / "replies.txt"
    file.write_text(PINGED)
    assert "left out: 1 lines that are no replies" in stepcast(
        "import", "ping", str(file), "--source", "us"
    )
    printed = stepcast(
        "sql",
        "SELECT value FROM raw.sample WHERE metric = 'round_trip_s' ORDER BY ALL",
        "--format",
        "json",
    )
    assert [row["value"] for row in json.loads(printed)] == [0.00025, 0.00075]


@pytest.mark.exhaustive
@pytest.mark.cluster
def test_the_added_system_is_judged_by_what_the_study_measures(
    stepcast: Callable[..., str],
) -> None:
    stepcast("run", "toy.yaml")
    printed = stepcast(
        "sql",
        "SELECT system, predicted, measured, split FROM report.accuracy WHERE study = 'toy'",
        "--format",
        "json",
    )
    (row,) = json.loads(printed)
    assert row["system"] == "read_once"
    assert 0 < row["predicted"] < row["measured"]
    workload = "--dnn small_cnn --framework pytorch --strategy all_reduce --image-size 32"
    more = "--batch-size 8 --worker emu.native.c25 --workers 1,2 --link-mbps 500"
    options = [*workload.split(), *more.split(), "--systems", "read_once", "--json"]
    answer = json.loads(stepcast("predict", *options))
    values = [forecast["value"] for forecast in answer["forecasts"]]
    assert values == pytest.approx([2 * row["predicted"]] * 2)
