"""CPU shares and memory limits by control groups, and ending the processes in them.

A group must be joined after a program has imported its framework: at a quarter of a core the
imports alone would take half a minute.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from warehouse.records import MissingTool, ProbeFailed, error_context

CPU_PERIOD_US = 10_000


def controllers() -> dict[str, tuple[int, Path]]:
    """Return {"cpu": (version, folder), "memory": …} for the controllers mounted here."""
    mounts: dict[str, tuple[int, Path]] = {}
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, folder, kind, options, *_ = line.split()
        names: set[str] = set()
        if kind == "cgroup":
            names = set(options.split(","))
        elif kind == "cgroup2":
            with suppress(OSError):
                names = set((Path(folder) / "cgroup.controllers").read_text().split())
        for name in names & {"cpu", "memory"}:
            mounts.setdefault(name, (1 if kind == "cgroup" else 2, Path(folder)))
    return mounts


def create(name: str, cpu_share: float | None, memory_bytes: int | None) -> None:
    """Create the groups called `name` that the limits need; None sets no limit.

    Raises:
        MissingTool: a controller is not mounted or may not be written.
    """
    limits: dict[str, dict[int, dict[str, str]]] = {}
    if cpu_share is not None:
        limits["cpu"] = _cpu_limit(cpu_share, 1.0)
    if memory_bytes is not None:
        size = str(memory_bytes)
        limits["memory"] = {1: {"memory.limit_in_bytes": size}, 2: {"memory.max": size}}
    mounted = controllers()
    for controller, files in limits.items():
        if controller not in mounted:
            raise MissingTool(f"no {controller} control group is mounted; see `stepcast doctor`")
        version, root = mounted[controller]
        failure = f"the {controller} control group at {root} may not be used; see `stepcast doctor`"
        with error_context(failure, OSError, kind=MissingTool):
            if version == 2:
                (root / "cgroup.subtree_control").write_text(f"+{controller}")
            (root / name).mkdir(exist_ok=True)
            for file, value in files[version].items():
                (root / name / file).write_text(value)


def stretch_quota(controller: tuple[int, Path], name: str, cpu_share: float, factor: float) -> None:
    """Let the group have the quota of its share in each so much longer period; nothing if it ended.

    The period, because a quota may not be shorter than a millisecond. `controller` is that of
    `controllers()["cpu"]`.
    """
    version, root = controller
    with suppress(FileNotFoundError):
        for file, value in _cpu_limit(cpu_share, factor)[version].items():
            (root / name / file).write_text(value)


def _cpu_limit(cpu_share: float, factor: float) -> dict[int, dict[str, str]]:
    """Return what to write into which file, by version of control groups."""
    quota, period = round(cpu_share * CPU_PERIOD_US), round(factor * CPU_PERIOD_US)
    return {
        1: {"cpu.cfs_period_us": str(period), "cpu.cfs_quota_us": str(quota)},
        2: {"cpu.max": f"{quota} {period}"},
    }


def join(name: str, pid: int) -> None:
    """Move a process and all its threads into the groups called `name`."""
    for folder in _folders(name):
        (folder / "cgroup.procs").write_text(str(pid))


def names(prefix: str) -> list[str]:
    """Names of all our groups that start with `prefix`."""
    roots = {root for _, root in controllers().values()}
    return sorted({path.name for root in roots for path in root.glob(f"{prefix}-*")})


def delete(name: str) -> None:
    """Kill the processes of the groups called `name` and remove them; safe to call twice.

    Raises:
        ProbeFailed: a group cannot be removed, such as one with processes of another container.
    """
    for folder in _folders(name):
        for _ in range(50):
            pids = [int(pid) for pid in (folder / "cgroup.procs").read_text().split()]
            end(pids, lambda pid: f"/{name}\n" in _read(f"/proc/{pid}/cgroup"))
            with suppress(OSError):
                folder.rmdir()
                break
            time.sleep(0.1)
        else:
            reason = "" if any(pids) else ": its processes are of another container"
            raise ProbeFailed(
                f"control group {folder} cannot be removed{reason}; try `rmdir {folder}`"
            )


def _read(path: str) -> str:
    with suppress(OSError):
        return Path(path).read_text()
    return ""


def _folders(name: str) -> Iterator[Path]:
    for root in sorted({root for _, root in controllers().values()}):
        if (root / name).is_dir():
            yield root / name


# Ending the processes of a namespace or a control group, and no others.


def end(pids: Iterable[int], belongs: Callable[[int], bool]) -> None:
    """Kill those of the processes that belong there.

    Kernels list processes of other containers as 0, which would name our own process group.
    `belongs` is asked while the process is held: a number may have become another process's.
    """
    for pid in pids:
        if pid <= 1 or pid == os.getpid():
            continue
        with suppress(ProcessLookupError):
            held = os.pidfd_open(pid)
            try:
                if belongs(pid):
                    signal.pidfd_send_signal(held, signal.SIGKILL)
            finally:
                os.close(held)
