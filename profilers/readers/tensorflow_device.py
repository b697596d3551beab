"""Names of TensorFlow's devices: `/job:ps/replica:0/task:1/device:CPU:0`, `/gpu:0/stream:all`."""

import re
from functools import lru_cache

from warehouse.records import BadInput

_JOB = re.compile(r"job:(\w+)")
_TASK = re.compile(r"/task:(\d+)")
_LANE = re.compile(r"/stream:|/memcpy")
_MOST_TASK = 2**15 - 1


@lru_cache(maxsize=1024)
def job_and_task(device: str) -> tuple[str, int] | None:
    """Return job and task of a device; None: its name lacks one of them.

    Two searches: one pattern for both needs the third power of the name's length to find nothing.

    Raises:
        BadInput: the number of the task does not fit its column.
    """
    job = _JOB.search(device)
    task = _TASK.search(device, job.end()) if job else None
    if job is None or task is None:
        return None
    if len(task[1]) > 5 or int(task[1]) > _MOST_TASK:
        raise BadInput(f"device {device[:80]!r} is of a task beyond {_MOST_TASK}")
    return job[1], int(task[1])


@lru_cache(maxsize=1024)
def gpu_of(device: str) -> str | None:
    """Return the GPU of a lane of its executions (a stream, all streams, copies); None: no lane."""
    lane = _LANE.search(device)
    return device[: lane.start()] if lane else None


def is_of_several(device: str) -> bool:
    """Return whether a lane repeats what single streams have: all of it, or all copies."""
    return "/stream:all" in device or "/memcpy" in device
