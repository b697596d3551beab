"""Keras models of users: traced in a child process, imported into graphs of TensorFlow 1."""

import json
import subprocess
import sys
from collections import Counter, OrderedDict
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import numpy
import pytest

from networks import catalogue, extraction, own_keras
from networks.own_model import OwnModel, own_model
from networks.own_step import imported_slopes

WORDS, WIDTH, LENGTH, CLASSES, BATCH = 10, 4, 3, 5, 4
PACKAGE = {
    "networks/__init__.py": "MINE = True",
    "models/__init__.py": """
        import keras
        from networks import MINE

        def sentences():
            return keras.Sequential([
                keras.layers.Embedding(10, 4),
                keras.layers.GlobalAveragePooling1D(),
                keras.layers.Dense(5, use_bias=False),
            ])
        """,
    "mine.py": """
        import numpy
        from models import sentences

        def build_keras(batch_size):
            print("Loading …", flush=True)
            return sentences(), numpy.tile([[0, 3, 9]], (batch_size, 1)).astype("int32")
        """,
}
ABOUT = """
    import json
    import sys
    sys.path.insert(0, sys.argv[1])
    import keras, numpy, tensorflow as tf
    from keras import layers
    from pathlib import Path
    from networks import own_keras

    def told(make, is_told=True):
        again = make if is_told else None
        try:
            found = own_keras.trace_model(make(3), "mine:build", (3,), again, Path.cwd())
        except ValueError as error:
            return str(error)
        step = Path(found["steps"]["3"]["file"])
        graph = tf.compat.v1.GraphDef.FromString(step.with_suffix(".pb").read_bytes())
        products = sum(node.op == "MatMul" for node in graph.node)
        return {**json.loads(step.read_text()), **found, "products": products}

    def network(filters=8, **options):
        return keras.Sequential([
            keras.Input((16, 16, 3), **options),
            layers.Conv2D(filters, 3), layers.BatchNormalization(), layers.Dropout(0.5),
            layers.GlobalAveragePooling2D(), layers.Dense(4),
        ])

    def frozen():
        model = network()
        model.layers[0].trainable = False
        return model

    class Decides(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = layers.Dense(3)
        def call(self, given):
            return self.dense(given) if float(tf.reduce_sum(given)) >= 0 else given

    class Graph(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = layers.Dense(4)
        def call(self, given):
            nodes, edges = given
            sent = tf.gather(self.dense(nodes), edges[0])
            return tf.math.unsorted_segment_sum(sent, edges[1], nodes.shape[0])

    class OfTimes(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = layers.Dense(4)
        def call(self, given):
            return self.dense(given)[-1]

    def heads():
        given = keras.Input((6,))
        hidden = layers.Dense(5)(given)
        return keras.Model(given, {"near": layers.Dense(4)(hidden), "far": layers.Dense(3)(hidden)})

    def images(n):
        return numpy.zeros((n, 16, 16, 3))

    print(json.dumps({
        "fine": told(lambda n: (network(), images(n))),
        "same": told(lambda n: (network(), images(n))),
        "other": told(lambda n: (network(9), images(n))),
        "mixed": told(lambda n: (keras.Sequential([
            layers.Conv2D(8, 3, dtype="mixed_bfloat16", name="half"), layers.Flatten(),
        ]), images(n))),
        "double": told(lambda n: (keras.Sequential([
            layers.Dense(3, dtype="float64", name="long"), layers.Flatten(),
        ]), images(n))),
        "frozen": told(lambda n: (frozen(), images(n))),
        "alone": told(lambda n: network()),
        "text": told(lambda n: (network(), numpy.array(["a", "b"]))),
        "fixed": told(lambda n: (keras.Sequential([
            keras.Input((4,), batch_size=3), layers.Lambda(lambda one: tf.reshape(one, (3, 2, 2))),
            layers.Flatten(), layers.Dense(2),
        ]), numpy.ones((n, 4)))),
        "wide": told(lambda n: (network(), numpy.zeros((n, 16, 16, 5)))),
        "loop": told(lambda n: (
            keras.Sequential([layers.Embedding(9, 4), layers.LSTM(4), layers.Dense(2)]),
            numpy.ones((n, 5), int),
        )),
        "decides": told(lambda n: (Decides(), numpy.ones((n, 4)))),
        "constant": told(lambda n: (keras.Sequential([keras.Input((4,)), layers.Flatten()]),
                                  numpy.ones((n, 4)))),
        "untold": told(lambda n: (network(), images(2)), is_told=False),
        "same batch": told(lambda n: (network(), images(2))),
        "depends": told(lambda n: (network(n), images(n))),
        "graph": told(lambda n: (Graph(), (numpy.ones((n, 8)), numpy.zeros((2, 3 * n), int)))),
        "times": told(lambda n: (OfTimes(), numpy.ones((7, n, 8)))),
        "heads": told(lambda n: (heads(), numpy.ones((n, 6)))),
    }))
    """


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> OwnModel:
    """Return a model of embedded words, in packages of the names of ours."""
    place = tmp_path_factory.mktemp("user")
    for name, text in PACKAGE.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(dedent(text))
    return own_model("mine:build_keras", (BATCH,), place)


