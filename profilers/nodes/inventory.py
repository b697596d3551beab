"""The program that times pieces of work of one kind on a node: what its share of it can do.

Started as `python -m profilers.nodes.inventory CONFIG_JSON`; see `torch_program.obey`. It answers
to `do` with how much work was done, in how much time by the clock.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from profilers.nodes import torch_program
from profilers.nodes.torch_program import Say

_PRODUCT = "product_"
"""How kinds of work are called that are matrix products of a precision."""
_ORDER = 512
"""Of the matrices; 4096 on a GPU, whose units smaller ones do not fill."""
_ORDER_GPU = 4096
CHANNELS, SIDE, BATCH = 64, 32, 4
"""Of convolutions: as in the middle of networks for small images."""
_MEMORY_BYTES, _DISK_BYTES = 96 * 2**20, 8 * 2**20


class Inventory:
    """Convolutions, copies and a file; each piece of work has an amount."""

    def __init__(self, threads: int, say: Say) -> None:
        import torch
        from torch.nn import functional

        torch.set_num_threads(threads)
        device = "cuda:0" if torch.cuda.is_available() else "cpu"
        images = torch.randn(BATCH, CHANNELS, SIDE, SIDE, device=device)
        full = torch.randn(CHANNELS, CHANNELS, 3, 3, device=device)
        pixels = torch.randn(CHANNELS, CHANNELS, 1, 1, device=device)
        single = torch.randn(CHANNELS, 1, 3, 3, device=device)
        source, target = (
            torch.ones(_MEMORY_BYTES, dtype=torch.uint8, device=device) for _ in range(2)
        )
        places = BATCH * SIDE * SIDE
        self._say, self._device = say, device
        self._wait: Callable[[], Any] = torch.cuda.synchronize if device != "cpu" else lambda: None
        self._work: dict[str, tuple[Callable[[], Any], float]] = {
            "dense": (
                lambda: functional.conv2d(images, full, padding=1),
                2.0 * 9 * CHANNELS * CHANNELS * places,
            ),
            "pointwise": (
                lambda: functional.conv2d(images, pixels),
                2.0 * CHANNELS * CHANNELS * places,
            ),
            "depthwise": (
                lambda: functional.conv2d(images, single, padding=1, groups=CHANNELS),
                2.0 * 9 * CHANNELS * places,
            ),
            "memory": (lambda: target.copy_(source), 2.0 * _MEMORY_BYTES),
            "disk": (_written, float(_DISK_BYTES)),
        }

    def do(self, kind: str, seconds: float) -> None:
        """Do work of a kind for about so long; the first piece does not count."""
        if kind not in self._work:
            self._work[kind] = self._product(kind.removeprefix(_PRODUCT))
        work, amount = self._work[kind]
        work()
        self._wait()
        started_s, times = time.perf_counter(), 0
        while not times or time.perf_counter() - started_s < seconds:
            work()
            times += 1
        self._wait()
        self._say("done", amount=times * amount, wall_s=time.perf_counter() - started_s)

    def _product(self, precision: str) -> tuple[Callable[[], Any], float]:
        """Return a matrix product in a precision, and its floating-point operations."""
        import torch

        order = _ORDER if self._device == "cpu" else _ORDER_GPU
        dtype = getattr(torch, "float32" if precision == "tf32" else precision)
        left, right = (torch.randn(order, order, device=self._device).to(dtype) for _ in range(2))

        def product() -> None:
            torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
            torch.mm(left, right)

        return product, 2.0 * order**3


def _written() -> None:
    """Write a file and force it to the disk."""
    with tempfile.TemporaryFile() as file:
        file.write(bytes(_DISK_BYTES))
        file.flush()
        os.fsync(file.fileno())


def main() -> None:
    """Run this program until its controller closes stdin."""
    given = json.loads(sys.argv[1])
    say = torch_program.answers()
    inventory = Inventory(given["threads"], say)
    say("ready", **torch_program.own_facts(given["interface"]))
    torch_program.obey({"do": inventory.do})


if __name__ == "__main__":
    main()
