"""Training steps of a PyTorch module, timed pass by pass, gradient by gradient.

Source: Srift, section 4.1.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch
    from torch import nn

    Batch = tuple[torch.Tensor, torch.Tensor]

LEARNING_RATE = 0.01


@dataclass(frozen=True)
class Layer:
    """A module with parameters of its own, in the order in which they are registered."""

    name: str
    type: str
    parameter_count: int
    gradient_bytes: int


@dataclass(frozen=True)
class Step:
    """Seconds of the passes of one training step.

    `gradient_ready` has, for each layer, the part of the backward pass after which the last of its
    gradients was there; None for a layer that this step did not execute. Empty if nobody looked.
    """

    forward_s: float
    backward_s: float
    update_s: float
    gradient_ready: Sequence[float | None] = ()

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.forward_s + self.backward_s + self.update_s


class Clock(Protocol):
    """Marks moments of a device's work; they may be compared once it has settled."""

    def mark(self) -> Any:
        """Mark what the device has been given so far as done by then."""

    def settle(self) -> None:
        """Wait until the device has done everything."""

    def seconds(self, before: Any, after: Any) -> float:
        """Return the time between two marks."""


class HostClock:
    """A processor has done what it was given when a call returns."""

    def mark(self) -> Any:
        """Return the time."""
        return time.perf_counter()

    def settle(self) -> None:
        """Do nothing."""

    def seconds(self, before: Any, after: Any) -> float:
        """Return the difference."""
        return float(after - before)


class CudaClock:
    """A GPU works behind its program; events among its work tell when it got there."""

    def mark(self) -> Any:
        """Put an event behind the work given so far."""
        import torch

        cuda: Any = torch.cuda
        event = cuda.Event(enable_timing=True)
        event.record()
        return event

    def settle(self) -> None:
        """Wait for the GPU."""
        import torch

        torch.cuda.synchronize()

    def seconds(self, before: Any, after: Any) -> float:
        """Return the time between two events."""
        return float(before.elapsed_time(after)) / 1e3


class Trainer:
    """A module, its optimizer, and the batches it is trained on; `device` as PyTorch names it.

    `called` is what is called in the module's place, such as its replica; None: the module.
    Batches are drawn behind the backward pass of the step before: no pass begins behind a draw.
    """

    def __init__(
        self,
        network: "nn.Module",
        draw: Callable[[int], "Batch"],
        device: str = "cpu",
        called: "nn.Module | None" = None,
    ) -> None:
        import torch

        self._called = called or network.to(device)
        self._draw, self._device = draw, device
        self._drawn: tuple[int, Batch] | None = None
        self._optimizer: Any = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE)
        self._loss = torch.nn.functional.cross_entropy
        self._clock: Clock = CudaClock() if device.startswith("cuda") else HostClock()
        self._owned: list[tuple[str, nn.Module, list[Any]]] = [
            (name, module, parameters)
            for name, module in network.named_modules()
            if (
                parameters := [
                    parameter for parameter in module.parameters(False) if parameter.requires_grad
                ]
            )
        ]

    @property
    def layers(self) -> list[Layer]:
        """The modules that have trained parameters of their own."""
        return [
            Layer(
                name,
                type(module).__name__,
                sum(parameter.numel() for parameter in parameters),
                sum(parameter.numel() * parameter.element_size() for parameter in parameters),
            )
            for name, module, parameters in self._owned
        ]

    def step(self, batch_size: int, *, watched: bool = False, pause_s: float = 0.0) -> Step:
        """Train one batch, drawn anew, and time its passes.

        Zeroing gradients belongs to the update. `watched` also records when gradients are ready.
        So long the device rests between the backward pass and the update, as where gradients are
        exchanged; that is in neither.
        """
        images, labels = self._batch(batch_size)
        clock = self._clock
        with self._watching(watched) as ready:
            clock.settle()
            start = clock.mark()
            loss: Any = self._loss(self._called(images), labels)
            forward = clock.mark()
            loss.backward()
            backward = clock.mark()
            clock.settle()
            self._drawn = batch_size, self._draw(batch_size)
            time.sleep(pause_s)
            exchanged = clock.mark()
            self._optimizer.step()
            self._optimizer.zero_grad()
            update = clock.mark()
            clock.settle()
        backward_s = clock.seconds(forward, backward)
        return Step(
            clock.seconds(start, forward),
            backward_s,
            clock.seconds(exchanged, update),
            [None if one is None else clock.seconds(forward, one) / backward_s for one in ready],
        )

    def _batch(self, batch_size: int) -> "Batch":
        """Return what was drawn, on the device; drawn now if that was another size."""
        drawn_size, drawn = self._drawn or (None, None)
        images, labels = drawn if drawn and drawn_size == batch_size else self._draw(batch_size)
        return images.to(self._device), labels.to(self._device)

    @contextmanager
    def _watching(self, watched: bool) -> Iterator[list[Any]]:
        """Yield, for each layer, the mark behind the last of its gradients so far."""
        ready: list[Any] = [None] * len(self._owned) if watched else []

        def gradient_is_there(layer: int, _: "torch.Tensor") -> None:
            ready[layer] = self._clock.mark()

        hooks = [
            parameter.register_post_accumulate_grad_hook(partial(gradient_is_there, layer))
            for layer, (_, _, parameters) in enumerate(self._owned if watched else [])
            for parameter in parameters
        ]
        try:
            yield ready
        finally:
            for hook in hooks:
                hook.remove()
