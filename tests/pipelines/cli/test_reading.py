"""Commands that only read: of a home that cannot be written, and beside a process that writes."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.ran import Ran, Stepcast, modules_after
from warehouse.connection import connect
from warehouse.home import CHECKOUT, HISTORY, MAIN
from warehouse.publication import versions

IN_ONE_PROCESS = """
import contextlib, io, json, sys
from pipelines.cli.main import main
for arguments in json.loads(sys.argv[1]):
    err = io.StringIO()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
            main(arguments)
    except SystemExit as ended:
        print(json.dumps([arguments, ended.code, err.getvalue()]))
"""
HOLDS = """
import sys, duckdb
held = duckdb.connect(sys.argv[1])
print("held", flush=True)
input()
"""
BOUND = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search,-fowner"]
"""Root as permissions bind it."""


def arguments_of(home: Path, study: Path, folder: Path) -> dict[str, list[str]]:
    """Return what each command that answers from the history is called with here."""
    run = next((home / "landing").glob("*links*"), home)
    return {
        "sql": ["SELECT count(*) FROM raw.run"],
        "query": ["runs"],
        "accuracy": ["--json"],
        "compare": ["round:paper/1", "round:paper/1"],
        "history": [run.name],
        "report": [str(study), "--to", str(folder / "report.html")],
        "predict": [
            *("--dnn", "small_cnn", "--image-size", "16", "--batch-size", "4", "--workers", "2"),
            *("--worker", "emu.native.c25", "--server", "emu.server", "--link-mbps", "200"),
            *("--systems", "linear", "--far-out", "--dry-run"),
        ],
        "warehouse check": [],
        "node-types": [],
        "prices show": [],
        "fleet list": [],
        "fleet status": [],
    }


def ended(home: Path, study: Path, folder: Path, *, bound: bool) -> dict[str, tuple[int, str]]:
    """Return the exit code and the lines on stderr of each command that reads."""
    by_command = arguments_of(home, study, folder)
    calls = [[*name.split(), *arguments] for name, arguments in by_command.items()]
    as_root = BOUND if bound and os.geteuid() == 0 else []
    done = subprocess.run(
        [*as_root, sys.executable, "-c", IN_ONE_PROCESS, json.dumps(calls)],
        cwd=CHECKOUT,
        env={**os.environ, "STEPCAST_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    for answer in answers:
        if answer[0][0] == "compare":
            # One round is all that has run: that the history says so is the answer.
            *err, last = answer[2].splitlines(keepends=True)
            assert last.endswith("; choose sides that share none\n")
            answer[1:] = [answer[1] - 2, "".join(err)]
    return {name: (code, err) for name, (_, code, err) in zip(by_command, answers, strict=True)}


@contextmanager
def written_by_another(main: Path) -> Iterator[int]:
    """Hold a warehouse in another process, as a load does; yield its number."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDS, main], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline()
        yield holder.pid
    finally:
        holder.communicate(b"\n")


def content(home: Path) -> dict[str, Any]:
    """Return every file and folder of a home with its time of change and, of files, the bytes.

    Without answers that it keeps: whoever asks first leaves one.
    """
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
        for path in [home, *home.rglob("*")]
        if "answers" not in path.parts
    }


@pytest.mark.exhaustive
def test_commands_that_read_answer_of_a_home_that_cannot_be_written(
    finished: Ran, tmp_path: Path
) -> None:
    for path in [finished.home, *finished.home.rglob("*")]:
        path.chmod(path.stat().st_mode & ~0o222)
    before = content(finished.home)
    answers = ended(finished.home, finished.study, tmp_path, bound=True)
    assert answers == dict.fromkeys(answers, (0, ""))
    assert content(finished.home) == before
    for path in [finished.home, *finished.home.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)


def test_commands_that_read_answer_beside_a_writer_and_say_how_old_that_is(
    finished: Ran, tmp_path: Path
) -> None:
    before = content(finished.home)
    with written_by_another(finished.home / MAIN) as pid:
        answers = ended(finished.home, finished.study, tmp_path, bound=False)
    assert {code for code, _ in answers.values()} == {0}
    quiet = {"warehouse check", "fleet list", "fleet status"}
    for name, (_, err) in answers.items():
        lines = err.splitlines()
        assert len(lines) == (name not in quiet), name
        assert all("this is the history of 20" in line for line in lines)
        assert all(f"old; process {pid} (" in line for line in lines)
    left = content(finished.home)
    del before[str(finished.home)], left[str(finished.home)]
    assert left == before


