"""A wheel works outside the checkout: from an empty folder, with a home of its own."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import pytest

from warehouse.home import CHECKOUT
from warehouse.warehouse import Warehouse


@dataclass(frozen=True)
class Installed:
    """The command line of an installed wheel, in an empty working directory."""

    program: Path
    folder: Path

    def __call__(self, *arguments: str, home: Path | None = None) -> str:
        """Return what it printed."""
        done = self.run(*arguments, home=home)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    def run(self, *arguments: str, home: Path | None = None) -> "subprocess.CompletedProcess[str]":
        """Run it with nothing of this checkout on its path."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        kept.pop("STEPCAST_HOME", None)
        return subprocess.run(
            [self.program, *arguments],
            env=kept if home is None else {**kept, "STEPCAST_HOME": str(home)},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=240,
        )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the packages, as nothing may be written to the checkout."""
    copy = tmp_path_factory.mktemp("source")
    for package in packages():
        if "." not in package:
            shutil.copytree(
                CHECKOUT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__")
            )
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(CHECKOUT / name, copy / name)
    built = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", built, copy)
    (file,) = built.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Install it where the packages that it needs are found, and this checkout is not."""
    place = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    pip("--python", python, "install", "--no-deps", "--no-index", wheel)
    (library,) = (place / "lib").glob("python3*/site-packages")
    (library / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return Installed(place / "bin" / "stepcast", tmp_path_factory.mktemp("elsewhere"))


def pip(*arguments: object) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-2000:]


def packages() -> list[str]:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    names: list[str] = project["tool"]["setuptools"]["packages"]
    return names


def test_every_file_that_packages_read_is_in_the_wheel(wheel: Path) -> None:
    tops = {package.partition(".")[0] for package in packages()}
    listed = subprocess.run(
        ["git", "ls-files", *sorted(tops)], cwd=CHECKOUT, capture_output=True, text=True, check=True
    ).stdout.split()
    with ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    # A link to a folder is packed as what it leads to.
    existing = [name for name in listed if (CHECKOUT / name).is_file()]
    assert not [name for name in existing if name not in packed]


def test_the_demo_is_planned_from_an_empty_folder(installed: Installed, tmp_path: Path) -> None:
    output = installed("plan", "--backend", "loopback", home=tmp_path / "home")
    assert "small_cnn 24px b8" in output and "judge and report" in output
    assert not list(installed.folder.iterdir()), "a home elsewhere leaves nothing here"


def test_the_home_is_in_the_working_directory(installed: Installed) -> None:
    done = installed.run("sql", "SELECT 1")
    assert done.returncode == 2
    assert f"no history in {installed.folder}/.stepcast yet" in done.stderr


def test_a_home_of_this_checkout_is_read_by_the_installed_one(
    installed: Installed, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    Warehouse(home).load()
    assert "p3.2xlarge" in installed("sql", "SELECT node_type FROM catalog.price", home=home)


def test_python_asks_what_commands_ask(installed: Installed, tmp_path: Path) -> None:
    asked = "import stepcast; print(stepcast.load('public/aws_on_demand').height)"
    asked += "; print(stepcast.sql('SELECT count(*) AS runs FROM raw.run')['runs'].item())"
    done = subprocess.run(
        [installed.program.parent / "python", "-c", asked],
        env={**os.environ, "STEPCAST_HOME": str(tmp_path / "home")},
        cwd=installed.folder,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert (done.stdout, done.returncode) == ("2\n2\n", 0), done.stderr
