import math
from collections import Counter
from functools import cache
from typing import Any

import numpy
import pytest

import networks
from tests.exhaustive import exhaustive

PLAIN = (
    *("small_cnn", "alexnet", "vgg11", "googlenet", "squeezenet", "cuda_convnet"),
    *("vit_tiny", "stacked_lstm"),
)
NORMALIZED = "mobilenet_v2", "mobilenet_v3_small", "inception_v4"
WORKER = "/job:worker/task:3"


def parameters(graph: Any) -> int:
    variables = graph.get_collection("trainable_variables")
    return sum(variable.shape.num_elements() for variable in variables)


def operation_types(graph: Any) -> Counter[str]:
    return Counter(operation.type for operation in graph.get_operations())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("alexnet", 62_378_344),
        ("vgg11", 132_863_336),
        ("squeezenet", 1_235_496),
        *exhaustive(
            ("googlenet", 6_998_552), ("resnet50", 25_583_592), ("inception_v4", 42_679_816)
        ),
    ],
)
def test_published_parameter_counts(graph: Any, name: str, expected: int) -> None:
    images, _ = networks.synthetic_batch(1, 224, 1000)
    logits = networks.build_tensorflow(name, images, 1000)
    assert logits.shape.as_list() == [1, 1000]
    assert parameters(graph) == expected


@pytest.mark.parametrize(
    ("name", "width", "published"), [("vit_tiny", 192, 5_717_416), ("vit_small", 384, 22_050_664)]
)
def test_transformers_have_the_published_parameters_but_smaller_patches(
    graph: Any, name: str, width: int, published: int
) -> None:
    images, _ = networks.synthetic_batch(1, 224, 1000)
    networks.build_tensorflow(name, images, 1000)
    # 28² places instead of 14², and 8² pixels of three colours a patch instead of 16².
    assert parameters(graph) == published + width * (28**2 - 14**2 - 3 * (16**2 - 8**2))


@pytest.mark.parametrize(("name", "layers"), [("row_lstm", 1), ("stacked_lstm", 2)])
def test_recurrent_networks_have_four_gates_a_layer(graph: Any, name: str, layers: int) -> None:
    networks.training_loss(name, 2, 32)
    gates = (96 + 512 + 1) * 4 * 512 + (layers - 1) * (512 + 512 + 1) * 4 * 512
    assert parameters(graph) == gates + 513 * 10
    # One product for each row and layer, and one for the logits.
    assert operation_types(graph)["MatMul"] == 32 * layers + 1


@pytest.mark.parametrize("name", ["small_cnn", "stacked_lstm", *exhaustive(*PLAIN[1:-1])])
def test_smallest_image_trains_every_variable(graph: Any, name: str) -> None:
    import tensorflow.compat.v1 as tf1

    loss = networks.training_loss(name, 2, networks.minimum_image_size(name))
    assert loss.shape.rank == 0
    assert all(gradient is not None for gradient in tf1.gradients(loss, tf1.trainable_variables()))
    assert not tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)


@pytest.mark.parametrize(
    ("name", "norms", "dropouts"),
    [
        ("small_cnn", 0, 0),
        ("alexnet", 2, 2),
        ("vgg11", 0, 2),
        ("googlenet", 2, 1),
        ("squeezenet", 0, 1),
        ("cuda_convnet", 2, 0),
    ],
)
def test_normalization_and_dropout_are_those_of_the_papers(
    graph: Any, name: str, norms: int, dropouts: int
) -> None:
    networks.training_loss(name, 2, 64)
    assert operation_types(graph)["LRN"] == norms
    drawn = [o for o in graph.get_operations() if o.type == "RandomUniform" and "dropout" in o.name]
    assert len(drawn) == dropouts


@cache
def placed(name: str) -> Any:
    """Return the loss of a network that one parameter server and a worker train; its `graph`."""
    import tensorflow.compat.v1 as tf1

    tf1.disable_v2_behavior()
    placement = tf1.train.replica_device_setter(ps_tasks=1, worker_device=WORKER)
    with tf1.Graph().as_default(), tf1.device(placement):
        return networks.training_loss(name, 2, 75)


@pytest.mark.parametrize(
    "name",
    ["small_cnn", "stacked_lstm", "mobilenet_v2", *exhaustive(*PLAIN[1:-1], *NORMALIZED[1:])],
)
def test_parameter_server_holds_all_variables(name: str) -> None:
    loss = placed(name)
    assert loss.graph.get_collection("trainable_variables")
    held = [*loss.graph.get_collection("variables"), *loss.graph.get_collection("update_ops")]
    assert {thing.device for thing in held} == {"/job:ps/task:0"}
    assert loss.device == WORKER
    products = [o for o in loss.graph.get_operations() if o.type in ("Conv2D", "MatMul")]
    assert {operation.device for operation in products} == {WORKER}


@pytest.mark.parametrize("name", NORMALIZED)
def test_normalized_networks_are_built_for_training(name: str) -> None:
    graph = placed(name).graph
    normalizations = [o for o in graph.get_operations() if o.type == "FusedBatchNormV3"]
    assert all(operation.get_attr("is_training") for operation in normalizations)
    moving = [v for v in graph.get_collection("variables") if "moving_" in v.name]
    updates = graph.get_collection("update_ops")
    assert len(updates) == len(moving) == 2 * len(normalizations) > 0
    assert operation_types(graph)["PlaceholderWithDefault"] == 0


def test_eager_mode_is_refused(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow.compat.v1 as tf1

    monkeypatch.setattr(tf1, "executing_eagerly_outside_functions", lambda: True)
    with pytest.raises(RuntimeError, match=r"DNN 'small_cnn' .*disable_v2_behavior"):
        networks.training_loss("small_cnn", 1, 32)


def test_synthetic_batch_is_small_in_the_graph_and_new_in_each_step(graph: Any) -> None:
    import tensorflow.compat.v1 as tf1

    images, labels = networks.synthetic_batch(12, 64, 10)
    assert len(graph.as_graph_def().SerializeToString()) < 10_000
    with tf1.Session() as session:
        first, numbers = session.run([images, labels])
        second = session.run(images)
    assert first.shape == (12, 64, 64, 3)
    assert first.dtype == numpy.float32
    assert numbers.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]
    assert not numpy.array_equal(first, second)


def test_training_lowers_the_loss_to_that_of_a_guess_among_the_labels(graph: Any) -> None:
    import tensorflow.compat.v1 as tf1

    loss = networks.training_loss("small_cnn", 4, 16, num_classes=10)
    train = tf1.train.GradientDescentOptimizer(0.01).minimize(loss)
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        losses = [session.run([loss, train])[0] for _ in range(60)]
    assert losses[0] > 2.0
    assert numpy.mean(losses[-10:]) == pytest.approx(math.log(4), abs=0.15)
