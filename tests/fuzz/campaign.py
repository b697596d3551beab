"""Runs the inputs of a target in child processes, and gathers what they find.

A child that dies, or stands still, is a finding too; another goes on behind that input.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz.child import PROJECT, Finding, make, read_at
from tests.fuzz.targets import named

_STRETCH = 50_000
"""Inputs to one child: what leaks or is cached is given back after them."""
_STILL_S = 60.0
"""A child that takes so long for one input by the clock, deaf to signals, is ended."""
_MOST_DEATHS = 20
"""Of children, after which a target is left alone."""
_FRAME = re.compile(r'File "(.+?)", line \d+ in (\S+)')
_ENVIRONMENT = {
    name: "1"
    for name in (
        "POLARS_MAX_THREADS",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "ARROW_IO_THREADS",
        "MALLOC_ARENA_MAX",
    )
} | {"ARROW_DEFAULT_MEMORY_POOL": "system", "PYTHONHASHSEED": "0", "CUDA_VISIBLE_DEVICES": ""}


@dataclass(frozen=True)
class Found:
    """A finding, the number of the first input that made it, and that input made smaller."""

    finding: Finding
    number: int
    content: bytes


@dataclass
class Report:
    """Figures of a target: times are summed over workers, memory is of the largest child."""

    target: str
    seed: int
    inputs: int = 0
    accepted: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    inputs_per_s: float = 0.0
    peak_mb: float = 0.0
    before_mb: float = 0.0
    slowest_ms: float = 0.0
    slowest_input: int = 0
    deaths: int = 0
    found: dict[tuple[str, str], Found] = field(default_factory=dict)

    def add(self, figures: dict[str, Any]) -> None:
        """Add the figures of a child."""
        self.inputs += figures["inputs"]
        self.accepted += figures["accepted"]
        self.seconds += figures["seconds"]
        self.cpu_s += figures["cpu_s"]
        self.inputs_per_s = self.inputs / self.seconds
        self.peak_mb = max(self.peak_mb, figures["peak_mb"])
        self.before_mb = max(self.before_mb, figures["before_mb"])
        if figures["slowest_ms"] > self.slowest_ms:
            self.slowest_ms = figures["slowest_ms"]
            self.slowest_input = figures["slowest_input"]

    def find(self, case: Found) -> None:
        """Add a finding, if none of its key came earlier."""
        known = self.found.get(case.finding.key)
        if known is None or case.number < known.number:
            self.found[case.finding.key] = case

    def to_dict(self) -> dict[str, object]:
        """Return figures and findings for JSON."""
        figures = {
            name: round(value, 1) if isinstance(value, float) else value
            for name, value in vars(self).items()
            if name != "found"
        }
        findings = [
            {
                "kind": case.finding.kind,
                "place": case.finding.place,
                "message": case.finding.message,
                "input": case.number,
                "bytes": len(case.content),
            }
            for case in self.found.values()
        ]
        return {**figures, "findings": findings}


def run(name: str, inputs: int, seed: int = 0, workers: int = 1, first: int = 0) -> Report:
    """Run inputs `first` to `first + inputs` of a target."""
    report = Report(name, seed)
    end = first + inputs
    stretches = [
        (start, min(start + _STRETCH, end))
        for start in range(first, end, min(_STRETCH, -(-inputs // workers)))
    ]
    with ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(lambda stretch: _stretch(report, *stretch), stretches):
            pass
    return report


def reproduce(name: str, seed: int, number: int) -> str:
    """Return the command that takes one input again."""
    return f"python -m tests.fuzz {name} --seed {seed} --input {number}"


@contextmanager
def memory_folder() -> Iterator[Path]:
    """Yield a folder in memory where there is one, to be removed afterwards."""
    shared = Path("/dev/shm")
    where = shared if os.access(shared, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="stepcast-fuzz-", dir=where))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _stretch(report: Report, first: int, end: int) -> None:
    while first < end and report.deaths < _MOST_DEATHS:
        with memory_folder() as folder:
            first = _child(report, first, end, folder)


def _child(report: Report, first: int, end: int, folder: Path) -> int:
    """Let a child take inputs; return the number of the next one."""
    command = [sys.executable, "-m", "tests.fuzz.child", report.target]
    arguments = [str(number) for number in (report.seed, first, end)]
    out, error = folder / "stdout", folder / "stderr"
    work = folder / "work"
    work.mkdir()
    environment = os.environ | _ENVIRONMENT | {"TMPDIR": str(folder)}
    started = time.monotonic()
    with out.open("wb") as stdout, error.open("wb") as stderr:
        child = subprocess.Popen(
            [*command, *arguments, str(work)],
            cwd=PROJECT,
            env=environment,
            stdout=stdout,
            stderr=stderr,
        )
        try:
            stood_still = _watch(child, work)
        except BaseException:
            child.kill()
            child.wait()
            raise
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    _gather(report, lines)
    at = read_at(work)
    if child.returncode == 0:
        return end
    trace = error.read_text(errors="replace")
    if at is None:
        raise RuntimeError(f"{report.target}: the fuzzer does not start: {trace[-2000:]}")
    report.deaths += 1
    what = "stood still" if stood_still else f"died ({_cause(child.returncode)})"
    finding = Finding(what, _place(trace), trace.strip().split("\n", 1)[0][:300], trace[-6000:])
    report.find(Found(finding, at, make(named(report.target), report.target, report.seed, at)))
    taken = at + 1 - first
    seconds = time.monotonic() - started
    report.inputs, report.seconds = report.inputs + taken, report.seconds + seconds
    return at + 1


def _gather(report: Report, lines: Sequence[dict[str, Any]]) -> None:
    for line in lines:
        if figures := line.pop("figures", None):
            report.add(figures)
            continue
        number, content = line.pop("input"), bytes.fromhex(line.pop("content"))
        report.find(Found(Finding(**line), number, content))


def _watch(child: "subprocess.Popen[bytes]", work: Path) -> bool:
    """Wait for a child; end it, and say so, if it stands still."""
    last, since = read_at(work), time.monotonic()
    while True:
        try:
            child.wait(timeout=1)
            return False
        except subprocess.TimeoutExpired:
            pass
        now = read_at(work)
        if now != last:
            last, since = now, time.monotonic()
        elif time.monotonic() - since > _STILL_S:
            child.send_signal(signal.SIGABRT)
            try:
                child.wait(timeout=10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            return True


def _cause(code: int) -> str:
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"exit {code}"


def _place(trace: str) -> str:
    """Return the innermost frame of the project in what faulthandler wrote."""
    for file, function in _FRAME.findall(trace):
        short = file.removeprefix(f"{PROJECT}{os.sep}")
        if short != file and not short.startswith((".venv", "tests")):
            return f"{short}:{function}"
    return "outside the project"
