"""Inception v4 in plain TensorFlow."""

from functools import partial
from typing import TYPE_CHECKING

import tensorflow.compat.v1 as tf1

from networks.tensorflow_layers import avg_pool, conv_norm, dense, dropout, max_pool

if TYPE_CHECKING:
    from tensorflow import Tensor

_halved = partial(conv_norm, stride=2, padding="VALID")
_half_pool = partial(max_pool, size=3, padding="VALID")


def inception_v4(images: "Tensor", num_classes: int) -> "Tensor":
    """Inception v4: 42.7 M parameters at 1000 classes, whatever the image size.

    Every convolution is followed by batch normalization and has no bias of its own; updates of the
    moving averages are in the graph's collection `UPDATE_OPS`.

    Args:
        images: float32 [batch, side, side, channels], side ≥ 75.
        num_classes: Length of a row of logits.

    Returns:
        Logits [batch, num_classes]; dropout is active.

    Source: Szegedy, Ioffe, Vanhoucke, Alemi, "Inception-v4, Inception-ResNet and the Impact of
    Residual Connections on Learning", AAAI 2017, Figs. 3 to 9 (k, l, m, n of table 1).
    """
    layer = _stem(images)
    for i in range(4):
        layer = _module_a(f"a{i}", layer)
    layer = _reduction_a(layer)
    for i in range(7):
        layer = _module_b(f"b{i}", layer)
    layer = _reduction_b(layer)
    for i in range(3):
        layer = _module_c(f"c{i}", layer)
    features = tf1.reduce_mean(layer, axis=(1, 2), name="average_pool")
    return dense("logits", dropout(features, 0.2), num_classes, relu=False)


def _stem(images: "Tensor") -> "Tensor":
    with tf1.variable_scope("stem"):
        layer = _halved("conv1", images, 32, (3, 3))
        layer = conv_norm("conv2", layer, 32, (3, 3), padding="VALID")
        layer = conv_norm("conv3", layer, 64, (3, 3))
        layer = _joined(_half_pool(layer), _halved("conv4", layer, 96, (3, 3)))
        square = conv_norm("square_reduce", layer, 64, (1, 1))
        square = conv_norm("square", square, 96, (3, 3), padding="VALID")
        long = _chain("long", layer, (64, 1, 1), (64, 7, 1), (64, 1, 7))
        long = conv_norm("long", long, 96, (3, 3), padding="VALID")
        layer = _joined(square, long)
        return _joined(_halved("conv5", layer, 192, (3, 3)), _half_pool(layer))


def _module_a(name: str, inputs: "Tensor") -> "Tensor":
    with tf1.variable_scope(name):
        return _joined(
            conv_norm("pool", avg_pool(inputs, 3), 96, (1, 1)),
            conv_norm("direct", inputs, 96, (1, 1)),
            _chain("one", inputs, (64, 1, 1), (96, 3, 3)),
            _chain("two", inputs, (64, 1, 1), (96, 3, 3), (96, 3, 3)),
        )


def _reduction_a(inputs: "Tensor") -> "Tensor":
    with tf1.variable_scope("reduction_a"):
        reduced = _chain("two", inputs, (192, 1, 1), (224, 3, 3))
        return _joined(
            _half_pool(inputs),
            _halved("one", inputs, 384, (3, 3)),
            _halved("two", reduced, 256, (3, 3)),
        )


def _module_b(name: str, inputs: "Tensor") -> "Tensor":
    with tf1.variable_scope(name):
        return _joined(
            conv_norm("pool", avg_pool(inputs, 3), 128, (1, 1)),
            conv_norm("direct", inputs, 384, (1, 1)),
            _chain("one", inputs, (192, 1, 1), (224, 1, 7), (256, 7, 1)),
            _chain("two", inputs, (192, 1, 1), (192, 1, 7), (224, 7, 1), (224, 1, 7), (256, 7, 1)),
        )


def _reduction_b(inputs: "Tensor") -> "Tensor":
    with tf1.variable_scope("reduction_b"):
        square = conv_norm("one_reduce", inputs, 192, (1, 1))
        long = _chain("two", inputs, (256, 1, 1), (256, 1, 7), (320, 7, 1))
        return _joined(
            _half_pool(inputs),
            _halved("one", square, 192, (3, 3)),
            _halved("two", long, 320, (3, 3)),
        )


def _module_c(name: str, inputs: "Tensor") -> "Tensor":
    with tf1.variable_scope(name):
        one = conv_norm("one", inputs, 384, (1, 1))
        two = _chain("two", inputs, (384, 1, 1), (448, 1, 3), (512, 3, 1))
        return _joined(
            conv_norm("pool", avg_pool(inputs, 3), 256, (1, 1)),
            conv_norm("direct", inputs, 256, (1, 1)),
            conv_norm("one_wide", one, 256, (1, 3)),
            conv_norm("one_high", one, 256, (3, 1)),
            conv_norm("two_high", two, 256, (3, 1)),
            conv_norm("two_wide", two, 256, (1, 3)),
        )


def _chain(name: str, layer: "Tensor", *steps: tuple[int, int, int]) -> "Tensor":
    """Convolutions one after the other: (filters, height, width) of each."""
    for i, (filters, height, width) in enumerate(steps):
        layer = conv_norm(f"{name}_{i}", layer, filters, (height, width))
    return layer


def _joined(*branches: "Tensor") -> "Tensor":
    return tf1.concat(branches, axis=-1)
