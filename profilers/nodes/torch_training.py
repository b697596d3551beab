"""Training steps of a PyTorch module, timed pass by pass, gradient by gradient.

Source: Srift, section 4.1.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from warehouse.records import TrainingWorkload

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.distributed.device_mesh import DeviceMesh

    Batch = tuple[torch.Tensor, torch.Tensor]

LEARNING_RATE = 0.01
_MOMENTUM = 0.9
_AUTOCAST = ("bfloat16", "float16")


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


class TrainingStep:
    """The parts of a training step of a network, on the device that it is on.

    Autocast keeps parameters in their precision; with float16 the loss is scaled. What is trained
    in half precision has neither. Gradients of the passes of a step are added, and those of a
    replica are exchanged in its last pass alone.

    Args:
        network: whose parameters are trained; its memory format is changed as the recipe says.
        recipe: how: precision, optimizer, passes of a step, memory format.
        device: `cpu` or a GPU, as PyTorch names it.
    """

    def __init__(self, network: "nn.Module", recipe: TrainingWorkload, device: str) -> None:
        import torch

        from networks.own_torch import trained_in_half

        self.recipe = recipe
        self._kind = device.partition(":")[0]
        self._autocast = recipe.precision in _AUTOCAST and not trained_in_half(network)
        if self._kind == "cuda":
            # PyTorch's default has TF32 in cuDNN alone.
            torch.backends.cuda.matmul.allow_tf32 = recipe.precision == "tf32"
        self._loss_of: Any = getattr(network, "loss_of", _cross_entropy)
        lay_out(network, recipe)
        if recipe.compiled:
            network.compile(mode=recipe.compiled)
        self.optimizer: Any = _optimizer(network, recipe.optimizer)
        self._scaler: Any = None
        if self._autocast and recipe.precision == "float16":
            self._scaler = torch.amp.GradScaler(self._kind)

    def prepared(self, images: "torch.Tensor") -> "torch.Tensor":
        """Return a batch in the memory format of the recipe."""
        import torch

        if self.recipe.memory_format == "channels_last" and images.ndim == 4:
            return images.contiguous(memory_format=torch.channels_last)
        return images

    def forward(
        self, called: "nn.Module", images: "torch.Tensor", labels: "torch.Tensor"
    ) -> "torch.Tensor":
        """Return the loss of a pass, as a part of its step's."""
        import torch

        if self._autocast:
            with torch.autocast(self._kind, getattr(torch, self.recipe.precision)):
                logits = called(images)
        else:
            logits = called(images)
        loss: torch.Tensor = self._loss_of(logits, labels)
        if self.recipe.accumulate > 1:
            loss = loss / self.recipe.accumulate
        return loss if self._scaler is None else self._scaler.scale(loss)

    def update(self) -> None:
        """Change the parameters, and forget their gradients."""
        if self._scaler is None:
            self.optimizer.step()
        else:
            self._scaler.step(self.optimizer)
            self._scaler.update()
        self.optimizer.zero_grad()

    @contextmanager
    def exchanging(self, called: "nn.Module", place: int) -> Iterator[None]:
        """Have a replica exchange gradients in the last pass of a step alone."""
        no_sync = getattr(called, "no_sync", None)
        if no_sync is None or place == self.recipe.accumulate - 1:
            yield
        else:
            with no_sync():
                yield

    def run(self, called: "nn.Module", images: "torch.Tensor", labels: "torch.Tensor") -> None:
        """Train one step."""
        for place in range(self.recipe.accumulate):
            with self.exchanging(called, place):
                loss: Any = self.forward(called, images, labels)
                loss.backward()
        self.update()


def _cross_entropy(logits: "torch.Tensor", labels: "torch.Tensor") -> "torch.Tensor":
    import torch

    return torch.nn.functional.cross_entropy(logits.float(), labels)


def shard(network: "nn.Module", mesh: "DeviceMesh", precision: str) -> None:
    """Divide parameters, gradients and the optimizer's state among ranks, unit by unit.

    A unit is gathered at once: an element of an outermost list of layers. The network itself has
    what is in none. With bfloat16 that is what units are gathered and gradients scattered in.
    """
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    half = torch.bfloat16 if precision == "bfloat16" else None
    policy = MixedPrecisionPolicy(param_dtype=half)
    for unit in _units(network):
        fully_shard(unit, mesh=mesh, mp_policy=policy)
    fully_shard(network, mesh=mesh, mp_policy=policy)


