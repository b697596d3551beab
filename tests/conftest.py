"""What tests share: a fresh home, and the rule that only what needs special hardware may skip."""

import gc
import json
import os
import shutil
import sys
from collections.abc import Callable, Generator, Iterator
from functools import cache
from os import environ, geteuid
from pathlib import Path
from typing import Any

import pytest
from absl.logging import get_absl_handler
from hypothesis import settings

from networks.kept_graphs import keep_in
from profilers.clusters import choose_backend
from profilers.steady import hostlock

pytest_plugins = ("tests.aws", "tests.homes", "tests.paper")

# A push meets the same examples each time; `make test-all` draws others, profile thorough many.
settings.register_profile("stepcast", deadline=None, max_examples=25, derandomize=True)
settings.register_profile("other", deadline=None, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=500)
settings.load_profile("stepcast")

# Frameworks and thousands of tests are no garbage; to look for it took a fifth of their collection.
gc.disable()

# TensorFlow would load Keras 3 as well, which takes a second in each process.
environ.setdefault("TF_USE_LEGACY_KERAS", "1")

# Processes of pytest-xdist are told a width of 80; tests expect that of a pipe unless they ask.
environ.pop("COLUMNS", None)

# TensorFlow's log handler keeps the stderr it was made with, and closes it when Dagster sets up
# logging; pytest's own must stay open.
get_absl_handler().python_handler.stream = sys.__stderr__

# Nothing is told of how fast something was, so processes of pytest-xdist wait for nobody.
hostlock.NAME += environ.get("PYTEST_XDIST_WORKER", "")

_MEMORY = Path("/dev/shm")
_MEMORY_BYTES = 6 * 2**30
"""A warehouse with its history takes 24 MB; what tests that pass have written is removed."""


def _is_roomy(folder: Path) -> bool:
    """Tell whether files can be written to a folder in memory, and run from there."""
    if not os.access(folder, os.W_OK):
        return False
    state = os.statvfs(folder)
    return state.f_bavail * state.f_frsize > _MEMORY_BYTES and not state.f_flag & os.ST_NOEXEC


# Warehouses and Dagster's history wait for the disk at every change, thousands of times in all.
if _is_roomy(_MEMORY):
    environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))


@cache
def _no_cluster() -> str | None:
    backend, why = choose_backend("auto")
    return None if backend == "emulated" else why


def _no_sshd() -> str | None:
    if geteuid() != 0:
        return "a test's sshd needs root"
    sshd = shutil.which("sshd", path="/usr/sbin:/usr/bin")
    return None if sshd else "no sshd here: apt-get install openssh-server"


def _no_services() -> str | None:
    from tests.pipelines.proxy import NGINX
    from tests.postgres import programs

    missing = {"postgresql": programs(), "nginx-light": NGINX, "openssl": shutil.which("openssl")}
    packages = " ".join(package for package, program in missing.items() if program is None)
    return f"no server here: apt-get install {packages}" if packages else None


def _no_browser() -> str | None:
    return None if shutil.which("chromium") else "no browser here: apt-get install chromium"


def _no_gpu() -> str | None:
    return None if list(Path("/dev").glob("nvidia[0-9]*")) else "no NVIDIA GPU here"


def _no_aws() -> str | None:
    named = environ.get("STEPCAST_AWS_FLEET")
    if not named:
        return "STEPCAST_AWS_FLEET is not set: it names the fleet file of an account"
    if not Path(named).is_file():
        return f"STEPCAST_AWS_FLEET names no file: {named}"
    from botocore.session import Session

    return None if Session().get_credentials() else "there are no credentials of AWS"


OBSTACLES: dict[str, Callable[[], str | None]] = {
    "browser": _no_browser,
    "cluster": _no_cluster,
    "services": _no_services,
    "sshd": _no_sshd,
    "gpu": _no_gpu,
    "aws": _no_aws,
}
"""Markers whose tests may skip, with what says why they cannot run here (None: they can)."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require",
        action="append",
        default=[],
        choices=sorted(OBSTACLES),
        help="stop, instead of skipping, where tests with this marker cannot run",
    )


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("measuring") and "tests/profilers/" not in item.nodeid:
            raise pytest.UsageError(f"{item.nodeid}: `make test` seeks it below tests/profilers")
        for marker, obstacle in OBSTACLES.items():
            if item.get_closest_marker(marker) is None or (why := obstacle()) is None:
                continue
            if marker in config.getoption("--require"):
                raise pytest.UsageError(f"--require {marker}: {item.nodeid} cannot run here: {why}")
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    may_skip = any(item.get_closest_marker(marker) for marker in OBSTACLES)
    if report.skipped and not may_skip and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, but only tests marked {', '.join(OBSTACLES)} may skip"
    return report


@pytest.fixture(autouse=True)
def _no_kept_graphs() -> Iterator[None]:
    """Let no test read graphs that another kept: some make them up."""
    yield
    keep_in(None)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a fresh, empty STEPCAST_HOME."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("STEPCAST_HOME", str(folder))
    return folder


@pytest.fixture
def notices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[dict[str, Any]]]:
    """Return what reads all notices so far that the command of a fleet file was given."""
    told = tmp_path / "told"
    told.touch()
    (tmp_path / "fleet.yaml").write_text(f"on_change: [tee, -a, {told}]")
    monkeypatch.setenv("STEPCAST_FLEET", str(tmp_path / "fleet.yaml"))
    return lambda: [json.loads(line) for line in told.read_text().splitlines()]
