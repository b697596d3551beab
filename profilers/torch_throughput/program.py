"""The program of a rank that trains with DistributedDataParallel, or FullyShardedDataParallel.

Commands: `join` and `group` of `profilers.nodes.torch_rank`, `replicate` (members make replicas of
one network, or parts of it), `train`.
"""

import gc
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from profilers import clock
from profilers.nodes.program import Say, serve
from profilers.nodes.torch_network import TrainedNetwork
from profilers.nodes.torch_rank import Rank
from profilers.nodes.torch_training import TrainingStep, shard

_BATCHES = 2
"""Drawn before training and taken in turn: loading data is not what is measured."""


class Replica:
    """One rank's replica of the network, or part of it; of a single device the network itself."""

    def __init__(self, config: dict[str, Any], rank: Rank, say: Say) -> None:
        self._trained = TrainedNetwork.model_validate(config["network"])
        self._network = self._trained.build(config["threads"], config["inter_op_threads"])
        self._rank, self._say = rank, say
        self._model: Any = None
        self._training: TrainingStep | None = None

    def replicate(self) -> None:
        """Make the networks of the members one; all of them take part, with their first group."""
        from torch.nn.parallel import DistributedDataParallel

        # What the one before has hung on the parameters goes with it.
        self._model = self._training = None
        gc.collect()
        device, wrapper, load = self._rank.device, self._trained.wrapper, self._trained.workload
        network = self._network
        if wrapper == "sharded":
            drawn = getattr(network, "inputs", None)  # of a user's model, with each batch
            network = deepcopy(network, {id(drawn): drawn})
        self._model = network.to(device)
        if wrapper == "sharded":
            from torch.distributed.device_mesh import DeviceMesh

            mesh = DeviceMesh.from_group(self._rank.groups[0], device.type)
            shard(network, mesh, load.precision)
        self._training = TrainingStep(network, load, device.type)
        if wrapper == "all_reduce":
            self._model = DistributedDataParallel(
                self._network,
                device_ids=[device] if device.type == "cuda" else None,
                process_group=self._rank.groups[0],
            )
        self._say("replicated")

    def train(self, batch_size: int, steps: int) -> None:
        """Train steps with the other members; report when each began and the last one ended.

        Times are microseconds of UTC.
        """
        device, training = self._rank.device, self._training
        assert training is not None
        batches = [self._trained.draw(batch_size) for _ in range(_BATCHES)]
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


def _commands(config: dict[str, Any], say: Say) -> dict[str, Callable[..., None]]:
    rank = Rank(config, say)
    replica = Replica(config, rank, say)
    return {**rank.commands(), "replicate": replica.replicate, "train": replica.train}


if __name__ == "__main__":
    serve(_commands)
