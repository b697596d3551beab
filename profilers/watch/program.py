"""The program that trains a small network and copies memory, for so many seconds each time.

Commands: `train` and `copy`. Both tell how long it took and how much processor time that was.
"""

import time
from collections.abc import Callable
from typing import Any

from profilers.nodes.program import Say, serve
from profilers.nodes.torch_network import TrainedNetwork
from profilers.nodes.torch_training import Trainer

COPIED_BYTES = 96 * 2**20
"""What a copy reads, and as much is written: more than a guest gets of a cache that all share. On
one host, copies of 32 MiB take half as long for each byte as those of 64 to 256 MiB."""


def watched(config: dict[str, Any], say: Say) -> dict[str, Callable[..., None]]:
    """Return the commands of a network on the node's GPU, else processor, and a piece of memory."""
    import torch

    trained = TrainedNetwork.model_validate(config["network"])
    network = trained.build(config["threads"], config["inter_op_threads"])
    batch_size = trained.workload.batch_size
    # Drawn once: drawing is no part of the step.
    batch = trained.draw(batch_size)
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    trainer = Trainer(network, lambda _: batch, trained.workload, device)
    # Ones: zeros that nobody wrote would all be read from a single page.
    source, target = (torch.ones(COPIED_BYTES, dtype=torch.uint8) for _ in range(2))

    def train(seconds: float) -> None:
        """Train steps; the first does not count: it refills the caches."""
        trainer.step(batch_size)
        timed("trained", lambda: trainer.step(batch_size), seconds)

    def copy(seconds: float) -> None:
        """Copy memory."""
        timed("copied", lambda: target.copy_(source), seconds)

    def timed(event: str, work: Callable[[], object], seconds: float) -> None:
        started_s, before_s, times = time.perf_counter(), time.process_time(), 0
        while not times or time.perf_counter() - started_s < seconds:
            work()
            times += 1
        wall_s, cpu_s = time.perf_counter() - started_s, time.process_time() - before_s
        say(event, times=times, wall_s=wall_s, cpu_s=cpu_s)

    return {"train": train, "copy": copy}


if __name__ == "__main__":
    serve(watched)
