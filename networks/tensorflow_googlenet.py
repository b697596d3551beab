"""GoogLeNet in plain TensorFlow, without the auxiliary classifiers."""

from typing import TYPE_CHECKING, NamedTuple

import tensorflow.compat.v1 as tf1

from networks.tensorflow_layers import conv, dense, dropout, local_response_norm, max_pool

if TYPE_CHECKING:
    from tensorflow import Tensor

_SMALL_IMAGE = 112


class _Inception(NamedTuple):
    """Filters of one module, in the order of the paper's table 1."""

    direct: int
    reduce3: int
    conv3: int
    reduce5: int
    conv5: int
    pool: int


_STAGES: tuple[dict[str, _Inception], ...] = (
    {
        "3a": _Inception(64, 96, 128, 16, 32, 32),
        "3b": _Inception(128, 128, 192, 32, 96, 64),
    },
    {
        "4a": _Inception(192, 96, 208, 16, 48, 64),
        "4b": _Inception(160, 112, 224, 24, 64, 64),
        "4c": _Inception(128, 128, 256, 24, 64, 64),
        "4d": _Inception(112, 144, 288, 32, 64, 64),
        "4e": _Inception(256, 160, 320, 32, 128, 128),
    },
    {
        "5a": _Inception(256, 160, 320, 32, 128, 128),
        "5b": _Inception(384, 192, 384, 48, 128, 128),
    },
)


def googlenet(images: "Tensor", num_classes: int) -> "Tensor":
    """Inception v1: 7.0 M parameters at 1000 classes, whatever the image size.

    The stem halves the image three times. Below 112 px its first convolution keeps the
    resolution instead, so that the last modules still see at least a 2 × 2 map. The paper
    names no constants for local response normalization: AlexNet's are used.

    Args:
        images: float32 [batch, side, side, channels], side ≥ 32.
        num_classes: Length of a row of logits.

    Returns:
        Logits [batch, num_classes]; dropout is active.

    Source: Szegedy et al., "Going Deeper with Convolutions", CVPR 2015, table 1.
    """
    stride = 1 if min(images.shape[1:3].as_list()) < _SMALL_IMAGE else 2
    layer = max_pool(conv("conv1", images, 64, 7, stride=stride), 3)
    layer = conv("conv2_reduce", local_response_norm(layer), 64, 1)
    layer = local_response_norm(conv("conv2", layer, 192, 3))
    for stage in _STAGES:
        layer = max_pool(layer, 3)
        for name, filters in stage.items():
            layer = _inception(f"inception_{name}", layer, filters)
    features = tf1.reduce_mean(layer, axis=(1, 2), name="average_pool")
    return dense("logits", dropout(features, 0.4), num_classes, relu=False)


def _inception(name: str, inputs: "Tensor", filters: _Inception) -> "Tensor":
    with tf1.variable_scope(name):
        branches = (
            conv("direct", inputs, filters.direct, 1),
            conv("conv3", conv("reduce3", inputs, filters.reduce3, 1), filters.conv3, 3),
            conv("conv5", conv("reduce5", inputs, filters.reduce5, 1), filters.conv5, 5),
            conv("pool", max_pool(inputs, 3, stride=1), filters.pool, 1),
        )
        return tf1.concat(branches, axis=-1)
