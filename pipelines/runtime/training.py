"""What is trained: a network by name, on synthetic images that are told by their index."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

LEARNING_RATE, MOMENTUM = 0.01, 0.9
CLASSES = 10


@dataclass(frozen=True)
class Images:
    """A dataset of so many square images, the same on every node."""

    samples: int
    image_size: int
    seed: int

    def batch(self, indices: list[int]) -> "tuple[torch.Tensor, torch.Tensor]":
        """Return images, float32 [batch, 3, side, side], and labels, int64 [batch]."""
        import torch

        images = torch.stack([self._image(index) for index in indices])
        return images, torch.tensor(indices) % CLASSES

    def _image(self, index: int) -> "torch.Tensor":
        import torch

        source = torch.Generator().manual_seed(self.seed * self.samples + index)
        # A class has a brightness of its own, so that there is something to learn.
        noise = torch.rand(3, self.image_size, self.image_size, generator=source)
        return noise + (index % CLASSES) / CLASSES


class Model:
    """A network on a device, its optimizer, and how many iterations and samples it has seen."""

    def __init__(self, dnn: str, image_size: int, seed: int, device: "torch.device") -> None:
        import torch

        import networks

        torch.manual_seed(seed)
        self.network = networks.build_pytorch(dnn, image_size, CLASSES).to(device)
        self.optimizer: Any = torch.optim.SGD(
            self.network.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM
        )
        self.step = 0
        self.samples = 0

    def content(self) -> bytes:
        """Return everything needed to go on, as PyTorch saves it."""
        import torch

        file = io.BytesIO()
        states = {
            "model": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "samples": self.samples,
        }
        torch.save(states, file)
        return file.getvalue()

    def restore(self, content: bytes) -> None:
        """Become what was saved."""
        states = load(content)
        self.network.load_state_dict(states["model"])
        self.optimizer.load_state_dict(states["optimizer"])
        self.step, self.samples = int(states["step"]), int(states["samples"])


def load(content: bytes | Path) -> dict[str, Any]:
    """Return what a checkpoint holds; it may hold tensors and plain values only."""
    import torch

    file = io.BytesIO(content) if isinstance(content, bytes) else content
    states: dict[str, Any] = torch.load(file, weights_only=True, map_location="cpu")
    return states
