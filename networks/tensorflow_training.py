"""What a training program asks for: logits, a batch of input, and the loss, in a TF 1 graph."""

from typing import TYPE_CHECKING

from networks.catalogue import APPLICATIONS, check

if TYPE_CHECKING:
    from tensorflow import Tensor


def build_tensorflow(name: str, images: "Tensor", num_classes: int = 10) -> "Tensor":
    """Build a network in training mode in the current `tf.compat.v1` graph and device scope.

    Args:
        name: One of `names("tensorflow")`.
        images: float32 [batch, side, side, channels], sides known.
        num_classes: Length of a row of logits.

    Returns:
        Logits, float32 [batch, num_classes]. Updates of moving averages, if the network has any,
        are in the graph's collection `UPDATE_OPS`.

    Raises:
        UnknownNetwork: no network has that name.
        ValueError: the images are too small for the network.
        RuntimeError: TensorFlow 2 behavior is on.
    """
    check(name, min(images.shape[1:3].as_list()))
    import tensorflow.compat.v1 as tf1

    from networks import tensorflow_inception_v4, tensorflow_networks

    if tf1.executing_eagerly_outside_functions():
        raise RuntimeError(
            f"DNN {name!r} is built in graph mode, found TensorFlow 2 behavior: "
            "call tf.compat.v1.disable_v2_behavior() when the program starts"
        )
    # A parameter server outlives a session and knows variables by name alone.
    with tf1.variable_scope(name):
        if name in APPLICATIONS:
            return tensorflow_networks.application(name, images, num_classes)
        known = tensorflow_inception_v4 if name == "inception_v4" else tensorflow_networks
        logits: Tensor = getattr(known, name)(images, num_classes)
        return logits


def synthetic_batch(
    batch_size: int, image_size: int, num_classes: int = 10
) -> tuple["Tensor", "Tensor"]:
    """Return a batch that costs next to nothing: grey images, labels that count through classes.

    The grey is drawn anew in each step: TensorFlow would fold the first layers into a constant
    batch, and write all of its pixels into every trace.

    Returns:
        Images, float32 [batch_size, image_size, image_size, 3] in [0.4, 0.6), and labels,
        int32 [batch_size].
    """
    import tensorflow.compat.v1 as tf1

    grey = tf1.random_uniform((), 0.4, 0.6, name="grey")
    images = tf1.fill((batch_size, image_size, image_size, 3), grey, name="images")
    labels = [index % num_classes for index in range(batch_size)]
    return images, tf1.constant(labels, tf1.int32, name="labels")


def training_loss(name: str, batch_size: int, image_size: int, num_classes: int = 10) -> "Tensor":
    """Build a network on a synthetic batch and return its mean softmax cross entropy, a scalar.

    Raises:
        UnknownNetwork: no network has that name.
        ValueError: the images are too small for the network.
        RuntimeError: TensorFlow 2 behavior is on.
    """
    check(name, image_size)
    import tensorflow.compat.v1 as tf1

    images, labels = synthetic_batch(batch_size, image_size, num_classes)
    logits = build_tensorflow(name, images, num_classes)
    losses = tf1.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf1.reduce_mean(losses, name="loss")
