"""The program that trains a PyTorch network on one device.

Started as `python -m profilers.compute_node CONFIG_JSON`; see `torch_nodes.obey`. Its one command
is `train`: a batch size, a number of steps.
"""

import json
import sys
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

from profilers import torch_nodes
from profilers.clusters import Node
from profilers.torch_nodes import Say
from profilers.torch_training import Trainer
from warehouse.records import Scenario

if TYPE_CHECKING:
    from torch import nn

    from profilers.torch_training import Batch

_CLASSES = 10
_NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")
"""What PyTorch says, in a RuntimeError, where an allocation is refused."""


@dataclass(frozen=True)
class ComputeConfig:
    """What to train, with how many threads, and whether to hold a copy of all gradients.

    DistributedDataParallel has one, in its buckets; it decides which batch fits.
    """

    interface: str
    dnn: str
    image_size: int
    threads: int
    inter_op_threads: int
    with_buckets: bool

    @classmethod
    def of(
        cls, interface: str, scenario: Scenario, node: Node, *, with_buckets: bool = False
    ) -> "ComputeConfig":
        """Return what a node needs to train a scenario's network."""
        load, group = scenario.workload, node.group
        threads, inter_op_threads = group.threads, group.inter_op_threads
        return cls(interface, load.dnn, load.image_size, threads, inter_op_threads, with_buckets)

    def to_json(self) -> str:
        """Encode for the command line."""
        return json.dumps(asdict(self))


def build(config: ComputeConfig) -> "nn.Module":
    """Return the network to train, on the processor; sets PyTorch's threads, once a program."""
    import torch

    import networks

    torch.set_num_threads(config.threads)
    torch.set_num_interop_threads(config.inter_op_threads)
    return networks.build_pytorch(config.dnn, config.image_size, _CLASSES)


def draw(config: ComputeConfig, batch_size: int) -> "Batch":
    """Return random images, and labels of all classes in turn."""
    import torch

    images = torch.rand(batch_size, 3, config.image_size, config.image_size)
    return images, torch.arange(batch_size) % _CLASSES


class Device:
    """A network on the node's first GPU, or its processor where it has none."""

    def __init__(self, config: ComputeConfig, say: Say) -> None:
        import torch

        network = build(config)
        device = "cuda:0" if torch.cuda.is_available() else "cpu"
        self.trainer = Trainer(network, partial(draw, config), device)
        held = network.parameters() if config.with_buckets else ()
        # Ones, because memory counts only once it has been written.
        self._buckets = [torch.ones_like(one, requires_grad=False) for one in held]
        self._say = say

    def train(self, batch_size: int, steps: int, watched: bool) -> None:
        """Train steps and report each; `watched` as in `Trainer.step`."""
        try:
            done = [self.trainer.step(batch_size, watched=watched) for _ in range(steps)]
        except (RuntimeError, MemoryError) as error:
            if not any(words in str(error) for words in _NO_MEMORY):
                raise
            self._say("trained", steps=None)
        else:
            self._say("trained", steps=[asdict(step) for step in done])


def main() -> None:
    """Run this program until its controller closes stdin."""
    config = ComputeConfig(**json.loads(sys.argv[1]))
    say = torch_nodes.answers()
    device = Device(config, say)
    layers = [asdict(layer) for layer in device.trainer.layers]
    say("ready", layers=layers, **torch_nodes.own_facts(config.interface))
    torch_nodes.obey({"train": device.train})


if __name__ == "__main__":
    main()