@pytest.mark.exhaustive
def test_packages_of_the_names_of_ours_are_the_users(model: OwnModel) -> None:
    assert (model.framework, model.graph, model.image_size) == ("tensorflow", None, 0)
    assert model.parameter_count == WORDS * WIDTH + WIDTH * CLASSES
    assert model.dnn.startswith(catalogue.OWN) and len(model.dnn) == 12
    assert isinstance(model.steps[BATCH], Path)


def test_gradients_of_an_imported_step_are_those_of_the_model(
    model: OwnModel, graph: object
) -> None:
    import tensorflow.compat.v1 as tf1

    file = model.steps[BATCH]
    assert isinstance(file, Path)
    slopes = imported_slopes(file, model.dnn)
    (words,) = [
        operation.outputs[0]
        for operation in tf1.get_default_graph().get_operations()
        if operation.type == "PlaceholderWithDefault"
    ]
    variables = tf1.trainable_variables()
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        given, values, gradients = session.run((words, variables, [slope for slope, _ in slopes]))
    assert given.shape == (BATCH, LENGTH) and given.min() >= 0 and given.max() <= 9
    embeddings, weights = values
    seen = embeddings[given].mean(axis=1)
    logits = seen @ weights
    chances = numpy.exp(logits) / numpy.exp(logits).sum(axis=1, keepdims=True)
    wrong = (chances - numpy.eye(CLASSES)[numpy.arange(BATCH) % CLASSES]) / BATCH
    by_name = dict(zip([variable.name for _, variable in slopes], gradients, strict=True))
    of_words, of_weights = (by_name[variable.name] for variable in variables)
    numpy.testing.assert_allclose(of_weights, seen.T @ wrong, atol=1e-6)
    expected = numpy.zeros_like(embeddings)
    numpy.add.at(expected, given, (wrong @ weights.T)[:, None, :] / LENGTH)
    summed = numpy.zeros_like(embeddings)
    numpy.add.at(summed, of_words.indices, of_words.values)
    numpy.testing.assert_allclose(summed, expected, atol=1e-6)


def test_variables_of_an_imported_step_are_on_the_servers(model: OwnModel, graph: object) -> None:
    import tensorflow.compat.v1 as tf1

    file = model.steps[BATCH]
    assert isinstance(file, Path)
    with tf1.device(
        tf1.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:3")
    ):
        slopes = imported_slopes(file, model.dnn)
        tf1.train.GradientDescentOptimizer(0.1).apply_gradients(slopes)
    operations = tf1.get_default_graph().get_operations()
    places = {variable.handle.device for _, variable in slopes}
    assert places == {"/job:ps/task:0", "/job:ps/task:1"}
    reads = [
        operation
        for operation in operations
        if operation.type in ("ReadVariableOp", "ResourceGather")
    ]
    assert reads and all(read.device == read.inputs[0].op.device for read in reads)
    worked = {operation.device for operation in operations if operation.type == "MatMul"}
    assert worked == {"/job:worker/task:3"}


