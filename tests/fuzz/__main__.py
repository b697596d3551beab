"""`python -m tests.fuzz TARGET [INPUTS] [FIRST]`: mutated files for a reader of foreign bytes.

Input number n of a target is always the same. It ends in a result or in a refusal. Anything else is
a finding: another exception, more processor time or memory than the target allows, a process that
dies. A finding ends the program; its number is the last that stands in the file `at` of the folder
that is printed first, and the input lies beside that.
"""

import faulthandler
import resource
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from random import Random
from types import FrameType

from tests.fuzz.targets import TARGETS, Target


class Overdue(BaseException):
    """An input took more processor time than it may."""


def _overdue(number: int, frame: FrameType | None) -> None:
    raise Overdue


def is_taken(target: Target, file: Path) -> bool:
    """Tell whether an input is accepted and not refused; all else is raised."""
    signal.setitimer(signal.ITIMER_PROF, target.cpu_s)
    try:
        target.take(file)
    except target.refusals:
        return False
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return True


def run(target: Target, name: str, inputs: int = 10_000, first: int = 0) -> int:
    """Give inputs to a target in this process, whose memory is limited; count the accepted."""
    folder = Path(tempfile.mkdtemp(prefix=f"stepcast-fuzz-{name}-"))
    print(folder, flush=True)  # noqa: T201
    file = folder / target.file_name
    faulthandler.enable()
    signal.signal(signal.SIGPROF, _overdue)
    # What is imported or cached at first use is not part of an input's memory.
    for seed in target.seeds:
        file.write_bytes(seed)
        target.take(file)
    status = Path("/proc/self/status").read_text()
    now_bytes = int(status.partition("VmData:")[2].split()[0]) * 1024
    most_bytes = now_bytes + target.memory_mb * 2**20
    resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, most_bytes))
    accepted = 0
    with (folder / "at").open("w") as at:
        for number in range(first, first + inputs):
            file.write_bytes(target.make(Random(f"{name} {number}")))
            print(number, file=at, flush=True)
            accepted += is_taken(target, file)
    shutil.rmtree(folder)
    return accepted


if __name__ == "__main__":
    _name, *_numbers = sys.argv[1:]
    print(run(TARGETS[_name], _name, *map(int, _numbers)), flush=True)  # noqa: T201
