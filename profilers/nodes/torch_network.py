"""What a program on a node trains with PyTorch: a network, its batches, and how it is wrapped."""

import random
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import networks
from networks.own_huggingface import PREFIX, with_config
from profilers.nodes.program import Say, serve
from profilers.nodes.torch_training import Trainer, lay_out
from warehouse.records import Record, Scenario, StrategyKind, TrainingWorkload

if TYPE_CHECKING:
    from torch import nn

    from networks.own_torch import OwnNetwork
    from profilers.nodes.torch_training import Batch

_CLASSES = 10
_EXCHANGE_S = 0.02, 0.04
"""Shortest and longest rest where data-parallel training would exchange gradients. A node below one
core gets its quota in pieces of some 10 ms: after such a wait it has a new one."""
_NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")
"""What PyTorch says, in a RuntimeError, where an allocation is refused."""


class TrainedNetwork(Record):
    """What a node trains, and how; its JSON is part of the config of programs.

    Attributes:
        workload: its network, sizes and recipe.
        wrapper: all_reduce: a replica of DistributedDataParallel, whose buckets are a copy of all
            gradients: making it takes time, and holding it decides which batch fits. sharded: its
            parameters are divided among all ranks. single: neither.
        source: of a user's own model, the function that builds it and the folder that has it, which
            nodes see, too; of Hugging Face's its config.
    """

    workload: TrainingWorkload
    wrapper: StrategyKind = "single"
    source: tuple[str, ...] = ()

    @classmethod
    def of(cls, scenario: Scenario, *, wrapped: bool = True) -> Self:
        """Return what nodes of a scenario train, as it wraps the network or as it is."""
        source = networks.catalogue.source(scenario.workload.dnn) or ()
        if source and source[0].startswith(PREFIX):
            source = with_config(source[0], Path(source[1])), source[1]
        wrapper = scenario.strategy.kind if wrapped else "single"
        return cls(workload=scenario.workload, wrapper=wrapper, source=source)

    def build(self, threads: int, inter_op_threads: int) -> "nn.Module":
        """Return the network, on the processor; sets PyTorch's threads, once a program."""
        import torch

        torch.set_num_threads(threads)
        torch.set_num_interop_threads(inter_op_threads)
        if self.source:
            return self._own()
        load = self.workload
        return networks.build_pytorch(load.dnn, load.image_size, _CLASSES)

    def draw(self, batch_size: int) -> "Batch":
        """Return random images, and labels of all classes in turn; of a user's model its inputs.

        A user's model may have a single output: its labels are all the first class.
        """
        import torch

        if self.source:
            return self._own().draw(batch_size), torch.zeros(batch_size, dtype=torch.int64)
        side = self.workload.image_size
        return torch.rand(batch_size, 3, side, side), torch.arange(batch_size) % _CLASSES

    def _own(self) -> "OwnNetwork":
        from networks.own_training import own_network

        target, folder = self.source
        return own_network(target, folder)


class Device:
    """A network on the node's first GPU, or its processor where it has none.

    Args:
        config: of the program: `network`, as JSON of `TrainedNetwork`, and threads.
        say: answers the controller.
    """

    def __init__(self, config: dict[str, Any], say: Say) -> None:
        import torch

        trained = TrainedNetwork.model_validate(config["network"])
        network = trained.build(config["threads"], config["inter_op_threads"])
        device = "cuda:0" if torch.cuda.is_available() else "cpu"
        lay_out(network.to(device), trained.workload)
        called = _replica(network) if trained.wrapper == "all_reduce" else None
        self.trainer = Trainer(network, trained.draw, trained.workload, device, called)
        self._say = say

    def commands(self) -> dict[str, Callable[..., None]]:
        """Return what it obeys, by name."""
        return {"train": self.train, "layers": self.layers}

    def layers(self) -> None:
        """Report the layers of the network."""
        self._say("layers", layers=[asdict(layer) for layer in self.trainer.layers])

    def train(self, batch_size: int, steps: int, watched: bool, resting: bool) -> None:
        """Train steps and report each; `watched` as in `Trainer.step`.

        `resting`: each waits as long as an exchange of gradients might take, by chance.
        """
        try:
            done = [
                self.trainer.step(
                    batch_size,
                    watched=watched,
                    pause_s=random.uniform(*_EXCHANGE_S) if resting else 0.0,
                )
                for _ in range(steps)
            ]
        except (RuntimeError, MemoryError) as error:
            if not any(words in str(error) for words in _NO_MEMORY):
                raise
            self._say("trained", steps=None)
        else:
            self._say("trained", steps=[asdict(step) for step in done])


def _replica(network: "nn.Module") -> "nn.Module":
    """Return the network as it is called where it is the only replica."""
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    any_dist: Any = dist
    backend = "nccl" if next(network.parameters()).is_cuda else "gloo"
    any_dist.init_process_group(backend, store=any_dist.HashStore(), rank=0, world_size=1)
    return DistributedDataParallel(network)


if __name__ == "__main__":
    serve(lambda config, say: Device(config, say).commands())
