"""One run at a time in each home, and no run that seems to go on although its process is dead."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dagster import DagsterInstance, DagsterRun, DagsterRunStatus, RunsFilter
from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_fixed

from profilers.clusters import owner

OWNER_TAG = "stepcast/owner"
PRIORITY_TAG = "dagster/priority"
"""Runs with a larger one leave the queue first; 0 if not given."""
_POLL_S = 1.0
_UNDER_WAY = [DagsterRunStatus.STARTING, DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING]
UNFINISHED = [DagsterRunStatus.QUEUED, DagsterRunStatus.NOT_STARTED, *_UNDER_WAY]
"""Runs that wait for their turn too."""
_held: set[Path] = set()


@contextmanager
def turn(home: Path, waiting: Callable[[str], None]) -> Iterator[None]:
    """Hold the turn to run in `home`; re-entrant in a process, released if it dies.

    `waiting` is told once who holds it.
    """
    path = home / "turn.lock"
    if path in _held:
        yield
        return
    home.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        _wait(file.fileno(), lambda: waiting(f"waiting for {_holder(path)}, which runs in {home}"))
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        _held.add(path)
        try:
            yield
        finally:
            _held.remove(path)


def owner_tag() -> str:
    """Return a tag value that names this process; see `profilers.clusters.owner`."""
    return f"{owner.new_prefix()}-run"


def free_dead_runs(instance: DagsterInstance) -> list[str]:
    """Mark runs whose process died as failed, free their pool slots, and return their ids.

    Dagster's daemon would, but only where it is running: a killed run would else hold its pool
    for ever.
    """
    runs = instance.get_runs(RunsFilter(statuses=_UNDER_WAY))
    dead = [run for run in runs if (tag := run.tags.get(OWNER_TAG)) and not owner.is_living(tag)]
    for run in dead:
        _fail(instance, run)
    return [run.run_id for run in dead]


def _fail(instance: DagsterInstance, run: DagsterRun) -> None:
    instance.report_run_failed(run, "The process of this run was killed; the next run resumes it.")
    if instance.event_log_storage.supports_global_concurrency_limits:
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)


def _wait(descriptor: int, tell: Callable[[], None]) -> None:
    def before_sleep(state: RetryCallState) -> None:
        if state.attempt_number == 1:
            tell()

    retrying = Retrying(
        retry=retry_if_exception_type(BlockingIOError),
        wait=wait_fixed(_POLL_S),
        before_sleep=before_sleep,
    )
    retrying(fcntl.flock, descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _holder(path: Path) -> str:
    pid = path.read_text().strip()
    return f"process {pid}" if pid else "another process"
