"""The layers that the plain TensorFlow networks are made of; images are [batch, y, x, channel].

Weights start as He et al. 2015 propose for rectifiers ("Delving Deep into Rectifiers", eq. 10),
biases at zero, whatever a network's own paper did: the speed of a step does not depend on it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import tensorflow.compat.v1 as tf1

if TYPE_CHECKING:
    from tensorflow import Tensor

_MOVING_AVERAGE_DECAY = 0.9997


def conv(name: str, inputs: "Tensor", filters: int, kernel: int, *, stride: int = 1) -> "Tensor":
    """Square convolution with bias and ReLU, padded so that the side is divided by `stride`."""
    with tf1.variable_scope(name):
        weights = _weights((kernel, kernel, int(inputs.shape[-1]), filters))
        outputs = tf1.nn.conv2d(inputs, weights, strides=stride, padding="SAME")
        return tf1.nn.relu(tf1.nn.bias_add(outputs, _biases(filters)))


def conv_norm(
    name: str,
    inputs: "Tensor",
    filters: int,
    kernel: tuple[int, int],
    *,
    stride: int = 1,
    padding: str = "SAME",
) -> "Tensor":
    """Convolution without bias, batch normalization and ReLU; `kernel` is height, width."""
    with tf1.variable_scope(name):
        weights = _weights((*kernel, int(inputs.shape[-1]), filters))
        outputs = tf1.nn.conv2d(inputs, weights, strides=stride, padding=padding)
        return tf1.nn.relu(_batch_norm(outputs))


def dense(name: str, inputs: "Tensor", units: int, *, relu: bool = True) -> "Tensor":
    """Fully connected layer on all that follows the batch dimension, with bias."""
    with tf1.variable_scope(name):
        features = int(inputs.shape[1:].num_elements())
        flat = tf1.reshape(inputs, (-1, features))
        outputs = tf1.nn.bias_add(tf1.matmul(flat, _weights((features, units))), _biases(units))
        return tf1.nn.relu(outputs) if relu else outputs


def linear(name: str, inputs: "Tensor", units: int) -> "Tensor":
    """Fully connected layer on the last dimension, with bias."""
    with tf1.variable_scope(name):
        *leading, features = inputs.shape.as_list()
        flat = tf1.reshape(inputs, (-1, features))
        outputs = tf1.nn.bias_add(tf1.matmul(flat, _weights((features, units))), _biases(units))
        return tf1.reshape(outputs, (*leading, units))


def layer_norm(name: str, inputs: "Tensor") -> "Tensor":
    """Normalize over the last dimension, then scale and shift.

    Source: Ba, Kiros, Hinton, "Layer Normalization", arXiv 1607.06450, section 3.
    """
    with tf1.variable_scope(name):
        units = (int(inputs.shape[-1]),)
        gain = tf1.get_variable("gain", units, initializer=tf1.ones_initializer())
        bias = tf1.get_variable("bias", units, initializer=tf1.zeros_initializer())
        mean, variance = tf1.nn.moments(inputs, axes=-1, keepdims=True)
        return (inputs - mean) * tf1.rsqrt(variance + 1e-6) * gain + bias


def lstm(name: str, inputs: Sequence["Tensor"], units: int) -> list["Tensor"]:
    """Long short-term memory, unrolled: what it says after each of a sequence's [batch, features].

    Source: Hochreiter, Schmidhuber, Neural Computation 9(8), 1997; forget gate by Gers et al. 2000.
    """
    with tf1.variable_scope(name):
        batch, features = inputs[0].shape.as_list()
        weights, biases = _weights((features + units, 4 * units)), _biases(4 * units)
        state = output = tf1.zeros((batch, units))
        outputs = []
        for step_inputs in inputs:
            seen = tf1.matmul(tf1.concat([step_inputs, output], axis=1), weights)
            enter, new, forget, leave = tf1.split(tf1.nn.bias_add(seen, biases), 4, axis=1)
            state = tf1.sigmoid(forget + 1) * state + tf1.sigmoid(enter) * tf1.tanh(new)
            output = tf1.sigmoid(leave) * tf1.tanh(state)
            outputs.append(output)
        return outputs


def max_pool(inputs: "Tensor", size: int, *, stride: int = 2, padding: str = "SAME") -> "Tensor":
    """Largest value of each `size` × `size` window."""
    return tf1.nn.max_pool2d(inputs, ksize=size, strides=stride, padding=padding)


def avg_pool(inputs: "Tensor", size: int) -> "Tensor":
    """Mean of each `size` × `size` window, at every place."""
    return tf1.nn.avg_pool2d(inputs, ksize=size, strides=1, padding="SAME")


def local_response_norm(inputs: "Tensor") -> "Tensor":
    """Local response normalization over 5 channels with AlexNet's constants.

    Source: Krizhevsky, Sutskever, Hinton, "ImageNet Classification with Deep Convolutional Neural
    Networks", NIPS 2012, section 3.3.
    """
    return tf1.nn.local_response_normalization(
        inputs, depth_radius=2, bias=2.0, alpha=1e-4, beta=0.75
    )


def dropout(inputs: "Tensor", rate: float) -> "Tensor":
    """Zero a share `rate` of the values, drawn anew in each step."""
    return tf1.nn.dropout(inputs, rate=rate)


def _batch_norm(inputs: "Tensor") -> "Tensor":
    """Normalize with the batch's mean and variance, and add updates of their moving averages.

    Source: Ioffe, Szegedy, "Batch Normalization", ICML 2015, algorithm 1.
    """
    channels = (int(inputs.shape[-1]),)
    ones, zeros = tf1.ones_initializer(), tf1.zeros_initializer()
    gamma = tf1.get_variable("gamma", channels, initializer=ones)
    beta = tf1.get_variable("beta", channels, initializer=zeros)
    outputs, *batch = tf1.nn.fused_batch_norm(inputs, gamma, beta, epsilon=1e-3)
    averages = ("moving_mean", zeros), ("moving_variance", ones)
    for (name, initializer), statistic in zip(averages, batch, strict=True):
        moving = tf1.get_variable(name, channels, initializer=initializer, trainable=False)
        # On the server, as Keras does it: what is sent is the batch's mean and variance.
        with tf1.device(moving.device):
            update = tf1.assign_sub(moving, (moving - statistic) * (1 - _MOVING_AVERAGE_DECAY))
        tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, update)
    return outputs


def _weights(shape: tuple[int, ...]) -> "Tensor":
    he_normal = tf1.variance_scaling_initializer(scale=2.0, mode="fan_in")
    return tf1.get_variable("weights", shape, initializer=he_normal)


def _biases(units: int) -> "Tensor":
    return tf1.get_variable("biases", (units,), initializer=tf1.zeros_initializer())
