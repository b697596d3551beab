"""The program of one rank: trains its share of every batch, beats, and saves when told to.

Started as `python -m pipelines.runtime.rank CONFIG_JSON`; see `profilers.nodes.program`. Commands:
`train` (meet the other ranks, go on from a checkpoint, train to the end) and `save` (stop, and
write a checkpoint). Training has a thread of its own: what waits for a dead peer can still be
saved.
"""

import io
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.runtime import checkpoints
from pipelines.runtime.checkpoints import SampleWriter, draw_samples, open_sample_log, share
from profilers.nodes import notices
from profilers.nodes.program import Say, answers, obey

if TYPE_CHECKING:
    import torch


_PEERS_TIMEOUT = timedelta(hours=24)
"""Heartbeats tell that a peer is dead, not the time that it takes."""


@dataclass(frozen=True)
class TrainingRankConfig:
    """What a rank must know at once.

    Attributes:
        interface: network device.
        device: of the node's; a GPU where it has as many, else its processor.
        threads: within an operation.
        inter_op_threads: operations at once.
        dnn: network by name.
        image_size: pixels.
        samples: of the dataset.
        seed: of weights, images and their order.
        folder: where checkpoints are.
        keep: how many of them.
        every: iterations between two of rank 0.
        beat_s: between two heartbeats.
        notices: where notices come from (see `notices.poll`).
    """

    interface: str
    device: int
    threads: int
    inter_op_threads: int
    dnn: str
    image_size: int
    samples: int
    seed: int
    folder: str
    keep: int
    every: int
    beat_s: float
    notices: str


class TrainingRank:
    """One rank, and the commands it obeys."""

    def __init__(self, config: TrainingRankConfig, say: Say) -> None:
        import torch
        import torch.distributed as dist

        torch.set_num_threads(config.threads)
        torch.set_num_interop_threads(config.inter_op_threads)
        # As in profilers.nodes.torch_rank.
        self._dist: Any = dist
        self._torch, self._config, self._say = torch, config, say
        self._images = SyntheticImages(config.samples, config.image_size, config.seed)
        self._device = torch.device("cpu")
        if config.device < torch.cuda.device_count():
            self._device = torch.device("cuda", config.device)
        self._model = ModelReplica(config.dnn, config.image_size, config.seed, self._device)
        self._updating = threading.Lock()
        self._stopped = False
        self._trains = False

    @property
    def step(self) -> int:
        """Iterations applied."""
        return self._model.step

    def train(
        self,
        rank: int,
        batches: list[int],
        iterations: int,
        incarnation: int,
        address: str,
        port: int,
        checkpoint: str | None,
    ) -> None:
        """Begin to train as `rank` of as many as there are batches."""

        def run() -> None:
            try:
                network = self._join(rank, len(batches), address, port, checkpoint)
                self._trains = True
                with open_sample_log(Path(self._config.folder), incarnation, rank) as took:
                    self._loop(network, rank, batches, iterations, took)
            except Exception as error:
                self._say("broken", error=str(error).split("\n")[0])

        threading.Thread(target=run, daemon=True).start()

    def save(self, from_step: int) -> None:
        """Stop training, and write a checkpoint of what was applied until now.

        A peer may be lost before the checkpoint of `from_step` was broadcast: it still counts then.
        """
        with self._updating:
            self._stopped = True
            trains = self._trains  # once: it may begin to at any moment
            if trains:
                self._write()
        step = self.step if trains else from_step
        self._say("saved", step=step, asked=True, written=trains)

    def _join(
        self, rank: int, ranks: int, address: str, port: int, checkpoint: str | None
    ) -> Callable[..., Any]:
        """Meet the other ranks, take over rank 0's checkpoint; return what exchanges gradients."""
        dist, torch = self._dist, self._torch
        store = dist.TCPStore(address, port, ranks, is_master=rank == 0, timeout=_PEERS_TIMEOUT)
        dist.init_process_group(
            "gloo", store=store, rank=rank, world_size=ranks, timeout=_PEERS_TIMEOUT
        )
        if checkpoint is not None:
            content = Path(checkpoint).read_bytes() if rank == 0 else b""
            size = torch.tensor([len(content)])
            dist.broadcast(size, 0)
            buffer = torch.zeros(int(size), dtype=torch.uint8)
            if rank == 0:
                buffer = torch.frombuffer(bytearray(content), dtype=torch.uint8)
            dist.broadcast(buffer, 0)
            self._model.restore(buffer.numpy().tobytes())
        network: Callable[..., Any] = torch.nn.parallel.DistributedDataParallel(self._model.network)
        return network

    def _loop(
        self,
        network: Callable[..., Any],
        rank: int,
        batches: Sequence[int],
        iterations: int,
        took: SampleWriter,
    ) -> None:
        model, config = self._model, self._config
        (first, count), whole = share(batches, rank), sum(batches)
        loss: Any = self._torch.nn.functional.cross_entropy
        while model.step < iterations and not self._stopped:
            indices = draw_samples(config.samples, config.seed, model.samples + first, count)
            took(model.step, indices)
            images, labels = (tensor.to(self._device) for tensor in self._images.batch(indices))
            # Gradients are averaged over ranks: so each sample counts 1 / whole, however divided.
            error = loss(network(images), labels, reduction="sum") * (len(batches) / whole)
            error.backward()
            with self._updating:
                if self._stopped:
                    return
                model.optimizer.step()
                model.optimizer.zero_grad()
                model.step += 1
                model.samples += whole
                due = model.step % config.every == 0 or model.step == iterations
                if rank == 0 and due:
                    self._write()
            if rank == 0 and due:
                self._say("saved", step=model.step, asked=False, written=True)

    def _write(self) -> None:
        model, config = self._model, self._config
        checkpoints.write(Path(config.folder), model.step, model.content(), config.keep)


def main() -> None:
    """Run this rank until its controller closes stdin."""
    serve(TrainingRank)


def serve(make: Callable[[TrainingRankConfig, Say], Any]) -> None:
    """Make a rank, beat, watch out for notices, and obey until the controller closes stdin.

    A rank has `step`, `train` and `save` as `TrainingRank` has them.
    """
    # Ctrl-C is the controller's: it has the last state saved before it ends its programs.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    config = TrainingRankConfig(**json.loads(sys.argv[1]))
    say = _one_at_a_time(answers())
    rank = make(config, say)
    say("ready")
    threading.Thread(target=_beat, args=(rank, config.beat_s, say), daemon=True).start()
    threading.Thread(target=_watch, args=(config, say), daemon=True).start()
    obey({"train": rank.train, "save": rank.save})


def _beat(rank: Any, every_s: float, say: Say) -> None:
    while True:
        say("beat", step=rank.step)
        time.sleep(every_s)


def _watch(config: TrainingRankConfig, say: Say) -> None:
    """Tell of the first notice to this node."""
    while (notice := notices.poll(config.notices)) is None:
        time.sleep(config.beat_s)
    say("notice", **notice)


def _one_at_a_time(say: Say) -> Say:
    """Return the same for several threads."""
    lock = threading.Lock()

    def locked(event: str, **facts: object) -> None:
        with lock:
            say(event, **facts)

    return locked


# What is trained: a network by name, on synthetic images that are told by their index.


LEARNING_RATE, MOMENTUM = 0.01, 0.9
CLASSES = 10


@dataclass(frozen=True)
class SyntheticImages:
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


class ModelReplica:
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


if __name__ == "__main__":
    main()