@pytest.fixture
def asked(finished: Ran, stepcast: Stepcast, monkeypatch: pytest.MonkeyPatch) -> Stepcast:
    """Return the command line on a home that this test may change."""
    monkeypatch.setenv("STEPCAST_HOME", str(finished.home))
    return stepcast


def test_what_has_landed_and_is_not_loaded_is_told(finished: Ran, asked: Stepcast) -> None:
    landing = finished.home / "landing"
    first = min(path for path in landing.iterdir() if path.is_dir())
    shutil.copytree(first, landing / f"{first.name}-again")
    (line,) = asked("accuracy", "--json").err.splitlines()
    assert line.endswith("old: 1 landed run is not in it yet; `stepcast load`")
    shutil.copytree(first, landing / f"{first.name}-more")
    assert "old: 2 landed runs are not in it yet" in asked("sql", "SELECT 1").err


def test_a_recommendation_and_a_forecast_are_given_where_none_can_be_written(
    finished: Ran, asked: Stepcast, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("warehouse.history.PATIENCE_S", 0.0)
    arguments = arguments_of(finished.home, finished.study, tmp_path)["predict"]
    forecast = [argument for argument in arguments if argument != "--dry-run"]
    with written_by_another(finished.home / MAIN) as pid:
        answer = asked("predict", *forecast)
    assert answer.code == 0, answer.err
    first = answer.err.splitlines()[0]
    assert first.startswith("the answer is not written to the ledger: ")
    assert f"is held by process {pid} (" in first


@pytest.mark.parametrize("place", [0.0, 0.3])
def test_a_damaged_history_is_one_line_and_is_published_again(
    finished: Ran, asked: Stepcast, place: float
) -> None:
    history = finished.home / HISTORY
    state, whole = history.stat(), history.read_bytes()
    start = int(place * len(whole))
    spoilt = bytes(byte ^ 0xFF for byte in whole[start : start + 4096])
    history.write_bytes(whole[:start] + spoilt + whole[start + 4096 :])
    os.utime(history, ns=(state.st_atime_ns, state.st_mtime_ns))
    answer = asked("accuracy")
    if answer.code:
        assert answer.refusal.startswith(f"stepcast: {history} is damaged (")
        assert answer.refusal.endswith("`stepcast load` publishes it again")
    assert asked("load").code == 0
    assert history.read_bytes() == (finished.home / MAIN).read_bytes()
    assert asked("accuracy").code == 0


def test_nothing_published_yet_says_whether_it_is_being_made(
    asked: Stepcast, finished: Ran
) -> None:
    (finished.home / HISTORY).unlink()
    for command in (["accuracy"], ["sql", "SELECT 1"], ["prices", "show"]):
        answer = asked(*command)
        assert answer.code == 2
        assert answer.err.splitlines() == [
            f"stepcast: nothing has been published in {finished.home} yet; `stepcast load` does "
            "that"
        ]
    with written_by_another(finished.home / MAIN) as pid:
        (line,) = asked("sql", "SELECT 1").err.splitlines()
    assert f"yet, and process {pid} (" in line
    assert line.endswith("is loading: wait until that has ended, then try again")


def test_a_history_of_an_earlier_schema_is_told(
    finished: Ran, asked: Stepcast, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(finished.home / HISTORY) as connection:
        newest = versions(connection)[1]
        connection.execute("DELETE FROM meta.migration WHERE version = ?", [newest])
    answer = asked("accuracy")
    assert answer.code == 2
    refusal = f"has schema version {newest - 1}, and this Stepcast reads {newest}; `stepcast load`"
    (line,) = answer.err.splitlines()
    assert refusal in line
    (line,) = asked(
        "predict", "no_such_package:build", "--batch-size", "8", "--workers", "2", "--worker",
        "emu.avx512.s15", "--link-mbps", "500", "--dry-run",
    ).err.splitlines()  # fmt: skip
    assert refusal in line, "before a model is traced"
    still = asked("sql", "SELECT count(*) FROM raw.run")
    assert still.code == 0
    assert refusal in still.err


def test_what_starts_nothing_imports_no_dagster(tmp_path: Path) -> None:
    loaded = modules_after(tmp_path, "plan studies/demo.yaml", "fleet status", "--help")
    assert "pipelines.cli.fleet" in loaded and "dagster" not in loaded
