"""The program of a rank that trains with PyTorch's DistributedDataParallel.

Started as `python -m profilers.nodes.ddp CONFIG_JSON`; see `torch_program.obey`. Commands: `join`
and `group` of `profilers.nodes.allreduce`, `replicate` (members make replicas of one network),
`train`.
"""

import gc
import json
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from profilers import clock
from profilers.nodes import torch_program
from profilers.nodes.allreduce import AllreduceRank, AllreduceRankConfig
from profilers.nodes.compute import ComputeConfig, build, draw
from profilers.nodes.torch_program import Say
from profilers.nodes.torch_training import LEARNING_RATE

if TYPE_CHECKING:
    from torch import nn

_BATCHES = 2
"""Drawn before training and taken in turn: loading data is not what is measured."""


@dataclass(frozen=True)
class DDPConfig:
    """Which rank, and what it trains."""

    rank: AllreduceRankConfig
    compute: ComputeConfig

    def to_json(self) -> str:
        """Encode for the command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "DDPConfig":
        """Read what `to_json` wrote."""
        fields = json.loads(text)
        return cls(AllreduceRankConfig(**fields["rank"]), ComputeConfig(**fields["compute"]))


class DDPReplica:
    """One rank's replica of the network."""

    def __init__(self, config: DDPConfig, rank: AllreduceRank, say: Say) -> None:
        self._network: nn.Module = build(config.compute)
        self._config, self._rank, self._say = config, rank, say
        self._model: Any = None
        self._optimizer: Any = None

    def replicate(self) -> None:
        """Make the networks of the members one; all of them take part, with their first group."""
        import torch
        from torch.nn.parallel import DistributedDataParallel

        # What the one before has hung on the parameters goes with it.
        self._model = self._optimizer = None
        gc.collect()
        device = self._rank.device
        self._model = DistributedDataParallel(
            self._network.to(device),
            device_ids=[device] if device.type == "cuda" else None,
            process_group=self._rank.groups[0],
            find_unused_parameters=self._config.compute.branches,
        )
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=LEARNING_RATE)
        self._say("replicated")

    def train(self, batch_size: int, steps: int) -> None:
        """Train steps with the other members; report when each began and the last one ended.

        Times are microseconds of UTC.
        """
        from torch.nn.functional import cross_entropy

        device, config = self._rank.device, self._config.compute
        batches = [draw(config, batch_size) for _ in range(_BATCHES)]
        ready = [(images.to(device), labels.to(device)) for images, labels in batches]
        self._rank.barrier()
        times_us = [clock.now_us()]
        for step in range(steps):
            images, labels = ready[step % _BATCHES]
            loss: Any = cross_entropy(self._model(images), labels)
            loss.backward()
            self._optimizer.step()
            self._optimizer.zero_grad()
            self._rank.settle()
            times_us.append(clock.now_us())
        self._say("trained", times_us=times_us)


def main() -> None:
    """Run this rank until its controller closes stdin."""
    config = DDPConfig.from_json(sys.argv[1])
    say = torch_program.answers()
    rank = AllreduceRank(config.rank, say)
    replica = DDPReplica(config, rank, say)
    say("ready", **torch_program.own_facts(config.rank.interface))
    torch_program.obey(
        {
            "join": rank.join,
            "group": rank.group,
            "replicate": replica.replicate,
            "train": replica.train,
        }
    )


if __name__ == "__main__":
    main()