def test_operations_of_a_known_model_are_extracted(
    model: OwnModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "OWN_MODELS", OrderedDict())
    extraction.register_own_model(model)
    extracted = extraction.extract_graph(model.dnn, BATCH, 0)
    assert (extracted.dnn, extracted.parameter_count) == (model.dnn, model.parameter_count)
    types = Counter(operation.type for operation in extracted.operations)
    # The product, and the two of its gradients.
    assert types["MatMul"] == 3 and all(each.known for each in extracted.operations)
    assert types["ResourceApplyGradientDescent"] == types["ResourceScatterAdd"] == 1
    assert extraction.step_file(model.dnn, BATCH) == str(model.steps[BATCH])
    with pytest.raises(catalogue.UnknownNetwork, match="it has no step of 5 samples"):
        extraction.step_file(model.dnn, 5)
    assert extraction.step_file("small_cnn", 5) == ""


@pytest.mark.exhaustive
def test_what_becomes_of_other_models(tmp_path: Path) -> None:
    root = Path(catalogue.__file__).parents[1]
    ran = subprocess.run(
        [sys.executable, "-c", dedent(ABOUT), str(root)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    outcomes = json.loads(ran.stdout.splitlines()[-1])
    fine = outcomes["fine"]
    assert fine["image_size"] == 16
    assert fine["parameter_count"] == (3 * 9 * 8 + 8) + 2 * 8 + (8 * 4 + 4)
    # Means and variances that move, and the state of what drops out.
    assert len(fine["updates"]) == 3
    assert [tensor["dtype"] for tensor in fine["inputs"]] == ["float32"]
    assert fine["keras"] == outcomes["same"]["keras"] != outcomes["other"]["keras"]
    # What is frozen is in the name, and has no gradients in the step.
    assert outcomes["frozen"]["keras"] != fine["keras"]
    assert outcomes["frozen"]["parameter_count"] == fine["parameter_count"] - (3 * 9 * 8 + 8)
    assert "layer half computes as mixed_bfloat16, expected float32" in outcomes["mixed"]
    assert "layer long computes as float64, expected float32" in outcomes["double"]
    assert "found the model alone; return both" in outcomes["alone"]
    assert "found str" in outcomes["text"] and "text is turned into numbers" in outcomes["text"]
    assert "leave batch_size out of keras.Input" in outcomes["fixed"]
    assert "its forward pass failed" in outcomes["wide"]
    assert "it has a loop (" in outcomes["loop"] and "unroll=True" in outcomes["loop"]
    assert "its forward pass failed" in outcomes["decides"]
    assert "depends on its variables" in outcomes["constant"]
    assert "asked for a batch of 3, it gave a tensor of shape [2, 16, 16, 3]" in outcomes["untold"]
    assert "it takes no argument batch_size" in outcomes["untold"]
    assert "is the same whatever batch_size it is told" in outcomes["same batch"]
    assert "variables depend on batch_size" in outcomes["depends"]
    # What has another first dimension than the batch stays as the function gave it.
    given = [tensor["shape"] for tensor in outcomes["graph"]["inputs"]]
    assert (given, outcomes["graph"]["not_batched"]) == ([[3, 8], [2, 9]], ["input 2 [2, 9]"])
    assert outcomes["times"]["inputs"][0]["shape"] == [7, 3, 8]
    # Three layers forward, their weights' gradients, and those of what both heads were given.
    assert outcomes["heads"]["products"] == 3 + 3 + 2
    assert not any("\n" in outcome for outcome in outcomes.values() if isinstance(outcome, str))


def test_keras_on_another_backend_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Model:
        built = True

    keras = SimpleNamespace(Model=Model, config=SimpleNamespace(backend=lambda: "torch"))
    monkeypatch.setitem(sys.modules, "keras", keras)
    with pytest.raises(ValueError, match=r"Keras runs on torch here.* unset KERAS_BACKEND"):
        own_keras.trace_model((Model(), numpy.ones((2, 3))), "mine:build", (2,), None, tmp_path)
