"""The program on a node of a synchronous-SGD job: a replica that averages gradients with others.

As TensorFlow's MultiWorkerMirroredStrategy does it by default: once all gradients are there, they
are packed into one tensor, which a ring of the nodes reduces. Commands: those of
`profilers.nodes.tf_stepper`, `run_together`, `meet`, `shapes` and `digest`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from profilers.nodes.program import Say, serve
from profilers.nodes.tf_stepper import (
    LEARNING_RATE,
    Stepper,
    session_config,
    start_server,
    time_step,
)

_DESCRIBED = ("name", "inputs", "outputs", "attributes", "input_bytes", "output_bytes")


class TensorFlowReplica(Stepper):
    """One replica's graph and session: its step alone, and one for each group of several.

    Args:
        config: of its program: `workers` are host:port of all, `world_sizes` how many may step,
            `index` which it is; `dnn`, `image_size` and `batch_size`; and threads.
        say: answers the controller.
    """

    def __init__(self, config: dict[str, Any], say: Say) -> None:
        import tensorflow.compat.v1 as tf

        import networks

        tf.disable_v2_behavior()
        index, size = config["index"], (config["dnn"], config["batch_size"], config["image_size"])
        device = f"/job:worker/task:{index}"
        options = session_config(config["threads"], config["inter_op_threads"])
        options.experimental.collective_group_leader = "/job:worker/replica:0/task:0"
        options.device_filters.append(device)
        server = start_server({"worker": config["workers"]}, "worker", index, options)
        groups = [world for world in config["world_sizes"] if 1 < world and index < world]
        with tf.device(device):
            loss = networks.training_loss(*size)
            optimizer = tf.train.GradientDescentOptimizer(LEARNING_RATE)
            slopes = [pair for pair in optimizer.compute_gradients(loss) if pair[0] is not None]
            updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
            alone = tf.group(optimizer.apply_gradients(slopes), *updates)
            together = _together(slopes, groups, optimizer, updates)
            initializer = tf.global_variables_initializer()
        self._variables = [variable for _, variable in slopes]
        session = tf.Session(server.target, config=options)
        super().__init__(session, initializer, alone, say)
        self._together = {size: session.make_callable(step) for size, (step, _) in together.items()}
        self._meet = {size: session.make_callable(meet) for size, (_, meet) in together.items()}

    def commands(self) -> dict[str, Callable[..., None]]:
        """Return what it obeys, by name."""
        own = (self.run_together, self.meet, self.shapes, self.digest)
        return {**super().commands(), **{command.__name__: command for command in own}}

    def meet(self, world_size: int) -> None:
        """Let replicas of a group start from the same variables: the mean of their own."""
        self._meet[world_size]()
        self._say("met")

    def run_together(self, world_size: int, steps: int) -> None:
        """Run steps of a group and report their start and end times."""
        step = self._run_step if world_size == 1 else self._together[world_size]
        self._say("ran", times=[time_step(step) for _ in range(steps)])

    def shapes(self) -> None:
        """Report what the operations of the step alone work on, and the number of parameters."""
        from networks.operation_graph import step_operations

        operations = step_operations(self._session.graph, self._train_step.name)
        self._say(
            "shapes",
            operations=[
                [getattr(operation, name) for name in _DESCRIBED]
                for operation in operations
                if operation.known
            ],
            parameter_count=sum(variable.shape.num_elements() for variable in self._variables),
        )

    def digest(self) -> None:
        """Report the sum of all variables' magnitudes: replicas in step have the same."""
        values = self._session.run(self._variables)
        self._say("digest", value=float(sum(abs(value).sum(dtype="f8") for value in values)))


def _together(
    slopes: Sequence[tuple[Any, Any]], groups: Sequence[int], optimizer: Any, updates: Sequence[Any]
) -> dict[int, tuple[Any, Any]]:
    """Return, for each group's size, a training step and what gives all the same variables."""
    import tensorflow.compat.v1 as tf

    if not groups:
        return {}
    gradients, variables = zip(*slopes, strict=True)
    average_gradients = _averages(gradients)
    average_variables = _averages([tf.convert_to_tensor(variable) for variable in variables])
    steps = {}
    for size in groups:
        # Instances of a group are told apart by their keys.
        reduced = average_gradients(size, 1)
        step = optimizer.apply_gradients(zip(reduced, variables, strict=True))
        pairs = zip(variables, average_variables(size, 2), strict=True)
        meet = tf.group(*(tf.assign(variable, mean) for variable, mean in pairs))
        steps[size] = tf.group(step, *updates), meet
    return steps


def _averages(tensors: Sequence[Any]) -> Callable[[int, int], list[Any]]:
    """Pack tensors into one; return what reduces it to the mean over a group and unpacks that."""
    import tensorflow.compat.v1 as tf

    packed = tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], axis=0)
    sizes = [tensor.shape.num_elements() for tensor in tensors]

    def average(group_size: int, instance: int) -> list[Any]:
        mean = tf.raw_ops.CollectiveReduce(
            input=packed,
            group_size=group_size,
            group_key=group_size,
            instance_key=10 * group_size + instance,
            merge_op="Add",
            final_op="Div",
            subdiv_offsets=[0],
            communication_hint="ring",
        )
        parts = tf.split(mean, sizes)
        return [tf.reshape(part, tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]

    return average


if __name__ == "__main__":
    serve(lambda config, say: TensorFlowReplica(config, say).commands())
