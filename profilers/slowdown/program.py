"""The program of a rank that trains while it all-reduces.

Commands: `join`, `group` and `reduce` of `profilers.nodes.torch_rank`, `train` of
`profilers.nodes.torch_network`, and `overlap`.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from threading import Event
from typing import Any

from profilers.nodes.program import Say, serve
from profilers.nodes.torch_network import Device
from profilers.nodes.torch_rank import Rank
from profilers.nodes.torch_training import Step

LEAST_REDUCED = 4
"""All-reduces that a rank has seen end; the first one does not count."""


def overlapping(config: dict[str, Any], say: Say) -> dict[str, Callable[..., None]]:
    """Return the commands of a rank and a device in one program, as in data-parallel training."""
    device, rank = Device(config, say), Rank(config, say)

    def overlap(batch_size: int, steps: int, size_bytes: int) -> None:
        """Train steps while buffers are reduced all the time; report steps and all-reduces.

        More steps than asked, if fewer than `LEAST_REDUCED` all-reduces have ended by then.
        """
        finished = Event()
        done: list[Step] = []
        reduce_s: list[float] = []
        with ThreadPoolExecutor(1) as thread:
            reducing = thread.submit(rank.reduce_until, size_bytes, finished, reduce_s)
            try:
                while len(done) < steps or (len(reduce_s) < LEAST_REDUCED and not reducing.done()):
                    done.append(device.trainer.step(batch_size))
            finally:
                finished.set()
            reducing.result()
        say("overlapped", steps=[asdict(step) for step in done], reduce_s=reduce_s)

    return {**rank.commands(), "train": device.train, "overlap": overlap}


if __name__ == "__main__":
    serve(overlapping)
