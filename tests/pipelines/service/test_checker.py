"""New types of datasets are trained for in processes of their own, which end with the service."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pipelines.service.checker import Checker
from pipelines.service.contracts import Dataset, Workload
from tests.pipelines.ran import eventually
from warehouse.home import CHECKOUT
from warehouse.records import BadInput

SLEEPS = ["sh", "-c", "exec sleep 600"]
Make = Callable[..., Checker]


def fails(log: Path) -> list[str]:
    """Return a program that notes that it began, says why it fails, and fails."""
    echoes = 'echo "one line" >&2; echo "no images in $0" >&2'
    return ["sh", "-c", f'echo "$0" >> {log}; {echoes}; exit 3']


@pytest.fixture
def make(home: Path) -> Iterator[Make]:
    """Return what makes checkers, which are closed at the end."""
    made = []

    def checker(program: list[str], folder: Path | None = None) -> Checker:
        made.append(Checker(folder, 0.5, program))
        return made[-1]

    yield checker
    for instance in made:
        instance.close()


@eventually
def ended(checker: Checker, status: str) -> str:
    """Wait until training for `pairs` has a status; return what it told."""
    retraining = checker.retraining("pairs")
    assert retraining.status == status
    return retraining.told


def test_types_of_which_there_is_an_embedder_are_known(make: Make, home: Path) -> None:
    checker = make(SLEEPS)
    workloads = [
        Workload(dnn="vgg11", dataset=Dataset(type=name)) for name in ("ours", "pairs", "ours")
    ]
    assert checker.unknown(workloads) == ["ours", "pairs"]
    (home / "embedders").mkdir()
    (home / "embedders" / "ours.safetensors").touch()
    assert checker.unknown(workloads) == ["pairs"]
    assert checker.retraining("ours").status == "done"


def test_a_known_type_is_not_trained_for_again(make: Make, home: Path) -> None:
    """What was shipped would be replaced, and no other part of Stepcast would know."""
    checker = make(SLEEPS)
    assert checker.retrain("digits").status == "done"
    (home / "embedders").mkdir()
    (home / "embedders" / "ours.safetensors").touch()
    assert checker.retrain("ours").status == "done"
    assert checker.retrain("pairs").status == "running"


def test_training_runs_once(make: Make, tmp_path: Path) -> None:
    log = tmp_path / "begun"
    checker = make(["sh", "-c", f'echo "$0 $1" >> {log}; exec sleep 600'])
    for _ in range(3):
        assert checker.retrain("pairs", again=False).status == "running"

    @eventually
    def begun() -> None:
        assert log.exists() and log.read_text() == "pairs 0.5\n"

    begun()


def test_a_training_that_failed_says_why_and_is_begun_again_when_it_is_asked_for(
    make: Make, home: Path, tmp_path: Path
) -> None:
    """Even where there is an embedder by now."""
    log = tmp_path / "begun"
    checker = make(fails(log))
    checker.retrain("pairs", again=False)
    assert ended(checker, "failed") == "no images in pairs"
    with pytest.raises(BadInput, match=r"no images in pairs.*POST /v1/retraining/pairs"):
        checker.retrain("pairs", again=False)
    (home / "embedders").mkdir()
    (home / "embedders" / "pairs.safetensors").touch()
    assert checker.retraining("pairs").status == "failed"
    assert checker.retrain("pairs").dataset == "pairs"
    ended(checker, "failed")
    assert len(log.read_text().splitlines()) == 2


def test_images_are_looked_for_by_who_trains(make: Make, tmp_path: Path) -> None:
    (tmp_path / "cifar10.npz").touch()
    with pytest.raises(BadInput, match="no embedder for datasets of type 'cifar10'"):
        make(SLEEPS).retrain("cifar10")
    checker = make(["sh", "-c", 'echo "$2" >&2; exit 1'], tmp_path)
    with pytest.raises(BadInput, match=r"FOLDER that has birds\.npz"):
        checker.retrain("birds")
    checker.retrain("cifar10")

    @eventually
    def told() -> None:
        assert checker.retraining("cifar10").told == str(tmp_path)

    told()


def processes(marker: str) -> list[int]:
    """Return the processes whose command line has a word."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if marker.encode() in path.read_bytes().split(b"\0"):
                pids.append(int(path.parent.name))
    return pids


@pytest.mark.parametrize("is_killed", [True, False])
def test_training_does_not_outlive_the_service(home: Path, is_killed: bool) -> None:
    marker = f"training-of-{os.getpid()}-{is_killed}"
    code = f"""
import sys, threading
from pipelines.service.checker import Checker
checker = Checker(None, 1, [sys.executable, "-c", "import time; time.sleep(600)", "{marker}"])
asking = threading.Thread(target=checker.retrain, args=["pairs"])
asking.start(); asking.join()  # the thread that asked ends; training does not
print("begun", flush=True)
sys.stdin.read()
checker.close()
"""
    service = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "STEPCAST_HOME": str(home)},
    )
    assert service.stdout is not None and service.stdout.readline() == b"begun\n"

    @eventually
    def trains() -> None:
        assert processes(marker)

    trains()
    if is_killed:
        service.kill()
    service.communicate(timeout=60)

    @eventually
    def is_gone() -> None:
        assert not processes(marker)

    is_gone()
