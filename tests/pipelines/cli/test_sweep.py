"""`stepcast sweep` on processes and on a Ray cluster: the same files, also after a kill."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree

import pytest
from dagster import AssetKey

from forecasting.sweep import begin, folder_of, forecast_part, read_sweep
from pipelines import dagster_history
from tests.pipelines.ran import Stepcast
from warehouse.warehouse import Warehouse

TEMPLATE = """
  - dnn: small_cnn
    framework: pytorch
    strategy: all_reduce
    image_size: 32
    batch_size: {batch}
    worker: [emu.avx512.c15, emu.avx512.s15]
    link_mbps: 200
    workers: [2, 4, 8]"""
TEXT = "systems: [ideal_scaling]\nscenarios:" + "".join(
    TEMPLATE.format(batch=batch) for batch in (12, 24)
)


@pytest.fixture
def file(small_history: Path, home: Path) -> Path:
    """Return a sweep of two parts."""
    copytree(small_history, home, dirs_exist_ok=True)
    path = home / "small.yaml"
    path.write_text(TEXT)
    return path


def parts(home: Path) -> Mapping[str, bytes]:
    (folder,) = (path for path in (home / "sweeps").iterdir() if path.is_dir())
    return {path.name: path.read_bytes() for path in folder.glob("part-*.parquet")}


def started(file: Path, home: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "pipelines.cli.main", "sweep", str(file), "--workers", "1"]
    return subprocess.Popen(
        command, env=os.environ | {"STEPCAST_HOME": str(home)}, stderr=subprocess.DEVNULL
    )


def steps_of(home: Path) -> list[int]:
    """Return processes that work at a home and are no test."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"STEPCAST_HOME={home}".encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


def plain_loop(file: Path, home: Path) -> None:
    """Make the parts of a sweep one after the other in this process, without Dagster."""
    asked = read_sweep(file)
    folder = folder_of(asked, file, home)
    begin(folder, asked, Warehouse(home))
    for part in folder.parts:
        forecast_part(folder, part.number)


def test_a_sweep_that_was_killed_goes_on_and_has_what_a_plain_loop_has(
    file: Path, home: Path, tmp_path: Path, stepcast: Stepcast
) -> None:
    copytree(home, tmp_path / "other")
    killed = started(file, home)
    while not list(home.glob("sweeps/*/part-*.parquet")):
        assert killed.poll() is None
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    deadline = time.monotonic() + 20
    while steps_of(home):
        assert time.monotonic() < deadline, "a step outlives its command"
        time.sleep(0.05)
    for last in home.glob("sweeps/*/part-00001.parquet"):
        last.unlink()  # it was quicker than the kill; something has to be left to do
    answer = stepcast("sweep", str(file))
    assert answer.code == 0, answer.err
    assert "12 of 12 scenarios are forecast, in 12 rows" in answer.out
    assert re.search(r"small_cnn 32px +\d emu.avx512.[cs]15 +\d+ ", answer.out)
    (folder,) = home.glob("sweeps/small-????????")
    with dagster_history.instance(home) as instance:
        event = instance.get_latest_materialization_event(AssetKey(["sweeps", folder.name]))
    assert event is not None and event.asset_materialization is not None
    assert event.asset_materialization.metadata["dagster/row_count"].value == 12
    plain_loop(file, tmp_path / "other")
    assert len(parts(home)) == 2
    assert parts(home) == parts(tmp_path / "other")


def test_ray_wants_the_address_of_a_cluster(file: Path, stepcast: Stepcast) -> None:
    answer = stepcast("sweep", str(file), "--engine", "ray")
    assert answer.code == 2
    assert "give --ray-address http://HOST:8265" in answer.err


@contextmanager
def ray_cluster(folder: Path) -> Iterator[str]:
    """Yield the dashboard's address of a Ray cluster of two nodes on this machine."""
    programs = Path(sys.executable).parent
    environment = os.environ | {
        "RAY_USAGE_STATS_ENABLED": "0",
        "PATH": f"{programs}:{os.environ['PATH']}",
    }

    def ray(*words: str) -> None:
        subprocess.run([programs / "ray", *words], env=environment, check=True, timeout=120)

    head = "--head", "--port=6381", "--dashboard-port=8266", f"--temp-dir={folder}"
    try:
        ray("start", *head, "--num-cpus=1", "--disable-usage-stats")
        ray("start", "--address=127.0.0.1:6381", "--num-cpus=1")
        yield "http://127.0.0.1:8266"
    finally:
        ray("stop", "--force")


@pytest.mark.exhaustive
def test_two_nodes_of_ray_make_the_same_parts(file: Path, home: Path, stepcast: Stepcast) -> None:
    pytest.importorskip("ray")
    plain_loop(file, home)
    ours = parts(home)
    with ray_cluster(Path("/tmp/stepcast-ray")) as address:
        answer = stepcast("sweep", str(file), "--anew", "--engine", "ray", "--ray-address", address)
        assert answer.code == 0, answer.err
    assert len(ours) == 2
    assert parts(home) == ours