def _units(module: "nn.Module") -> "Iterator[nn.Module]":
    from torch import nn

    for child in module.children():
        if not any(True for _ in child.parameters()):
            continue
        if isinstance(module, (nn.ModuleList, nn.Sequential)):
            yield child
        else:
            yield from _units(child)


def lay_out(network: "nn.Module", recipe: TrainingWorkload) -> None:
    """Give parameters the memory format of a recipe; replicas are made of networks that have it."""
    import torch

    if recipe.memory_format == "channels_last":
        any_network: Any = network
        any_network.to(memory_format=torch.channels_last)


def _optimizer(network: "nn.Module", name: str) -> Any:
    """Return an optimizer with its defaults; SGD has no default of its rate."""
    import torch

    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    match name:
        case "sgd":
            return torch.optim.SGD(parameters, lr=LEARNING_RATE)
        case "momentum":
            return torch.optim.SGD(parameters, lr=LEARNING_RATE, momentum=_MOMENTUM)
        case "adam":
            return torch.optim.Adam(parameters)
        case "adamw":
            return torch.optim.AdamW(parameters)
        case _:
            return import_module("bitsandbytes").optim.AdamW8bit(parameters)


class Clock:
    """Marks moments of a device's work; they may be compared once it has settled.

    A processor has done what it was given when a call returns. A GPU works behind its program:
    events among its work tell when it got there.
    """

    def __init__(self, device: str) -> None:
        import torch

        self._cuda: Any = torch.cuda if device.startswith("cuda") else None

    def mark(self) -> Any:
        """Mark what the device has been given so far as done by then."""
        if self._cuda is None:
            return time.perf_counter()
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def settle(self) -> None:
        """Wait until the device has done everything."""
        if self._cuda is not None:
            self._cuda.synchronize()

    def seconds(self, before: Any, after: Any) -> float:
        """Return the time between two marks."""
        return float(after - before if self._cuda is None else before.elapsed_time(after) / 1e3)


class Trainer:
    """A module, its optimizer, and the batches it is trained on; `device` as PyTorch names it.

    `called` is what is called in the module's place, such as its replica; None: the module.
    Batches are drawn behind the backward pass of the step before: no pass begins behind a draw.
    """

    def __init__(
        self,
        network: "nn.Module",
        draw: Callable[[int], "Batch"],
        recipe: TrainingWorkload,
        device: str = "cpu",
        called: "nn.Module | None" = None,
    ) -> None:
        self._called = called or network.to(device)
        self._draw, self._device = draw, device
        self._drawn: tuple[int, Batch] | None = None
        self.training = TrainingStep(network, recipe, device)
        self._clock = Clock(device)
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

        Zeroing gradients belongs to the update. `watched` also records when gradients are ready, as
        parts of the last backward pass where a step has several: each of them has the same batch.
        So long the device rests between the backward pass and the update, as where gradients are
        exchanged; that is in neither.
        """
        images, labels = self._batch(batch_size)
        clock, training = self._clock, self.training
        passes: list[tuple[Any, Any, Any]] = []
        with self._watching(watched) as ready:
            clock.settle()
            for place in range(training.recipe.accumulate):
                with training.exchanging(self._called, place):
                    start = clock.mark()
                    loss: Any = training.forward(self._called, images, labels)
                    forward = clock.mark()
                    loss.backward()
                    passes.append((start, forward, clock.mark()))
            clock.settle()
            self._drawn = batch_size, self._draw(batch_size)
            time.sleep(pause_s)
            exchanged = clock.mark()
            training.update()
            update = clock.mark()
            clock.settle()
        _, forward, backward = passes[-1]
        last_s = clock.seconds(forward, backward)
        return Step(
            sum(clock.seconds(start, forward) for start, forward, _ in passes),
            sum(clock.seconds(forward, backward) for _, forward, backward in passes),
            clock.seconds(exchanged, update),
            [None if event is None else clock.seconds(forward, event) / last_s for event in ready],
        )

    def _batch(self, batch_size: int) -> "Batch":
        """Return what was drawn, on the device; drawn now if that was another size."""
        drawn_size, drawn = self._drawn or (None, None)
        images, labels = drawn if drawn and drawn_size == batch_size else self._draw(batch_size)
        return self.training.prepared(images.to(self._device)), labels.to(self._device)

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
