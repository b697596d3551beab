"""The program that times every operator of a PyTorch network's training step on a processor.

Commands: `train`, steps as they are, and `time_operators`.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from profilers.nodes.program import Say, serve
from profilers.nodes.torch_network import TrainedNetwork
from profilers.nodes.torch_training import Trainer


def timer(config: dict[str, Any], say: Say) -> dict[str, Callable[..., None]]:
    """Return the commands of a network on the node's processor, with one batch drawn once."""
    trained = TrainedNetwork.model_validate(config["network"])
    network = trained.build(config["threads"], config["inter_op_threads"])
    batch_size = trained.workload.batch_size
    # Drawn once: drawing is no part of the step.
    batch = trained.draw(batch_size)
    trainer = Trainer(network, lambda _: batch, trained.workload)

    def train(steps: int) -> None:
        """Train steps; report the seconds of each, and the number of trained parameters."""
        seconds = [trainer.step(batch_size).seconds for _ in range(steps)]
        parameter_count = sum(layer.parameter_count for layer in trainer.layers)
        say("trained", seconds=seconds, parameter_count=parameter_count)

    def time_operators(steps: int) -> None:
        """Train steps; report their operators, and the microseconds of each in each step."""
        from networks.pytorch_graph import operators_of

        training, (images, labels) = trainer.training, batch
        step = partial(training.run, network, training.prepared(images), labels)
        step_operators, times_us = zip(*(operators_of(step) for _ in range(steps)), strict=True)
        # Scalars of Adam, which corrects its moments for the number of steps, differ in each step.
        shapes = [
            [replace(operator, attributes="") for operator in operators]
            for operators in step_operators
        ]
        same = all(operator == shapes[0] for operator in shapes)
        rows = [asdict(operator) for operator in step_operators[0]] if same else []
        say("timed", operators=rows, times_us=times_us)

    return {"train": train, "time_operators": time_operators}


if __name__ == "__main__":
    serve(timer)
