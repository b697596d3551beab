"""The program that trains a PyTorch network on one device.

Started as `python -m profilers.torch_compute.program CONFIG_JSON`; see `torch_program.obey`. Its
one command is `train`: a batch size, a number of steps, and whether they rest.
"""

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import networks
from profilers.clusters import Node
from profilers.nodes import torch_program
from profilers.nodes.torch_program import Say
from profilers.nodes.torch_training import Recipe, Trainer, lay_out
from warehouse.records import Scenario

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


@dataclass(frozen=True)
class ComputeConfig:
    """What to train, with how many threads, and how.

    `replicated`: as the only replica of DistributedDataParallel, whose buckets are a copy of all
    gradients: making it takes time, and holding it decides which batch fits. `branches`: steps may
    leave out layers, for which it has to look then. `sharded`: its parameters are divided among all
    ranks instead. `source`: of a user's own model, the function
    that builds it and the folder that has it; nodes see the same files. The rest is its recipe.
    """

    interface: str
    dnn: str
    image_size: int
    threads: int
    inter_op_threads: int
    replicated: bool
    branches: bool
    source: Sequence[str] = ()
    precision: str = "float32"
    optimizer: str = "sgd"
    accumulate: int = 1
    memory_format: str = "contiguous"
    sharded: bool = False

    @property
    def recipe(self) -> Recipe:
        """How the network is trained."""
        return Recipe(self.precision, self.optimizer, self.accumulate, self.memory_format)

    @classmethod
    def of(
        cls,
        interface: str,
        scenario: Scenario,
        node: Node,
        *,
        replicated: bool = False,
        branches: bool = False,
    ) -> "ComputeConfig":
        """Return what a node needs to train a scenario's network.

        `replicated`: of all_reduce it is a replica, of sharded a part; a single device has none.
        """
        load, group = scenario.workload, node.group
        return cls(
            interface,
            load.dnn,
            load.image_size,
            group.threads,
            group.inter_op_threads,
            replicated and scenario.strategy.kind == "all_reduce",
            branches,
            networks.catalogue.source(load.dnn) or (),
            load.precision,
            load.optimizer,
            load.accumulate,
            load.memory_format,
            replicated and scenario.strategy.kind == "sharded",
        )

    def to_json(self) -> str:
        """Encode for the command line."""
        return json.dumps(asdict(self))


def build(config: ComputeConfig) -> "nn.Module":
    """Return the network to train, on the processor; sets PyTorch's threads, once a program."""
    import torch

    torch.set_num_threads(config.threads)
    torch.set_num_interop_threads(config.inter_op_threads)
    if config.source:
        return _own(config)
    return networks.build_pytorch(config.dnn, config.image_size, _CLASSES)


def draw(config: ComputeConfig, batch_size: int) -> "Batch":
    """Return random images, and labels of all classes in turn; what a user's model takes for such.

    A user's model may have a single output: its labels are all the first class.
    """
    import torch

    if config.source:
        return _own(config).draw(batch_size), torch.zeros(batch_size, dtype=torch.int64)
    images = torch.rand(batch_size, 3, config.image_size, config.image_size)
    return images, torch.arange(batch_size) % _CLASSES


def _own(config: ComputeConfig) -> "OwnNetwork":
    from networks.own_training import own_network

    target, folder = config.source
    return own_network(target, folder)


class Device:
    """A network on the node's first GPU, or its processor where it has none."""

    def __init__(self, config: ComputeConfig, say: Say) -> None:
        import torch

        network = build(config)
        device = "cuda:0" if torch.cuda.is_available() else "cpu"
        lay_out(network.to(device), config.recipe)
        called = _replica(network, config.branches) if config.replicated else None
        self.trainer = Trainer(network, partial(draw, config), device, called, config.recipe)
        self._say = say

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


def _replica(network: "nn.Module", branches: bool) -> "nn.Module":
    """Return the network as it is called where it is the only replica."""
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    any_dist: Any = dist
    on_gpu = next(network.parameters()).is_cuda
    any_dist.init_process_group(
        "nccl" if on_gpu else "gloo", store=any_dist.HashStore(), rank=0, world_size=1
    )
    return DistributedDataParallel(network, find_unused_parameters=branches)


def main() -> None:
    """Run this program until its controller closes stdin."""
    config = ComputeConfig(**json.loads(sys.argv[1]))
    say = torch_program.answers()
    device = Device(config, say)
    layers = [asdict(layer) for layer in device.trainer.layers]
    say("ready", layers=layers, **torch_program.own_facts(config.interface))
    torch_program.obey({"train": device.train})


if __name__ == "__main__":
    main()
