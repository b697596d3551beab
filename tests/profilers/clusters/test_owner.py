"""Who owns what: by a random number of the home, and by locks that end with their process."""

import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from profilers.clusters import owner
from tests.profilers.clusters.killed import MAKE, made_by_a_killed_process
from warehouse.records import BadInput


def owned(home: Path, prefix: str) -> Path:
    """Return the folder of a prefix's owner."""
    return home / "run" / prefix.split("-")[2]


def test_homes_have_different_numbers_that_only_their_user_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = []
    for name in ("a", "b", "a"):
        monkeypatch.setenv("STEPCAST_HOME", str(tmp_path / name))
        tokens.append(owner.token())
    assert tokens[0] == tokens[2] != tokens[1]
    mode = (tmp_path / "a" / "run" / "token").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_what_a_living_process_made_is_no_orphan(home: Path) -> None:
    name = f"{owner.new_prefix()}-worker0"
    assert owner.is_living(name)
    assert not owner.is_orphan(name)


def test_a_process_that_ended_unasked_is_dead(home: Path) -> None:
    made = subprocess.Popen(
        [sys.executable, "-c", MAKE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert made.stdout is not None
    prefix = made.stdout.readline().strip()
    made.stdout.readline()
    made.kill()
    # It has ended, but nobody has asked how.
    os.waitid(os.P_PID, made.pid, os.WEXITED | os.WNOWAIT)
    assert owner.is_orphan(f"{prefix}-worker0")
    made.communicate()


@pytest.mark.cluster
def test_a_process_of_another_container_lives(home: Path) -> None:
    """Its id means nothing here: here it is that of nobody, or of another process."""
    made = subprocess.Popen(
        ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-c", MAKE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert made.stdout is not None
    name = f"{made.stdout.readline().strip()}-worker0"
    assert owner.is_living(name)
    assert not owner.is_orphan(name)
    made.kill()
    deadline = time.monotonic() + 10
    while owner.is_living(name) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert owner.is_orphan(name)
    made.communicate()


def test_what_other_homes_made_is_no_orphan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPCAST_HOME", str(tmp_path / "theirs"))
    name = f"{made_by_a_killed_process()}-worker0"
    monkeypatch.setenv("STEPCAST_HOME", str(tmp_path / "ours"))
    assert not owner.is_orphan(name)
    assert not owner.is_living(name)
    owner.token()
    assert not owner.is_orphan(name)


def test_a_copied_home_knows_nothing_of_the_owners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPCAST_HOME", str(tmp_path / "home"))
    name = f"{owner.new_prefix()}-worker0"
    shutil.copytree(tmp_path / "home", tmp_path / "copy")
    monkeypatch.setenv("STEPCAST_HOME", str(tmp_path / "copy"))
    assert not owner.is_orphan(name)
    owner.sweep()
    monkeypatch.setenv("STEPCAST_HOME", str(tmp_path / "home"))
    assert owner.is_living(name)


@pytest.mark.parametrize("name", ["docker-1-1-0-worker0", "stepcast-notes", "stepcast-1-1-0-run"])
def test_names_of_others_are_left_alone(home: Path, name: str) -> None:
    owner.token()
    assert not owner.is_orphan(name)


def test_files_of_a_killed_process_are_swept_and_it_stays_known(home: Path) -> None:
    prefix, own_folder = made_by_a_killed_process(), owner.folder()
    (own_folder / "job-2").mkdir()
    left = owned(home, prefix)
    assert owner.sweep() == [f"run/{left.name}/job-1"]
    assert owner.sweep() == []
    assert (own_folder / "job-2").is_dir()
    assert owner.is_orphan(f"{prefix}-worker0")


def test_a_process_that_ends_takes_its_folder_along(home: Path) -> None:
    made = subprocess.run(
        [sys.executable, "-c", MAKE], input="", capture_output=True, text=True, check=True
    )
    assert not owned(home, made.stdout.split()[0]).exists()


def test_a_forked_process_owns_what_it_makes(home: Path) -> None:
    before = owner.folder()
    program = """
import os, sys
from profilers.clusters import owner
from tests.profilers.clusters.killed import MAKE, made_by_a_killed_process
before = owner.folder()
if os.fork() == 0:
    print(owner.folder() != before, flush=True)
    os._exit(0)
os.wait()
print(before.is_dir())
"""
    completed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert completed.stdout.split() == ["True", "True"]
    assert before.is_dir()


def test_a_folder_that_is_not_ours_is_refused(home: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (home / "run").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match=r"run must be a folder, and no link"):
        owner.new_prefix()
    (home / "run").unlink()
    (home / "run").mkdir(mode=0o777)
    (home / "run").chmod(0o777)
    with pytest.raises(BadInput, match=r"others may enter .*chmod 700"):
        owner.new_prefix()


@pytest.mark.cluster
def test_a_folder_of_another_user_is_refused(home: Path) -> None:
    (home / "run").mkdir(mode=0o700)
    os.chown(home / "run", 12345, -1)
    with pytest.raises(BadInput, match="is user 12345's"):
        owner.new_prefix()


def test_a_damaged_number_is_told(home: Path) -> None:
    owner.token()
    (home / "run" / "token").write_text("x/../y")
    with pytest.raises(BadInput, match=r"12 hexadecimal digits, found 'x/\.\./y'"):
        owner.new_prefix()


def test_a_link_in_the_place_of_the_number_is_not_followed(home: Path, tmp_path: Path) -> None:
    owner.token()
    (home / "run" / "token").unlink()
    (home / "run" / "token").symlink_to(tmp_path / "target")
    with pytest.raises(BadInput, match="token"):
        owner.new_prefix()
    assert not (tmp_path / "target").exists()


LEFT_SOMETHING = """
from profilers.clusters import owner
print(owner.new_prefix(), flush=True)
owner.keep_lock()
"""


def test_who_left_something_and_ended_well_is_known_to_be_dead(home: Path) -> None:
    command = [sys.executable, "-c", LEFT_SOMETHING]
    prefix = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert owner.is_orphan(f"{prefix}-")
    assert not owner.is_living(f"{prefix}-")
