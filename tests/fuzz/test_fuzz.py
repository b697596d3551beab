"""Mutated files end in a result or in BadInput: as many as a few seconds allow, always the same."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.exhaustive import exhaustive
from tests.fuzz.__main__ import run
from tests.fuzz.targets import TARGETS, Target

EVERY_PUSH = ("kineto", "study")
FAULTS = ("KeyError", "MemoryError", "Overdue", "Fatal Python error: Aborted")


def ran(temporary: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    alone = {name: "1" for name in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "MALLOC_ARENA_MAX")}
    environment = os.environ | alone | {"ARROW_DEFAULT_MEMORY_POOL": "system"}
    environment["TMPDIR"] = str(temporary)
    command = [sys.executable, "-m", *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=600, env=environment
    )


@pytest.mark.parametrize(
    "name", [*EVERY_PUSH, *exhaustive(*(name for name in TARGETS if name not in EVERY_PUSH))]
)
def test_mutated_files_are_read_or_refused(name: str, tmp_path: Path) -> None:
    quick = TARGETS[name].quick
    program = ran(tmp_path, "tests.fuzz", name, f"{quick}")
    assert program.returncode == 0, program.stdout + program.stderr[-3000:]
    accepted = int(program.stdout.split()[-1])
    assert accepted > quick / 50, "hardly any input is accepted: the mutations are too wild"


def test_faults_that_were_planted_are_found(tmp_path: Path) -> None:
    program = ran(tmp_path, __name__)
    assert program.returncode == 0, program.stderr
    assert [fault for fault in FAULTS if fault not in program.stderr] == []


def planted(path: Path) -> None:
    """Do what an input says that no reader may."""
    match path.read_text():
        case "KeyError":
            raise KeyError("b")
        case "MemoryError":
            bytearray(1 << 30)
        case "Overdue":
            while True:
                time.process_time()
        case "Fatal Python error: Aborted":
            os.abort()


def dies(fault: str) -> bool:
    """Tell whether a process dies that takes an input with a fault."""
    pid = os.fork()
    if not pid:
        faulty = Target("x", [b""], lambda _: fault.encode(), planted, cpu_s=0.2, memory_mb=256)
        sys.exit(run(faulty, "planted", 1, 0) and None)
    return os.waitpid(pid, 0)[1] != 0


if __name__ == "__main__":
    sys.exit(not all([dies(fault) for fault in FAULTS]))
