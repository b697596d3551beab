"""The program that trains a small network and copies memory, for so many seconds each time.

Started as `python -m profilers.watch.program CONFIG_JSON`; see `torch_program.obey`. Its commands
are `train` and `copy`. Both tell how long it took and how much processor time that was.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from profilers.nodes import torch_program
from profilers.nodes.torch_program import Say
from profilers.nodes.torch_training import Trainer
from profilers.torch_compute.program import ComputeConfig, build, draw

COPIED_BYTES = 96 * 2**20
"""What a copy reads, and as much is written: more than a guest gets of a cache that all share. On
one host, copies of 32 MiB take half as long for each byte as those of 64 to 256 MiB."""


class WatchProgram:
    """A network on the node's first GPU, or its processor where it has none; a piece of memory."""

    def __init__(self, config: ComputeConfig, batch_size: int, say: Say) -> None:
        import torch

        network, self._say, self._batch_size = build(config), say, batch_size
        # Drawn once: drawing is no part of the step.
        batch = draw(config, batch_size)
        device = "cuda:0" if torch.cuda.is_available() else "cpu"
        self._trainer = Trainer(network, lambda _: batch, device)
        # Ones: zeros that nobody wrote would all be read from a single page.
        self._source = torch.ones(COPIED_BYTES, dtype=torch.uint8)
        self._target = torch.ones(COPIED_BYTES, dtype=torch.uint8)

    def train(self, seconds: float) -> None:
        """Train steps; the first does not count: it refills the caches."""
        step: Callable[[], Any] = partial(self._trainer.step, self._batch_size)
        step()
        self._timed("trained", step, seconds)

    def copy(self, seconds: float) -> None:
        """Copy memory."""
        self._timed("copied", lambda: self._target.copy_(self._source), seconds)

    def _timed(self, event: str, work: Callable[[], Any], seconds: float) -> None:
        started_s, before_s, times = time.perf_counter(), time.process_time(), 0
        while not times or time.perf_counter() - started_s < seconds:
            work()
            times += 1
        wall_s, cpu_s = time.perf_counter() - started_s, time.process_time() - before_s
        self._say(event, times=times, wall_s=wall_s, cpu_s=cpu_s)


def main() -> None:
    """Run this program until its controller closes stdin."""
    fields = json.loads(sys.argv[1])
    batch_size = fields.pop("batch_size")
    config = ComputeConfig(**fields)
    say = torch_program.answers()
    watched = WatchProgram(config, batch_size, say)
    say("ready")
    torch_program.obey({"train": watched.train, "copy": watched.copy})


if __name__ == "__main__":
    main()
