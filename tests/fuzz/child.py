"""Takes inputs one after the other, in a process whose memory is limited: `python -m` this module.

A line of JSON on stdout tells each finding, the last line the figures. The number of the input at
hand is in the file `at`, for whoever outlives this process.
"""

import faulthandler
import json
import os
import resource
import signal
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from types import FrameType

from tests.fuzz.targets import Target, named

PROJECT = Path(__file__).parents[2]
AT = "at"
_ROOMS = tuple(
    f"{PROJECT / room}{os.sep}"
    for room in ("assets", "models", "networks", "pipelines", "profilers", "warehouse")
)
_MINIMISING_S = 20.0
"""Processor time that making one finding smaller may take."""
_COUNTED = 8


class Overdue(BaseException):
    """An input took more processor time than it may."""


@dataclass(frozen=True)
class Finding:
    """What an input did that it may not: `place` is the innermost frame of the project."""

    kind: str
    place: str
    message: str
    trace: str

    @property
    def key(self) -> tuple[str, str]:
        """Findings of one key count as one."""
        return self.kind, self.place


@dataclass(frozen=True)
class Figures:
    """Figures of a stretch of inputs; times are of the processor, memory is resident."""

    inputs: int
    seconds: float
    cpu_s: float
    accepted: int
    peak_mb: float
    before_mb: float
    slowest_ms: float
    slowest_input: int


class Subject:
    """Takes inputs for a target, one at a time, in a folder of its own."""

    def __init__(self, target: Target, folder: Path) -> None:
        self._target = target
        self._file = folder / target.file_name
        self.accepted = False
        self.refusal = ""

    def take(self, content: bytes) -> Finding | None:
        """Return what is wrong with how an input was taken."""
        self._file.write_bytes(content)
        self.accepted = False
        try:
            signal.setitimer(signal.ITIMER_PROF, self._target.cpu_s)
            try:
                self._target.take(self._file)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        except self._target.refusals as error:
            self.refusal = f"{error}"
            return None
        except (Exception, Overdue) as error:
            return _finding(error)
        self.accepted = True
        return None


def make(target: Target, name: str, seed: int, number: int) -> bytes:
    """Return an input: name of the target, seed and number say all."""
    return target.make(Random(f"{name} {seed} {number}"))


def smaller(content: bytes, key: tuple[str, str], subject: Subject) -> bytes:
    """Leave out what a finding does not need, as far as time goes."""
    deadline = time.process_time() + _MINIMISING_S
    size = len(content) // 2
    while size:
        at = 0
        while at < len(content):
            if time.process_time() > deadline:
                return content
            shorter = content[:at] + content[at + size :]
            finding = subject.take(shorter)
            if finding is not None and finding.key == key:
                content = shorter
            else:
                at += size
        size //= 2
    return content


def _finding(error: BaseException) -> Finding:
    frames = traceback.extract_tb(error.__traceback__)
    place = next(
        (
            f"{_short(frame.filename)}:{frame.name}"
            for frame in reversed(frames)
            if _is_ours(frame.filename)
        ),
        "outside the project",
    )
    lines = traceback.format_exception(error, limit=-12)
    return Finding(type(error).__name__, place, f"{error!s:.300}", "".join(lines)[-6000:])


def _is_ours(file: str) -> bool:
    return file.startswith(_ROOMS)


def _short(file: str) -> str:
    return file.removeprefix(f"{PROJECT}{os.sep}")


def _overdue(number: int, frame: FrameType | None) -> None:
    raise Overdue


def _limit_memory(more_mb: int) -> None:
    """Let this process take so much more memory than it has now."""
    now_kb = _status("VmData")
    limit = now_kb * 1024 + more_mb * 2**20
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _status(key: str) -> int:
    """Return a figure of this process, kB."""
    return int(Path("/proc/self/status").read_text().partition(f"{key}:")[2].split()[0])


def _run(name: str, seed: int, first: int, end: int, folder: Path) -> None:
    target = named(name)
    subject = Subject(target, folder)
    faulthandler.enable()
    signal.signal(signal.SIGPROF, _overdue)
    # What is imported or cached at first use is not part of an input's memory.
    for content in target.seeds():
        finding = subject.take(content)
        if finding is not None or not subject.accepted:
            raise ValueError(f"a seed of {name} is not accepted: {finding or subject.refusal}")
    _limit_memory(target.memory_mb)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    before_mb = _status("VmHWM") / 1000
    keys = set[tuple[str, str]]()
    accepted, slowest_s, slowest_input = 0, 0.0, first
    at = os.open(folder / AT, os.O_RDWR | os.O_CREAT, 0o600)
    begun, begun_cpu = time.perf_counter(), time.process_time()
    for number in range(first, end):
        os.pwrite(at, number.to_bytes(_COUNTED), 0)
        content = make(target, name, seed, number)
        started = time.process_time()
        finding = subject.take(content)
        took_s = time.process_time() - started
        accepted += subject.accepted
        if took_s > slowest_s:
            slowest_s, slowest_input = took_s, number
        if finding is not None and finding.key not in keys:
            keys.add(finding.key)
            paused = time.perf_counter(), time.process_time()
            least = smaller(content, finding.key, subject)
            _tell({"input": number, "content": least.hex(), **asdict(finding)})
            begun += time.perf_counter() - paused[0]
            begun_cpu += time.process_time() - paused[1]
    figures = Figures(
        inputs=end - first,
        seconds=time.perf_counter() - begun,
        cpu_s=time.process_time() - begun_cpu,
        accepted=accepted,
        peak_mb=_status("VmHWM") / 1000,
        before_mb=before_mb,
        slowest_ms=slowest_s * 1000,
        slowest_input=slowest_input,
    )
    _tell({"figures": asdict(figures)})


def _tell(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def read_at(folder: Path) -> int | None:
    """Return the number of the input that a child took last; None: it never came to one."""
    try:
        return int.from_bytes((folder / AT).read_bytes())
    except FileNotFoundError:
        return None


if __name__ == "__main__":
    _name, *_numbers, _folder = sys.argv[1:]
    _seed, _first, _end = map(int, _numbers)
    _run(_name, _seed, _first, _end, Path(_folder))
    # Libraries' threads may fail to end within the memory left, which is no input's doing.
    os._exit(0)
