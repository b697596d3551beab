"""The program that times pieces of work of one kind on a node: what its share of it can do.

It answers to `do` with how much work was done, in how much time by the clock, and to `issue` with
how long the host takes to issue steps of small networks, and which operators these have.
"""

import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from profilers.nodes.program import Say, serve

CHANNELS, SIDE, BATCH = 64, 32, 4
"""Of convolutions: as in the middle of networks for small images."""
_MEMORY_BYTES, _DISK_BYTES = 96 * 2**20, 8 * 2**20
_LAYERS, _WIDTH = 24, 8
"""Of networks with kernels so small that a step takes as long as its host needs to issue it."""
_WARM_UPS, _IN_A_ROW = 3, 13
_PRODUCTS = frozenset({"mm", "addmm"})
_NORMALIZATIONS = frozenset({"native_layer_norm", "native_layer_norm_backward"})
_WITHIN = frozenset({"detach", "t"})
"""Views that automatic differentiation makes itself: no time of their own can be told."""


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
        self._steps: list[SmallStep] = []
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
        work, amount = self._work[kind]
        work()
        self._wait()
        started_s, times = time.perf_counter(), 0
        while not times or time.perf_counter() - started_s < seconds:
            work()
            times += 1
        self._wait()
        self._say("done", amount=times * amount, wall_s=time.perf_counter() - started_s)

    def issue(self, seconds: float) -> None:
        """Train small networks in turns for about so long; say what a step of each is, and takes.

        Of each network: `kinds`, how many operators of a kind a step issues, and `wall_s`, the
        median time of the host for a step.
        """
        if not self._steps:
            self._steps = _small_steps(self._device)
        ends_s = time.perf_counter() + seconds
        times_s: list[list[float]] = [[] for _ in self._steps]
        while not times_s[0] or time.perf_counter() < ends_s:
            for step, ours_s in zip(self._steps, times_s, strict=True):
                # The first steps in a row find other code in the caches than training does.
                for place in range(_IN_A_ROW):
                    started_s = time.perf_counter()
                    step.train()
                    if place >= _WARM_UPS:
                        ours_s.append(time.perf_counter() - started_s)
                self._wait()
        self._say(
            "issued",
            networks=[
                {"kinds": step.kinds(), "wall_s": statistics.median(ours_s)}
                for step, ours_s in zip(self._steps, times_s, strict=True)
            ],
        )


class SmallStep:
    """A training step by plain SGD of a linear layer and layers behind it, on tiny tensors."""

    def __init__(self, layers: list[Any], device: str) -> None:
        import torch
        from torch import nn

        self._network = nn.Sequential(nn.Linear(_WIDTH, _WIDTH, bias=False), *layers).to(device)
        self._given = torch.randn(_WIDTH, _WIDTH, device=device)
        self._labels = torch.zeros(_WIDTH, dtype=torch.int64, device=device)
        self._optimizer = torch.optim.SGD(self._network.parameters(), 1e-3)

    def train(self) -> None:
        """Train a step."""
        import torch

        self._optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(self._network(self._given), self._labels)
        torch.autograd.backward([loss])
        self._optimizer.step()

    def kinds(self) -> Mapping[str, int]:
        """Train a step; return how many operators of each kind it issues, and its parameters."""
        from torch.utils._python_dispatch import TorchDispatchMode

        counts: Counter[str] = Counter()

        class Counted(TorchDispatchMode):  # type: ignore[no-untyped-call]
            def __torch_dispatch__(
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                if kind := _kind(func):
                    counts[kind] += 1
                return func(*args, **(kwargs or {}))

        with Counted():  # type: ignore[no-untyped-call]
            self.train()
        return {**counts, "parameter": len(list(self._network.parameters()))}


def _kind(operator: Any) -> str | None:
    """Return what kind of operator of PyTorch's dispatcher the host issues; None: it is free."""
    space, _, name = operator.name().partition(".")[0].partition("::")
    if space != "aten" or name in _WITHIN:
        return None
    if operator.is_view or name.startswith("empty"):
        return "view"
    if name in _PRODUCTS:
        return "product"
    return "normalization" if name in _NORMALIZATIONS else "elementwise"


def _small_steps(device: str) -> list[SmallStep]:
    """Return a network without layers, and one of layers of each kind."""
    import torch
    from torch import nn

    class Transposed(nn.Module):
        def forward(self, given: torch.Tensor) -> torch.Tensor:
            return given.transpose(0, 1).transpose(0, 1)

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(_WIDTH, _WIDTH))

        def forward(self, given: torch.Tensor) -> torch.Tensor:
            return given * self.scale

    makers: tuple[Callable[[], Any], ...] = (
        Transposed,
        nn.Tanh,
        lambda: nn.Linear(_WIDTH, _WIDTH),
        lambda: nn.LayerNorm(_WIDTH),
        Scaled,
    )
    several = [[], *([make() for _ in range(_LAYERS)] for make in makers)]
    return [SmallStep(layers, device) for layers in several]


def _written() -> None:
    """Write a file and force it to the disk."""
    with tempfile.TemporaryFile() as file:
        file.write(bytes(_DISK_BYTES))
        file.flush()
        os.fsync(file.fileno())


def _commands(config: dict[str, Any], say: Say) -> dict[str, Callable[..., None]]:
    inventory = Inventory(config["threads"], say)
    return {"do": inventory.do, "issue": inventory.issue}


if __name__ == "__main__":
    serve(_commands)
