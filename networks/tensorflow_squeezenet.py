"""SqueezeNet 1.1 in plain TensorFlow: few parameters, so that small links carry many steps."""

from typing import TYPE_CHECKING

import tensorflow.compat.v1 as tf1

from networks.tensorflow_layers import conv, dropout, max_pool

if TYPE_CHECKING:
    from tensorflow import Tensor

_STAGES = (
    ((16, 64), (16, 64)),
    ((32, 128), (32, 128)),
    ((48, 192), (48, 192), (64, 256), (64, 256)),
)
"""Squeeze and expand filters of each fire module; a pooling layer precedes each stage."""


def squeezenet(images: "Tensor", num_classes: int) -> "Tensor":
    """SqueezeNet 1.1: 1.24 M parameters at 1000 classes, whatever the image size.

    Args:
        images: float32 [batch, side, side, channels], side ≥ 32.
        num_classes: Length of a row of logits.

    Returns:
        Logits [batch, num_classes]; dropout is active.

    Source: Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters",
    arXiv 1602.07360, section 3, with the smaller first layer and earlier pooling of the authors'
    later version 1.1.
    """
    layer = conv("conv1", images, 64, 3, stride=2)
    number = 2
    for stage in _STAGES:
        layer = max_pool(layer, 3)
        for squeeze, expand in stage:
            layer = _fire(f"fire{number}", layer, squeeze, expand)
            number += 1
    classes = conv("conv10", dropout(layer, 0.5), num_classes, 1)
    return tf1.reduce_mean(classes, axis=(1, 2), name="average_pool")


def _fire(name: str, inputs: "Tensor", squeeze: int, expand: int) -> "Tensor":
    with tf1.variable_scope(name):
        squeezed = conv("squeeze", inputs, squeeze, 1)
        wide = conv("expand3", squeezed, expand, 3)
        return tf1.concat((conv("expand1", squeezed, expand, 1), wide), axis=-1)
