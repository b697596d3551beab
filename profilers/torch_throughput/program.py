"""The program of a rank that trains with DistributedDataParallel, or FullyShardedDataParallel.

Started as `python -m profilers.torch_throughput.program CONFIG_JSON`; see `torch_program.obey`.
Commands: `join` and `group` of `profilers.allreduce.program`, `replicate` (members make replicas of
one network, or parts of it), `train`.
"""

import gc
import json
import sys
from copy import deepcopy
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from profilers import clock
from profilers.allreduce.program import AllreduceRank, AllreduceRankConfig
from profilers.nodes import torch_program
from profilers.nodes.torch_program import Say
from profilers.nodes.torch_training import TrainingStep, shard
from profilers.torch_compute.program import ComputeConfig, build, draw

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
    """One rank's replica of the network, or part of it; of a single device the network itself."""

    def __init__(self, config: DDPConfig, rank: AllreduceRank, say: Say) -> None:
        self._network: nn.Module = build(config.compute)
        self._config, self._rank, self._say = config, rank, say
        self._model: Any = None
        self._training: TrainingStep | None = None

    def replicate(self) -> None:
        """Make the networks of the members one; all of them take part, with their first group."""
        from torch.nn.parallel import DistributedDataParallel

        # What the one before has hung on the parameters goes with it.
        self._model = self._training = None
        gc.collect()
        device, config = self._rank.device, self._config.compute
        network = deepcopy(self._network) if config.sharded else self._network
        self._model = network.to(device)
        if config.sharded:
            from torch.distributed.device_mesh import DeviceMesh

            mesh = DeviceMesh.from_group(self._rank.groups[0], device.type)
            shard(network, mesh, config.precision)
        self._training = TrainingStep(network, config.recipe, device.type)
        if config.replicated:
            self._model = DistributedDataParallel(
                self._network,
                device_ids=[device] if device.type == "cuda" else None,
                process_group=self._rank.groups[0],
                find_unused_parameters=config.branches,
            )
        self._say("replicated")

    def train(self, batch_size: int, steps: int) -> None:
        """Train steps with the other members; report when each began and the last one ended.

        Times are microseconds of UTC.
        """
        device, config, training = self._rank.device, self._config.compute, self._training
        assert training is not None
        batches = [draw(config, batch_size) for _ in range(_BATCHES)]
        ready = [
            (training.prepared(images.to(device)), labels.to(device)) for images, labels in batches
        ]
        self._rank.barrier()
        times_us = [clock.now_us()]
        for step in range(steps):
            training.run(self._model, *ready[step % _BATCHES])
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
