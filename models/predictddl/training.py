"""Training a graph hypernetwork: the weights that it predicts for random networks shall classify.

Each iteration draws a few networks and a batch of images, and follows the gradient of the mean loss
of the networks with the predicted weights. What it has learned is kept every minute, so that it
goes on where it was ended.

Source: Knyazev et al., NeurIPS 2021, section 4 and appendix C.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from random import Random
from statistics import fmean

import torch
from torch.nn import functional

from models.predictddl.datasets import ImageDataset
from models.predictddl.hypernetwork import Hypernetwork, run
from models.predictddl.random_networks import draw
from warehouse.records import BadInput

META_BATCH, IMAGES, LEARNING_RATE, CLIP = 4, 64, 1e-3, 5.0
DECAYS_AT = (0.6, 0.85)
"""Parts of a training after which the learning rate is a third of what it was."""
_KEPT_S, _SAID_S = 60.0, 10.0
_PROGRESS = "progress"
_NO_LOSS = 10.0
"""Counted where no network of an iteration has a finite loss."""


@dataclass(frozen=True)
class TrainingProgress:
    """How far training is.

    Attributes:
        dataset: the type it is trained for.
        iterations: done so far.
        seconds: spent so far.
        loss: mean of the last hundred iterations.
    """

    dataset: str
    iterations: int = 0
    seconds: float = 0.0
    loss: float | None = None


def train(
    dataset: ImageDataset,
    *,
    seconds: float,
    keep: Callable[[bytes], None],
    kept: bytes | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[Hypernetwork, TrainingProgress]:
    """Train for so long; what earlier calls did is included.

    Args:
        dataset: what the networks classify.
        seconds: of all calls together.
        keep: told once a minute, and at the end, what a later call needs to go on.
        kept: what an earlier call told last.
        say: told how far it is.

    Raises:
        BadInput: `kept` is no such thing, or of another type of dataset.
    """
    torch.manual_seed(0)
    model = Hypernetwork(dataset.classes)
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE)
    progress = _resumed(kept, dataset, model, optimizer)
    recent: list[float] = []
    before_s, started_s = progress.seconds, time.monotonic()
    kept_s = said_s = started_s
    try:
        while progress.seconds < seconds:
            done = progress.seconds / seconds
            rate = LEARNING_RATE / 3 ** sum(done > part for part in DECAYS_AT)
            optimizer.param_groups[0]["lr"] = rate
            chance = Random(f"0 {progress.iterations}")
            recent = [*recent[-99:], _step(model, optimizer, dataset, chance)]
            now_s = time.monotonic()
            spent_s = before_s + now_s - started_s
            progress = TrainingProgress(
                dataset.name, progress.iterations + 1, spent_s, fmean(recent)
            )
            if now_s - said_s > _SAID_S:
                said_s = now_s
                say(
                    f"{dataset.name}: iteration {progress.iterations:,}, loss "
                    f"{progress.loss:.3f}, {spent_s / seconds:.0%} done"
                )
            if now_s - kept_s > _KEPT_S:
                kept_s = now_s
                keep(_packed(progress, model, optimizer))
    finally:
        keep(_packed(progress, model, optimizer))
    return model, progress


def _step(
    model: Hypernetwork, optimizer: torch.optim.Optimizer, dataset: ImageDataset, chance: Random
) -> float:
    """Follow the gradient; return the loss. Networks without a finite one teach nothing."""
    _, channels, side, _ = dataset.pixels.shape
    networks = [
        draw(chance, image_channels=channels, image_size=side, classes=dataset.classes)
        for _ in range(META_BATCH)
    ]
    chosen = [chance.randrange(len(dataset.labels)) for _ in range(IMAGES)]
    images = torch.from_numpy(dataset.images(chosen))
    labels = torch.from_numpy(dataset.labels[chosen])
    optimizer.zero_grad()
    losses = [
        functional.cross_entropy(run(network, weights, images), labels)
        for network, weights in zip(networks, model(networks), strict=True)
    ]
    finite = [loss for loss in losses if torch.isfinite(loss)]
    if not finite:
        return _NO_LOSS
    loss = torch.stack(finite).mean()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
    return float(loss.detach())


def _packed(
    progress: TrainingProgress, model: Hypernetwork, optimizer: torch.optim.Optimizer
) -> bytes:
    from safetensors.torch import save

    progress_json = json.dumps(asdict(progress)).encode()
    tensors = {_PROGRESS: torch.frombuffer(bytearray(progress_json), dtype=torch.uint8)}
    tensors |= {f"model.{name}": value for name, value in model.state_dict().items()}
    for place, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{place}.{name}": value for name, value in state.items()}
    content: bytes = save({name: value.detach().clone() for name, value in tensors.items()})
    return content


def _resumed(
    kept: bytes | None, dataset: ImageDataset, model: Hypernetwork, optimizer: torch.optim.Optimizer
) -> TrainingProgress:
    from safetensors import SafetensorError
    from safetensors.torch import load

    if kept is None:
        return TrainingProgress(dataset.name)
    try:
        tensors = load(kept)
        progress = TrainingProgress(**json.loads(bytes(tensors[_PROGRESS].tolist())))
        if progress.dataset != dataset.name:
            raise BadInput(f"it was for {progress.dataset}, not for {dataset.name}")
        parts: dict[int, dict[str, torch.Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith("optimizer."):
                _, place, key = name.split(".", 2)
                parts.setdefault(int(place), {})[key] = value
        model.load_state_dict(
            {
                name.removeprefix("model."): value
                for name, value in tensors.items()
                if name.startswith("model.")
            }
        )
        optimizer.load_state_dict({**optimizer.state_dict(), "state": parts})
    except (BadInput, SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise BadInput(f"training cannot go on from what was kept: {error}") from None
    return progress
