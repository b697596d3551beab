"""Parts of a sweep, made by processes of this machine.

They are forks of a server that has imported this module, once for all of them.
"""

import gc
import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from threading import Thread

from forecasting.sweep import SweepFolder, forecast_part
from warehouse.records import StepcastError

_PROCESS_PARTS = 12
"""Parts of a process on average: with it ends what it keeps in memory of networks."""


def execute_sweep(folder: SweepFolder, workers: int) -> None:
    """Forecast the parts of a sweep that are missing, as many at a time as there are workers.

    Raises:
        KeyboardInterrupt: it was interrupted, and all processes are ended.
        StepcastError: a part cannot be forecast, or its process was killed.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    numbers = [part.number for part in folder.missing]
    at_a_time = _PROCESS_PARTS * workers
    # Not `max_tasks_per_child`, with which a pool may wait for ever (python/cpython issue 115634).
    for start in range(0, len(numbers), at_a_time):
        with ProcessPoolExecutor(workers, context, _begin_process) as pool:
            try:
                made = [
                    pool.submit(_forecast, folder.path, number)
                    for number in numbers[start : start + at_a_time]
                ]
                for part in made:
                    part.result()
            except BrokenProcessPool:
                raise StepcastError(
                    f"{folder.path}: a process that made parts was killed, perhaps for want of "
                    "memory; the same command goes on, with fewer --workers"
                ) from None
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for process in multiprocessing.active_children():
                    process.terminate()
                raise
    if missing := folder.missing:
        raise StepcastError(
            f"{folder.path}: {len(missing)} parts are gone that were made; ask again, and leave "
            "the folder alone meanwhile"
        )


def _begin_process() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command ends its processes
    gc.freeze()  # what was imported is no garbage, and stays shared with other processes
    gc.set_threshold(100_000)
    Thread(target=_end_with_command, daemon=True).start()


def _end_with_command() -> None:
    """End this process when the command is killed."""
    command = multiprocessing.parent_process()
    assert command is not None
    command.join()
    os._exit(1)


def _forecast(folder: Path, number: int) -> None:
    forecast_part(SweepFolder(folder), number)
