"""A study on rented instances that is ended in the middle leaves nothing that costs or runs."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from profilers.clusters.fleet import VARIABLE
from profilers.renting.book import Book
from studies.price_collection import collect
from tests.leftovers import left_behind, programs
from tests.profilers.renting import served as standing_in
from tests.profilers.renting.cloud import REGION, Cloud
from tests.profilers.renting.instances import NODE_TYPE, Instances, instances
from warehouse.home import CHECKOUT
from warehouse.warehouse import Warehouse

pytestmark = [pytest.mark.sshd, pytest.mark.cluster]
cloud, served = standing_in.cloud, standing_in.served
STEPCAST = [sys.executable, "-m", "pipelines.cli.main"]
RUN = ["run", str(CHECKOUT / "studies/demo_ec2.yaml"), "--max-usd", "1", "--yes"]


@pytest.fixture
def rented(
    cloud: Cloud, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Instances]:
    with instances(tmp_path, cloud) as (stand_in, fleet):
        monkeypatch.setenv(VARIABLE, str(fleet))
        collect(Warehouse(home), [REGION], [NODE_TYPE])
        yield stand_in


def ended_while_it_measures(rented: Instances, number: signal.Signals) -> tuple[int, str]:
    """End a run by a signal once its instances are talked to; return its exit code and words."""
    with subprocess.Popen([*STEPCAST, *RUN], stderr=subprocess.PIPE, text=True) as run:
        while not [
            host for host in list(rented.alive.values()) if (host.folder / ".cache").exists()
        ]:
            assert run.poll() is None, run.communicate()[1]
            time.sleep(0.05)
        os.kill(run.pid, number)
        _, stderr = run.communicate(timeout=120)
    return run.returncode, stderr


def check_nothing_is_left(rented: Instances, cloud: Cloud, home: Path) -> None:
    assert not cloud.alive() and not rented.alive
    assert programs(f"{rented.hosts.folder}/i-") == []
    left = [name for name in left_behind() if not name.endswith("-switch")]
    assert left == [], "but for the stand-in's own"
    assert not Book().read().living and not Book().read().accesses
    assert cloud.direct.describe_key_pairs()["KeyPairs"] == []
    (bill,) = Warehouse(home).query("bill").to_dicts()
    assert (bill["living"], bill["open_usd"]) == (0, 0)
    assert bill["instances"] == 3
    assert 0 < bill["spent_usd"] < 0.1


@pytest.mark.exhaustive
def test_ctrl_c_ends_everything_and_says_what_it_cost(
    rented: Instances, cloud: Cloud, home: Path
) -> None:
    code, stderr = ended_while_it_measures(rented, signal.SIGINT)
    assert code == 130, stderr
    assert f"3 {NODE_TYPE} on demand in us-east-1a: " in stderr
    assert " ".join(stderr.split()).endswith("--max-usd 1` resumes with what is missing")
    check_nothing_is_left(rented, cloud, home)


def test_what_a_killed_run_left_is_ended_by_reap(
    rented: Instances, cloud: Cloud, home: Path
) -> None:
    code, _ = ended_while_it_measures(rented, signal.SIGKILL)
    assert code == -signal.SIGKILL
    left = {*rented.alive}
    assert len(left) == 3 and {*cloud.alive()} == left == {*Book().read().living}
    reaped = subprocess.run([*STEPCAST, "reap"], capture_output=True, text=True, check=True)
    assert {f"ended {id_}" for id_ in left} <= {*reaped.stdout.splitlines()}
    Warehouse(home).load()
    check_nothing_is_left(rented, cloud, home)
