"""The program that times every operator of a PyTorch network's training step on a processor.

Started as `python -m profilers.torch_operations.program CONFIG_JSON`; see `torch_program.obey`. Its
commands are `train`, steps as they are, and `time_operators`.
"""

import json
import sys
from dataclasses import asdict, replace
from functools import partial

from profilers.nodes import torch_program
from profilers.nodes.torch_program import Say
from profilers.nodes.torch_training import Trainer
from profilers.torch_compute.program import ComputeConfig, build, draw


class OperatorTimer:
    """A network on the node's processor, and batches of one size."""

    def __init__(self, config: ComputeConfig, batch_size: int, say: Say) -> None:
        self._network, self._say, self._batch_size = build(config), say, batch_size
        # Drawn once: drawing is no part of the step.
        self._batch = draw(config, batch_size)
        self._trainer = Trainer(self._network, lambda _: self._batch, recipe=config.recipe)

    @property
    def parameter_count(self) -> int:
        """The number of trained parameters."""
        return sum(layer.parameter_count for layer in self._trainer.layers)

    def train(self, steps: int) -> None:
        """Train steps; report the seconds of each."""
        done = (self._trainer.step(self._batch_size) for _ in range(steps))
        self._say("trained", seconds=[step.seconds for step in done])

    def time_operators(self, steps: int) -> None:
        """Train steps; report their operators, and the microseconds of each in each step."""
        from networks.pytorch_graph import operators_of

        training, (images, labels) = self._trainer.training, self._batch
        step = partial(training.run, self._network, training.prepared(images), labels)
        step_operators, times_us = [], []
        for _ in range(steps):
            operators, us = operators_of(step)
            step_operators.append(operators)
            times_us.append(us)
        # Scalars of Adam, which corrects its moments for the number of steps, differ in each step.
        shapes = [
            [replace(operator, attributes="") for operator in operators]
            for operators in step_operators
        ]
        same = all(operator == shapes[0] for operator in shapes)
        rows = [asdict(operator) for operator in step_operators[0]] if same else []
        self._say("timed", operators=rows, times_us=times_us)


def main() -> None:
    """Run this program until its controller closes stdin."""
    fields = json.loads(sys.argv[1])
    batch_size = fields.pop("batch_size")
    config = ComputeConfig(**fields)
    say = torch_program.answers()
    network = OperatorTimer(config, batch_size, say)
    facts = torch_program.own_facts(config.interface)
    say("ready", parameter_count=network.parameter_count, **facts | {"devices": []})
    torch_program.obey({"train": network.train, "time_operators": network.time_operators})


if __name__ == "__main__":
    main()
